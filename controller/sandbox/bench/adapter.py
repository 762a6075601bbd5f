"""Orders in parallel against a cloud that takes 100 ms for every answer, and the connections they need.

The cloud is the sandbox in a process of its own, behind a door that counts who comes in: what is counted
is what the server sees.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import secrets
import sys
import time
from collections.abc import AsyncIterator
from statistics import median
from typing import Any

from controller.cloud.protocol import Order
from controller.cloud.verda.provider import VerdaCloud
from controller.domain.cloudthings import ON_DEMAND
from controller.domain.outcome import Happened
from controller.sandbox.bench.machine import measured_on
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.world import CloudWorld
from controller.sandbox.faults import Faults
from controller.sandbox.shell import serve

ANSWER_S = 0.1
READS = 100


async def measure(orders: int = 40, rounds: int = 5) -> dict[str, Any]:
    async with _cloud() as (url, connections):
        # Not through any proxy of this machine: it would be measured too.
        os.environ["NO_PROXY"] = "127.0.0.1"
        cloud = VerdaCloud(client_id="bench", client_secret=secrets.token_hex(8), base_url=f"{url}/v1")
        try:
            began = time.perf_counter()
            await cloud.inventory()  # as the controller does before anything else: SDK, token, list
            start = time.perf_counter() - began
            took = [await _buy(cloud, orders, each) for each in range(rounds)]
            before = await connections()
            for _ in range(READS):
                await cloud.inventory()
            one_by_one = await connections() - before
            await asyncio.gather(*(cloud.inventory() for _ in range(READS)))
            together = await connections() - before
        finally:
            await cloud.close()
    return {
        "orders": orders,
        "answer_ms": ANSWER_S * 1000,
        "p50_ms": round(median(took) * 1000),
        "max_ms": round(max(took) * 1000),
        "first_read_ms": round(start * 1000),
        "reads": READS,
        "connections_one_by_one": one_by_one,
        "connections_together": together,
        **measured_on(),
    }


async def _buy(cloud: VerdaCloud, orders: int, number: int) -> float:
    wanted = [
        Order(
            hostname=f"bench-{number}-{each}", description="", tags=(), instance_type="1A100.22V",
            location="FIN-03", market=ON_DEMAND, image="ubuntu-24.04", disk_gb=100,
        )
        for each in range(orders)
    ]  # fmt: skip
    began = time.perf_counter()
    outcomes = await asyncio.gather(*(cloud.create(order) for order in wanted))
    took = time.perf_counter() - began
    failed = [outcome for outcome in outcomes if not isinstance(outcome, Happened)]
    if failed:
        raise RuntimeError(f"{len(failed)} orders were not taken: {failed[0]}")
    return took


@contextlib.asynccontextmanager
async def _cloud() -> AsyncIterator[tuple[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "controller.sandbox.bench.adapter",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    stdin, stdout = process.stdin, process.stdout
    if stdin is None or stdout is None:
        raise RuntimeError("the sandbox cloud has no pipes")

    async def connections() -> int:
        stdin.write(b"count\n")
        return int(json.loads(await stdout.readline()))

    try:
        async with asyncio.timeout(60):
            url = (await stdout.readline()).decode().strip()
        yield url, connections
    finally:
        stdin.close()
        await process.wait()


# -- the other process


async def _serve() -> None:
    knobs = {"rate_limits": False, "balance": 10_000_000}
    world = CloudWorld(time.time, random.Random(0), Settings().changed(knobs))
    slow = {"fault": "delay_answer", "seconds": ANSWER_S, "times": 0}
    faults = Faults()
    faults.replace([slow])
    running = await serve(world, faults=faults)
    door = _Door(int(running.url.rpartition(":")[2]))
    server = await asyncio.start_server(door.enter, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(door.count, flush=True)
    server.close()
    await running.stop()


class _Door:
    """Lets everybody through and counts them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.count = 0

    async def enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.count += 1
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(_pass(reader, inner_writer), _pass(inner_reader, writer))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(_serve())
