"""What the planner pays beyond the exact optimum, on small random GPU workloads.

The optimum is found by `branching`. Where the time does not allow a proof, its bound from below is compared with.
Time is that of the CPU: a busy machine takes longer, but finds the same.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

from controller.domain.plan import Launch, Snapshot
from controller.domain.resources import GPU
from controller.planning.patterns import Pattern
from controller.planning.planner import plan
from controller.sandbox.bench.planner import gpu
from controller.sandbox.bench.planner.branching import Best, Tree
from controller.sandbox.bench.planner.floor import sold

PODS, OFFERS = (5, 60), (12, 40)
TOLD_EVERY = 50
QUICK = 2.0  # seconds, in which most are proven that ever are
_RESOURCES = (GPU, "cpu", "memory")

Column = tuple[float, Pattern]


def instance(seed: int, strategy: str = "cheapest") -> Snapshot:
    """Pods and offers, and no nodes."""
    draw = random.Random(seed)
    pods, count = draw.randint(*PODS), draw.randint(*OFFERS)
    every = gpu.offered(300)
    largest = draw.choice([offer for offer in every if offer.type.gpus == max(gpu.SIZES)])
    chosen = [largest, *draw.sample([offer for offer in every if offer is not largest], count - 1)]
    return gpu.on_offers(tuple(chosen), pods, draw, strategy)


def best(snapshot: Snapshot, known: Sequence[Column], seconds: float, clock: Callable[[], float]) -> Best:
    """The least price for which all pods run; `known` are the sets that some plan is made of, if it places all."""
    until = clock() + seconds
    needs = [tuple(float(pod.shape.requests.get(n, 0)) for n in _RESOURCES) for pod in snapshot.pods]
    machines = sorted(sold(snapshot, [snapshot.pods[0].shape]), key=lambda m: m.price)
    return Tree(
        prices=[machine.price for machine in machines],
        free=[tuple(float(machine.free.get(n, 0)) for n in _RESOURCES) for machine in machines],
        needs=needs,
        until=until,
        clock=clock,
    ).best([pattern for _, pattern in known])


def _price(columns: Iterable[Column]) -> float:
    return sum(price for price, _ in columns)


def planned(seed: int, strategy: str) -> tuple[list[Column], int]:
    """The sets of pods that the planner puts together, and how many pods it places nowhere."""
    snapshot = instance(seed, strategy)
    number = {pod.key: n for n, pod in enumerate(snapshot.pods)}
    launches = [action for action in plan(snapshot).actions if isinstance(action, Launch)]
    columns = [(float(a.offer.price), tuple(sorted(number[key] for key in a.pods))) for a in launches]
    return columns, len(number) - sum(len(pattern) for _, pattern in columns)


def judge(seed: int, seconds: float) -> dict[str, Any]:
    """One instance: what each strategy pays, and the best there is."""
    began = time.process_time()
    cheapest, unplaced = planned(seed, "cheapest")
    smallest, also = planned(seed, "smallest")
    snapshot = instance(seed)
    complete = [columns for columns, left in ((cheapest, unplaced), (smallest, also)) if not left]
    known = min(complete, key=_price, default=[])
    found = best(snapshot, known, seconds, time.process_time)
    return {
        "seed": seed,
        "pods": len(snapshot.pods),
        "offers": len(snapshot.offers),
        "optimum": round(found.price, 4),
        "bound": round(found.bound, 4),
        "proven": found.proven,
        "unplaced": unplaced + also,
        "cheapest": round(_price(cheapest) / found.bound - 1, 5),
        "smallest": round(_price(smallest) / found.bound - 1, 5),
        "seconds": round(time.process_time() - began, 2),
    }


def measure(
    seeds: Iterable[int],
    seconds: float = 20,
    processes: int = 2,
    told: Callable[[str], None] | None = None,
    at_most: float | None = None,
) -> dict[str, Any]:
    """`told`: how far it is, in words, now and then.

    `at_most` seconds in all: then every instance has a little time first, and those with the widest gaps all of theirs
    as long as there is some left.
    """
    began = time.perf_counter()
    found: list[dict[str, Any]] = []
    at_length = 0
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        short = seconds if at_most is None else min(QUICK, seconds)
        for judged in pool.map(partial(judge, seconds=short), seeds):
            found.append(judged)
            if told is not None and len(found) % TOLD_EVERY == 0:
                told(f"  {len(found)} after {time.perf_counter() - began:.0f} s")
        number = {each["seed"]: n for n, each in enumerate(found)}
        again = sorted((each for each in found if not each["proven"]), key=lambda each: -each["cheapest"])
        while at_most is not None and again and time.perf_counter() - began + seconds <= at_most:
            some = [each["seed"] for each in again[:processes]]
            del again[:processes]
            for judged in pool.map(partial(judge, seconds=seconds), some):
                found[number[judged["seed"]]] = judged
            at_length += len(some)
    if at_most is None:
        at_length = len(again)
    return {
        "instances": len(found),
        "proven": sum(each["proven"] for each in found),
        "at_length": at_length,  # of those that a little time did not prove: how many had all of it
        "unplaced": sum(each["unplaced"] for each in found),
        **{strategy: _gaps(found, strategy) for strategy in ("cheapest", "smallest")},
        "of_proven": {
            strategy: _gaps([each for each in found if each["proven"]], strategy)
            for strategy in ("cheapest", "smallest")
        },
        "seconds": round(time.perf_counter() - began, 1),
    }


def _gaps(found: Sequence[dict[str, Any]], strategy: str) -> dict[str, Any]:
    """Shares of the optimum (of the bound, where it is not proven) that are paid beyond it."""
    worst = sorted(found, key=lambda each: -each[strategy])
    if not worst:
        return {"mean": None, "worst": None, "worst_seeds": []}
    return {
        "mean": round(sum(each[strategy] for each in found) / len(found), 5),
        "worst": worst[0][strategy],
        "worst_seeds": [each["seed"] for each in worst[:5]],
    }
