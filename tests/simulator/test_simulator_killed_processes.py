"""The same story with real processes: SIGKILL at random moments of it, against the sandboxes over HTTP.

`KILLED=200` (as `make soak` sets it) kills so many; the seed of the moments is printed, `KILLED_SEED` repeats it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from controller.sandbox.demo.stage import Stage
from tests.loop.acting import CLOUD, CLUSTER, Process, nothing_left, until

KILLS = int(os.environ.get("KILLED", "20"))
SEED = int(os.environ.get("KILLED_SEED", random.SystemRandom().randrange(1_000_000)))
TOGETHER = 10  # processes are started that many at a time
STORY_S = 9.0  # a story takes about so long, with the start of its process
QUICK = {"scale_down": {"cooldown": "500ms"}}


@asynccontextmanager
async def _phases(stage: Stage, name: str) -> AsyncIterator[set[str]]:
    """All that the pod went through: once its machine's Node is gone, a finished pod is collected with it."""
    seen: set[str] = set()
    path = f"/api/v1/namespaces/default/pods?watch=1&fieldSelector=metadata.name={name}"

    async def follow() -> None:
        async with (
            aiohttp.ClientSession() as http,
            http.get(stage.cluster_url + path, timeout=None) as answer,
        ):
            async for line in answer.content:
                seen.add(json.loads(line)["object"]["status"]["phase"])

    following = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _killed_once(folder: Path, after: float, name: str) -> None:
    """Bought, booted, used, removed, with one death on the way: one machine for the pod, nothing at the end."""
    folder.mkdir()
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage, _phases(stage, name) as seen:

        async def done() -> bool:
            return "Succeeded" in seen

        process = Process(stage, folder, QUICK)
        await process.start()
        try:
            await stage.pod(name, 1, run_for=100.0)
            await asyncio.sleep(after)
            await process.kill()
            await process.start()
            await until(f"{name} ran to its end", done, within=180)
            await until("nothing is left", nothing_left(stage), within=120)
            assert (await stage.bill())["creates"] == 1
        except AssertionError as error:
            raise AssertionError(
                f"killed after {after:.3f} s: {error}; the pod was {seen}\n{process.log}"
            ) from error
        finally:
            await process.stop()


async def test_killed_at_any_moment_there_is_one_machine_for_the_pod_and_nothing_at_the_end(
    tmp_path: Path,
) -> None:
    print(f"KILLED_SEED={SEED}")
    rng = random.Random(SEED)
    moments = [rng.uniform(0.0, STORY_S) for _ in range(KILLS)]
    gate = asyncio.Semaphore(TOGETHER)

    async def one(number: int, after: float) -> None:
        async with gate:
            await _killed_once(tmp_path / str(number), after, f"train-{number}")

    await asyncio.gather(*(one(number, after) for number, after in enumerate(moments)))
