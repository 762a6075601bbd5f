"""Which of many sets hold every pod for the least money, sets taken or left: what a linear programme leaves open.

By the worth of pods in the solution of that programme each set is too dear by something, and so is a pod that is held
twice; what all that comes to is what a solution costs beyond the programme's. So it is looked for among the sets
that are hardly too dear first, then among more of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.planning.covering import Pods

_PARTS = (1 / 16, 1 / 4, 1)  # of what may be lost


class _Looking:
    def __init__(self, sets: Mapping[Pods, int], worth: Sequence[float], most: float) -> None:
        self._worth = worth
        self._all = (1 << len(worth)) - 1
        lost = [(max(0.0, price - sum([worth[pod] for pod in pods])), pods) for pods, price in sets.items()]
        self._holding: list[list[tuple[float, int, Pods]]] = [[] for _ in worth]
        for loss, pods in sorted(one for one in lost if one[0] < most):
            for pod in pods:
                self._holding[pod].append((loss, sum(1 << one for one in pods), pods))
        self._rank = sorted(range(len(worth)), key=lambda pod: len(self._holding[pod]))
        self._chosen: list[Pods] = []
        self._most, self._looks = most, 0
        self.found: list[Pods] = []

    def run(self, most: float, looks: int) -> list[Pods]:
        self._most, self._looks, self.found = most, looks, []
        self._go(0, 0.0)
        return self.found

    def _go(self, held: int, lost: float) -> None:
        if held == self._all:
            self.found, self._most = list(self._chosen), lost
            return
        next_one = next(pod for pod in self._rank if not held >> pod & 1)
        for loss, bits, pods in self._holding[next_one]:
            self._looks -= 1
            if lost + loss >= self._most or self._looks <= 0:
                return
            after = lost + loss
            if bits & held:
                after += sum([self._worth[pod] for pod in pods if held >> pod & 1])
            if after < self._most:
                self._chosen.append(pods)
                self._go(held | bits, after)
                self._chosen.pop()


def chosen(sets: Mapping[Pods, int], worth: Sequence[float], most: float, looks: int) -> list[Pods]:
    """Sets that hold every pod, and cost less than `most` beyond what the pods are worth; none if so many looks find none.

    A pod may be in several of them.
    """
    looking = _Looking(sets, [max(0.0, value) for value in worth], most)
    for part in _PARTS:
        found = looking.run(most * part, looks)
        if found:
            return found
    return []
