"""From the watch line that makes a pod Unschedulable to the create request on the wire, over real HTTP.

The controller is a process of its own. Both worlds run here, so both moments are read from one clock:
the line when an independent watcher of the same server reads it, the request when it arrives.
"""

from __future__ import annotations

import asyncio
import json
import time
from statistics import quantiles
from typing import Any

import aiohttp

from controller.sandbox.bench.machine import measured_on
from controller.sandbox.bench.process import controller
from controller.sandbox.demo.stage import Stage
from controller.sandbox.wire import Request, Response

POOL = {"name": "a100", "instance_types": ["1A100.22V"], "locations": ["FIN-01"], "max": 1000}
SETTINGS = {
    "cluster_id": "bench",
    "pools": [POOL],
    "limits": {"launches_per_minute": 1000},
    "timing": {
        "quiet": "100ms",
        "longest": "1s",
        "tick": "10s",
        "poll_cloud": "30s",
        "poll_cloud_busy": "5s",
    },
}


async def measure(pods: int = 50) -> dict[str, Any]:
    async with Stage(cloud={"rate_limits": False, "script_quota": 10000}, boots=False) as stage:
        arrived: asyncio.Queue[float] = asyncio.Queue()
        handle = stage.cloud.handle

        def tapped(request: Request) -> Response:
            if request.method == "POST" and request.path.endswith("/instances"):
                arrived.put_nowait(time.perf_counter())
            return handle(request)

        stage.cloud.handle = tapped  # type: ignore[method-assign]
        async with controller(stage, SETTINGS):
            lines: asyncio.Queue[float] = asyncio.Queue()
            watching = asyncio.create_task(_watch(stage, lines))
            await asyncio.sleep(2)
            found = []
            for number in range(pods):
                await stage.pod(f"pod-{number}", 1)
                async with asyncio.timeout(30):
                    line = await lines.get()
                    found.append((await arrived.get() - line) * 1000)
                await asyncio.sleep(0.2)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    cuts = quantiles(found, n=100, method="inclusive")
    return {
        "p50_ms": round(cuts[49], 1),
        "p99_ms": round(cuts[98], 1),
        "max_ms": round(max(found), 1),
        "min_ms": round(min(found), 1),
        "pods": pods,
        "quiet_window_ms": 100,
        **measured_on(),
    }


async def _watch(stage: Stage, lines: asyncio.Queue[float]) -> None:
    """An independent watcher: the moment of the first line that calls each pod Unschedulable."""
    seen: set[str] = set()
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(timeout=timeout) as http,
        http.get(f"{stage.cluster_url}/api/v1/namespaces/default/pods?watch=true") as answer,
    ):
        async for line in answer.content:
            moment = time.perf_counter()
            pod = json.loads(line)["object"]
            name = pod["metadata"].get("name", "")
            conditions = pod.get("status", {}).get("conditions", [])
            if name not in seen and any(c.get("reason") == "Unschedulable" for c in conditions):
                seen.add(name)
                lines.put_nowait(moment)
