"""The sandbox cloud under load: how long a list of thousands takes, and whether many clients meet an error.

The cloud is the program that users start, in a process of its own; the clients are in this one. Each
client buys, looks, cleans up and begins again, at a pace that Verda's limits allow a project: first all
together in the project with the large list and without limits, then each in a project of its own with
them. No scenario asks for errors, so every status of 400 and above, every broken connection and every
answer later than the time-out counts as one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from controller.sandbox.bench.machine import measured_on

TIMEOUT = 30.0
PAUSE = 0.5  # between two requests of a client: about a hundred a minute, of 500 that are allowed
KNOBS = {"speed": 400, "rate_limits": False, "script_quota": 10_000, "balance": 10_000_000}
LIMITED = {"rate_limits": True, "project_per_client": True}
LISTS = 50


@dataclass
class Tally:
    took: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    machines: int = 0

    def shown(self, seconds: float) -> dict[str, Any]:
        return {
            "requests": len(self.took),
            "per_second": round(len(self.took) / seconds),
            **_percentiles(self.took),
            "machines": self.machines,
            "errors": sum(self.errors.values()),
            **({"first_errors": self.errors.most_common(5)} if self.errors else {}),
        }


async def measure(
    seconds: float = 60, clients: int = 200, instances: int = 2000, pause: float = PAUSE
) -> dict[str, Any]:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    async with _cloud() as url, aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
        planted = {"instance": {"hostname": "crowd-{n}", "count": instances}}
        await _tell(http, "POST", f"{url}/_sandbox/events", {"event": "plant", "things": [planted]})
        found: dict[str, Any] = {"list": await _lists(http, url)}
        found["clients"] = clients
        found["one project, no limits"] = await _crowd(http, url, clients, seconds, pause)
        await _tell(http, "PUT", f"{url}/_sandbox/settings", LIMITED)
        found["a project each, limits"] = await _crowd(http, url, clients, seconds, pause)
    return found | measured_on()


@contextlib.asynccontextmanager
async def _cloud() -> AsyncIterator[str]:
    with TemporaryDirectory(prefix="gpu-autoscaler-bench-") as folder:
        knobs = Path(folder) / "knobs.json"
        await asyncio.to_thread(knobs.write_text, json.dumps(KNOBS))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "controller.cli.main", "sandbox", "cloud", "--settings", str(knobs),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            if process.stdout is None:
                raise RuntimeError("the sandbox cloud has no output")
            async with asyncio.timeout(60):
                url = (await process.stdout.readline()).decode().strip()
            if not url:
                raise RuntimeError("the sandbox cloud did not start")
            yield url
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()


async def _tell(http: aiohttp.ClientSession, method: str, url: str, body: Any) -> None:
    async with http.request(method, url, json=body) as answer:
        if answer.status >= 300:
            raise RuntimeError(f"{method} {url}: {await answer.text()}")


async def _lists(http: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    """One client, one list after the other, until the last byte has arrived."""
    client = _Client(http, url, "lister", Tally())
    await client.log_in()
    took, size = [], 0
    for _ in range(LISTS):
        began = time.perf_counter()
        async with http.get(f"{url}/instances", headers=client.headers) as answer:
            size = len(await answer.read())
            took.append(time.perf_counter() - began)
    rows = json.loads((await client.call("GET", "/instances"))[1])
    return {"instances": len(rows), "kilobytes": size // 1000, **_percentiles(took)}


async def _crowd(
    http: aiohttp.ClientSession, url: str, clients: int, seconds: float, pause: float
) -> dict[str, Any]:
    tally = Tally()
    end = time.perf_counter() + seconds
    began = time.perf_counter()
    crowd = [_Client(http, url, f"client-{number}", tally, pause) for number in range(clients)]
    await asyncio.gather(*(client.work(end) for client in crowd))
    return tally.shown(time.perf_counter() - began)


class _Client:
    def __init__(
        self, http: aiohttp.ClientSession, url: str, name: str, tally: Tally, pause: float = 0.0
    ) -> None:
        self._pause = pause
        self._http, self._url, self._name, self._tally = http, url, name, tally
        self._rng = random.Random(name)
        self.headers: dict[str, str] = {}

    async def work(self, end: float) -> None:
        await asyncio.sleep(self._rng.uniform(0, self._pause))
        await self.log_in()
        number = 0
        while time.perf_counter() < end:
            number += 1
            await self._machine(f"{self._name}-{number}", whole=self._rng.random() < 0.1)

    async def log_in(self) -> None:
        body = {"grant_type": "client_credentials", "client_id": self._name, "client_secret": "bench"}
        status, text = await self.call("POST", "/oauth2/token", body)
        if status == 200:
            self.headers = {"Authorization": f"Bearer {json.loads(text)['access_token']}"}

    async def _machine(self, name: str, *, whole: bool) -> None:
        """A machine's life, and what a careful owner asks meanwhile."""
        await self.call("GET", "/instance-availability?is_spot=true")
        script = (await self.call("POST", "/scripts", {"name": name, "script": "#!/bin/bash\n"}))[1]
        body = {
            "instance_type": "1A100.22V",
            "image": "ubuntu-24.04",
            "hostname": name,
            "location_code": "FIN-01",
            "startup_script_id": script,
            "tags": [{"key": "owner", "value": self._name}],
        }
        status, instance_id = await self.call("POST", "/instances", body)
        if status != 202:
            return
        shown: dict[str, Any] = {}
        while shown.get("status") != "running":
            status, text = await self.call("GET", f"/instances/{instance_id}")
            if status != 200:
                return
            shown = json.loads(text)
        await self.call("GET", "/instances" + ("" if whole else f"?tag=owner={self._name}"))
        await self.call("GET", "/volumes" + ("" if whole else "?status=detached"))
        await self.call("DELETE", f"/scripts/{script}")
        disks = {"volume_ids": shown["volume_ids"], "delete_permanently": True}
        await self.call("PUT", "/instances", {"action": "delete", "id": instance_id, **disks})
        self._tally.machines += 1

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        await asyncio.sleep(self._pause * self._rng.uniform(0.8, 1.2))
        began = time.perf_counter()
        try:
            async with self._http.request(
                method, self._url + path, json=body, headers=self.headers
            ) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError) as problem:
            self._tally.errors[f"{method} {path.partition('?')[0]}: {problem!r}"] += 1
            return 0, ""
        self._tally.took.append(time.perf_counter() - began)
        if answer.status >= 400:
            self._tally.errors[f"{method} {path.partition('?')[0]}: {answer.status} {text[:80]}"] += 1
        return answer.status, text


def _percentiles(took: list[float]) -> dict[str, float]:
    if len(took) < 2:
        return {}
    cuts = quantiles(took, n=100, method="inclusive")
    named = {"p50_ms": cuts[49], "p99_ms": cuts[98], "max_ms": max(took)}
    return {name: round(value * 1000, 1) for name, value in named.items()}
