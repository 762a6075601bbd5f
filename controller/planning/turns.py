"""Whose turn it is where limits leave room for some pods only: by priority, gang and GPUs, and then the oldest.

Machines are filled best in another order, with large pods and strict rules first. Where that lets a younger pod pass an
older one that a limit leaves out, one that is larger and keeps coming would keep the older one waiting for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from controller.domain.reason import Reason
from controller.domain.resources import gpus_of
from controller.planning.fit import Ask
from controller.planning.workshop import Packing

LIMITS = frozenset(
    (
        Reason.LIMIT_GPUS,
        Reason.LIMIT_MACHINES,
        Reason.LIMIT_PRICE,
        Reason.LIMIT_BUDGET,
        Reason.LIMIT_CORES,
        Reason.LIMIT_MEMORY,
        Reason.LIMIT_NAMESPACE,
        Reason.LIMIT_RATE,
        Reason.LIMIT_SCRIPTS,
    )
)


def limited(packing: Packing) -> bool:
    """Whether a limit left somebody without a place."""
    return any(why is not None and why.code in LIMITS for why in packing.unplaced.values())


def _limits(packing: Packing, ask: Ask) -> bool:
    why = packing.unplaced[ask.pod.key]
    return why is not None and why.code in LIMITS


class Turns:
    """Of these pods, which come in planning order: gangs keep their place in it."""

    def __init__(self, pods: Sequence[Ask], declared: Collection[str]) -> None:
        sizes = {ask.size: ask.pod.shape.requests for ask in pods}
        self._gpus = {size: sum(gpus_of(asked, declared).values()) for size, asked in sizes.items()}
        self.line: list[Ask] = []
        at = 0
        while at < len(pods):
            end = at
            while end < len(pods) and pods[end].gang is None:
                end += 1
            self.line += sorted(pods[at:end], key=self._turn)
            while end < len(pods) and pods[end].gang is not None:
                self.line.append(pods[end])
                end += 1
            at = end

    def _turn(self, ask: Ask) -> tuple[int, int, float, str]:
        return (*self._like(ask), ask.pod.created, ask.pod.key)

    def _like(self, ask: Ask) -> tuple[int, int]:
        return (-ask.pod.shape.priority, -self._gpus[ask.size])

    def passed(self, packing: Packing) -> bool:
        """Whether a limit left out a pod that is before one with a place, of the same priority and as many GPUs."""
        passed: set[tuple[int, int]] = set()
        for ask in self.line:
            if ask.gang is not None:
                continue
            if ask.pod.key not in packing.unplaced:
                if passed and self._like(ask) in passed:
                    return True
            elif _limits(packing, ask):
                passed.add(self._like(ask))
        return False

    def beyond(self, packing: Packing) -> set[str]:
        """Who has to wait if as many of the same priority and as many GPUs are served, the first in line."""
        alone = [ask for ask in self.line if ask.gang is None]
        room = Counter(self._like(ask) for ask in alone if ask.pod.key not in packing.unplaced)
        found: set[str] = set()
        for ask in alone:
            possible = ask.pod.key not in packing.unplaced or _limits(packing, ask)
            if possible and room[self._like(ask)]:
                room[self._like(ask)] -= 1
            else:
                found.add(ask.pod.key)
        return found

    def behind(self, pods: Sequence[Ask], keys: Collection[str]) -> list[Ask]:
        """The pods in their order, but these behind others of the same priority and as many GPUs, in turn."""
        found: list[Ask] = []
        waiting: list[Ask] = []
        for ask in pods:
            if waiting and (ask.gang is not None or self._like(ask) != self._like(waiting[0])):
                found += sorted(waiting, key=self._turn)
                waiting = []
            (waiting if ask.gang is None and ask.pod.key in keys else found).append(ask)
        return found + sorted(waiting, key=self._turn)

    def fairer(self, other: Packing, best: Packing) -> bool:
        """No more pods and GPUs are left out, the most urgent ones before all, and the first who gains is first in line."""
        ours, theirs = self._left(best), self._left(other)
        if ours != theirs:
            return theirs < ours
        for ask in self.line:
            left_out = ask.pod.key in other.unplaced
            if left_out is not (ask.pod.key in best.unplaced):
                return not left_out
        return False

    def _left(self, packing: Packing) -> tuple[list[int], list[int]]:
        """Pods, and GPUs, without a place, by falling priority."""
        pods: Counter[int] = Counter()
        gpus: Counter[int] = Counter()
        for ask in self.line:
            if ask.pod.key in packing.unplaced:
                pods[ask.pod.shape.priority] += 1
                gpus[ask.pod.shape.priority] += self._gpus[ask.size]
        falling = sorted({ask.pod.shape.priority for ask in self.line}, reverse=True)
        return [pods[priority] for priority in falling], [gpus[priority] for priority in falling]
