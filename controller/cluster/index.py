"""The pods in memory, found by UID, by node, and those that wait; and which of their changes matter.

The scheduler rewords its refusal of every waiting pod again and again, and kubelets report each
container's restart: such updates change nothing that is decided on, so nobody is woken for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntFlag

import msgspec

from controller.domain.kube import Pod
from controller.domain.resources import uses_accelerator


class Matter(IntFlag):
    """Whom a change concerns."""

    NOBODY = 0
    OTHER = 1
    DEMAND = 2  # a waiting pod came, changed or went
    CAPACITY = 4  # a node, or a pod that uses GPUs on one

    @property
    def kinds(self) -> list[str]:
        return [name for flag, name in _NAMES if self & flag]


_OF_LATE = 600.0  # seconds; far longer than from one look at the machines to the next
_MOST_USED = 1000
_NAMES = ((Matter.DEMAND, "demand"), (Matter.CAPACITY, "capacity"), (Matter.OTHER, "other"))


class PodIndex:
    """All unfinished pods. `declared`: resources that count like GPUs."""

    def __init__(self, declared: Iterable[str] = (), wall: Callable[[], float] = lambda: 0.0) -> None:
        self._wall = wall
        self._used: dict[str, float] = {}  # by node: when the last of its users left
        self._declared = frozenset(declared)
        self._pods: dict[str, Pod] = {}
        self._waiting: dict[str, Pod] = {}
        self._on: dict[str, dict[str, Pod]] = {}
        self._guarded: dict[str, Pod] = {}  # bound, and keep others off
        self._waiting_now: tuple[Pod, ...] | None = ()

    def declare(self, declared: Iterable[str]) -> None:
        """It only tells how much a change matters, so what is known stays as it is."""
        self._declared = frozenset(declared)

    def __len__(self) -> int:
        return len(self._pods)

    def uids(self) -> set[str]:
        return set(self._pods)

    def every(self) -> tuple[Pod, ...]:
        return tuple(self._pods.values())

    def get(self, uid: str) -> Pod | None:
        return self._pods.get(uid)

    def waiting(self) -> tuple[Pod, ...]:
        if self._waiting_now is None:
            self._waiting_now = tuple(self._waiting.values())
        return self._waiting_now

    def on(self, node: str) -> tuple[Pod, ...]:
        return tuple(self._on.get(node, {}).values())

    def guarded(self) -> tuple[Pod, ...]:
        return tuple(self._guarded.values())

    def used_until(self, node: str) -> float:
        return self._used.get(node, 0.0)

    def put(self, pod: Pod) -> Matter:
        """Take in what a pod is now. A finished one is no longer kept."""
        if pod.finished:
            return self.drop(pod.uid)
        before = self._pods.get(pod.uid)
        if before == pod:
            return Matter.NOBODY
        if before is not None:
            self._forget(before)
            if before.shape == pod.shape and before.shape is not pod.shape:
                pod = msgspec.structs.replace(pod, shape=before.shape)  # replicas go on sharing one
        self._pods[pod.uid] = pod
        if pod.node:
            self._on.setdefault(pod.node, {})[pod.uid] = pod
            if pod.shape.anti_affinity:
                self._guarded[pod.uid] = pod
        else:
            self._waiting[pod.uid] = pod
            self._waiting_now = None
        if before is not None and not pod.node and not before.node and _reworded(before, pod):
            return Matter.NOBODY
        return (self._matter(before) if before else Matter.NOBODY) | self._matter(pod)

    def drop(self, uid: str) -> Matter:
        before = self._pods.pop(uid, None)
        if before is None:
            return Matter.NOBODY
        self._forget(before)
        if before.node and self._uses(before):
            self._note_use(before.node)
        return self._matter(before)

    def _uses(self, pod: Pod) -> bool:
        """Work that holds GPUs. What a claim holds is not known here; a monitor's holds nothing."""
        shape = pod.shape
        return not (shape.is_daemon or shape.mirror) and uses_accelerator(shape.requests, self._declared)

    def _note_use(self, node: str) -> None:
        now = self._wall()
        if len(self._used) > _MOST_USED:  # nodes come and go
            self._used = {name: at for name, at in self._used.items() if 0 <= now - at < _OF_LATE}
        self._used[node] = now

    def _forget(self, pod: Pod) -> None:
        if not pod.node:
            self._waiting.pop(pod.uid, None)
            self._waiting_now = None
            return
        self._guarded.pop(pod.uid, None)
        there = self._on.get(pod.node)
        if there is not None:
            there.pop(pod.uid, None)
            if not there:
                del self._on[pod.node]

    def _matter(self, pod: Pod) -> Matter:
        if not pod.node:
            return Matter.DEMAND
        if pod.shape.has_claims or uses_accelerator(pod.shape.requests, self._declared):
            return Matter.CAPACITY
        return Matter.OTHER


def _reworded(before: Pod, after: Pod) -> bool:
    """Only the scheduler's words, or when it said them last, have changed."""
    if (before.unschedulable_since is None) != (after.unschedulable_since is None):
        return False
    same = msgspec.structs.replace(
        after, message=before.message, unschedulable_since=before.unschedulable_since
    )
    return same == before
