"""Resident memory of the controller's process: beside an empty cluster, and beside a large one."""

from __future__ import annotations

import asyncio
from typing import Any

from controller.sandbox.bench.machine import measured_on, resident_mib
from controller.sandbox.bench.process import controller
from controller.sandbox.demo.stage import Stage

SETTINGS = {
    "cluster_id": "bench",
    "pools": [{"name": "a100", "instance_types": ["1A100.22V"], "max": 4}],
    "timing": {"tick": "2s"},
}
SETTLE = 8.0


async def measure(nodes: int = 1000, pods: int = 30000) -> dict[str, Any]:
    async with Stage(cloud={"rate_limits": False}, boots=False) as stage:
        idle, _ = await _resident(stage)
        await stage.create("/_sandbox/load", {"nodes": nodes, "pods": pods, "gpu_nodes": nodes // 20})
        full, peak = await _resident(stage)
    return {
        "rss_mib": full,
        "rss_idle_mib": idle,
        "above_idle_mib": round(full - idle, 1),
        "peak_mib": peak,
        "nodes": nodes,
        "pods": pods,
        **measured_on(),
    }


async def _resident(stage: Stage) -> tuple[float, float]:
    async with controller(stage, SETTINGS) as started:
        await asyncio.sleep(SETTLE)
        return resident_mib(started.pid)
