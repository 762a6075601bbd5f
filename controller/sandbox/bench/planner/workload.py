"""A workload for the planner: a snapshot of real nouns, and pods that wait, made anew for every run.

Pods that are alike share a shape, as the decoder has it; shapes made anew keep a run from profiting from
what an earlier one found out about the same objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.domain.kube import Pod, PodShape
from controller.domain.plan import Snapshot

NOW = 1_800_000_000.0
SEED = 42
UNBOUND = 10**9  # for limits that measure something else than the planner


@dataclass(frozen=True, slots=True)
class Workload:
    base: Snapshot  # everything but the pods that wait
    waiting: Callable[[], tuple[Pod, ...]]

    def snapshot(self) -> Snapshot:
        return msgspec.structs.replace(self.base, pods=(*self.base.pods, *self.waiting()))


def waiting_pods(shapes: Iterable[dict[str, Any]], namespace: str = "default") -> tuple[Pod, ...]:
    """Pods that the scheduler could not place, in the order of their age."""
    known: dict[bytes, PodShape] = {}
    found = []
    for number, values in enumerate(shapes):
        shape = PodShape(**values)
        shape = known.setdefault(msgspec.json.encode(shape), shape)
        found.append(
            Pod(
                namespace=namespace,
                name=f"waiting-{number:06d}",
                uid=f"waiting-{number:06d}",
                shape=shape,
                created=NOW - 60 + number * 1e-4,
                unschedulable_since=NOW - 30,
            )
        )
    return tuple(found)


def classes(pods: Iterable[Pod]) -> int:
    """How many kinds of pods there are that differ in anything but their names."""
    return len({id(pod.shape) for pod in pods})
