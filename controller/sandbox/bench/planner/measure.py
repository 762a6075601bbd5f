"""How fast the production planner plans a workload, and how near its price is to the floor.

The garbage collector runs as it does in production: what was there before the pods came is frozen.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from controller.cluster.memory import settle
from controller.domain.plan import Launch, Plan, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import plan
from controller.sandbox.bench.planner import gpu, karpenter
from controller.sandbox.bench.planner.floor import price_floor
from controller.sandbox.bench.planner.workload import Workload, classes

RUNS = 3
CHOICES = ("smallest", "cheapest", "priority")
STRATEGIES = {"karpenter": "cheapest", "gpu": "smallest"}
_PLACED = (Reason.LAUNCHING, Reason.FITS_NOW, Reason.ON_THE_WAY, Reason.GPUS_FREED_SOON)


@dataclass(frozen=True, slots=True)
class Measured:
    snapshot: Snapshot
    plan: Plan
    seconds: float

    @property
    def launches(self) -> list[Launch]:
        return [action for action in self.plan.actions if isinstance(action, Launch)]

    def numbers(self, *, floor: bool = True) -> dict[str, Any]:
        waiting = [pod for pod in self.snapshot.pods if not pod.node]
        by_key = {pod.key: pod for pod in waiting}
        launches = self.launches
        bought_for = [by_key[key] for launch in launches for key in launch.pods]
        placed = {pod.key for pod in bought_for} | {
            key for key, why in self.plan.pods.items() if why.code in _PLACED
        }
        least = price_floor(self.snapshot, bought_for) if floor else None
        return {
            "pods": len(waiting),
            "classes": classes(waiting),
            "machines": len(launches),
            "seconds": round(self.seconds, 4),
            "pods_per_second": round(len(waiting) / self.seconds, 1),
            "unplaced": sum(pod.key not in placed for pod in waiting),
            "price_per_hour": round(float(sum((each.offer.price for each in launches), Decimal(0))), 4),
            "price_floor": None if least is None else round(least, 4),
        }


def workload(name: str, pods: int, offers: int | None = None, strategy: str = "") -> Workload:
    strategy = strategy or STRATEGIES[name]
    if name == "karpenter":
        return karpenter.workload(pods, offers or karpenter.TYPES, strategy)
    return gpu.workload(pods, offers or gpu.OFFERS, strategy=strategy)


def measure(work: Workload, runs: int = RUNS, clock: Callable[[], float] = time.perf_counter) -> Measured:
    """The fastest of several runs, each on pods of its own."""
    settle()
    best: Measured | None = None
    for _ in range(runs):
        snapshot = work.snapshot()
        gc.collect()
        began = clock()
        made = plan(snapshot)
        seconds = clock() - began
        if best is None or seconds < best.seconds:
            best = Measured(snapshot, made, seconds)
    if best is None:
        raise ValueError("a measurement takes at least one run")
    return best
