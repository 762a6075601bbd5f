"""A stage with quick worlds, and the controller as a process of its own that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from controller.sandbox.demo.stage import QUICK, Stage, merged
from tests import warm

CLOUD = {"speed": 200, "rate_limits": False}
CLUSTER = {"speed": 200}
POOL = {"name": "a100", "instance_types": ["1A100.22V", "2A100.44V"], "locations": ["FIN-01"], "max": 4}
SETTINGS: dict[str, Any] = {
    "cluster_id": "home",
    "pools": [POOL],
    "lease": {"duration": "3s", "renew": "1s", "spend_within": "2s"},
    "timing": {"poll_cloud": "500ms", "poll_cloud_busy": "300ms"},
    "deadlines": {"unknown_create": {"lists": 3, "over": "2s"}},
}


async def until(what: str, holds: Callable[[], Awaitable[Any]], *, within: float = 40.0) -> Any:
    """Wait for the real worlds, bounded; the first true value."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        if found := await holds():
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within {within:g} s: {what}")


class Process:
    """`verda-gpu-autoscaler run` as users start it."""

    def __init__(self, stage: Stage, folder: Path, settings: Mapping[str, Any] | None = None) -> None:
        self._stage = stage
        self._config = folder / "config.yaml"
        self._config.write_text(json.dumps(merged(merged(QUICK, SETTINGS), settings or {})))
        self._log = folder / "log"
        self._running: warm.Running | None = None

    @property
    def environ(self) -> dict[str, str]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("VERDA_", "GPU_AUTOSCALER_"))
        }
        return kept | {
            "VERDA_CLIENT_ID": "client",
            "VERDA_CLIENT_SECRET": "never-in-any-log",
            "VERDA_BASE_URL": self._stage.cloud_url + "/v1",
        }

    async def start(self, *more: str) -> None:
        words = ("run", "--config", str(self._config), "--kubeconfig", self._stage.kubeconfig)
        self._running = warm.start(
            *words, "--listen", "127.0.0.1:0", *more, env=self.environ, out=self._log, err=self._log
        )

    async def kill(self) -> None:
        assert self._running is not None
        self._running.send_signal(signal.SIGKILL)
        await self._running.wait()

    async def stop(self) -> int:
        assert self._running is not None
        if self._running.returncode is None:
            self._running.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self._running.wait(), 60)

    @property
    def log(self) -> str:
        return self._log.read_text()


async def pod_phase(stage: Stage, name: str) -> str:
    pods = await stage.pods()
    return pods[name]["status"]["phase"] if name in pods else ""


def runs(stage: Stage, name: str) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return await pod_phase(stage, name) in ("Running", "Succeeded")

    return check


def ordered(stage: Stage, count: int) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return bool((await stage.bill())["creates"] >= count)

    return check


def nothing_left(stage: Stage) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        state = await stage.bill()
        return not any(state[part] for part in ("instances", "volumes", "trash", "scripts"))

    return check


def followed(stage: Stage) -> Callable[[], Awaitable[bool]]:
    """The ledger holds exactly one machine, and it is ready."""

    async def check() -> bool:
        found = await stage.get("/api/v1/namespaces/gpu-autoscaler/configmaps/gpu-autoscaler-ledger")
        machines = json.loads(found.get("data", {}).get("ledger.json", "{}")).get("machines", [])
        alive = [machine for machine in machines if machine["phase"] != "tombstone"]
        return [machine["phase"] for machine in alive] == ["ready"]

    return check
