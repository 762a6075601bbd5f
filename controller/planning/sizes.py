"""How much is free in many places at once: sets of places with at least so much, as integers.

For each resource the amounts that pods ask for are cut into a few dozen levels. A question is answered by
the level below the amount, so the set may hold a few places that are a little too small: whoever picks
one looks at it exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

_LEVELS = 48


def levels_of(amounts: Iterable[int]) -> list[int]:
    distinct = sorted(set(amounts))
    if len(distinct) <= _LEVELS:
        return distinct
    step = len(distinct) / _LEVELS
    return sorted({distinct[int(n * step)] for n in range(_LEVELS)})


# Sets of places, and which of them: by the level of one amount each.
Gate = tuple[tuple[list[int], int], ...]


class Sizes:
    """`levels` are ascending amounts by resource; what nobody asks for is not indexed."""

    def __init__(self, levels: Mapping[str, list[int]]) -> None:
        self._levels = levels
        self._sets: dict[str, list[int]] = {name: [0] * len(found) for name, found in levels.items()}
        self._at: list[dict[str, int]] = []  # by place: levels reached

    def add(self, free: Mapping[str, int]) -> None:
        bit = 1 << len(self._at)
        reached: dict[str, int] = {}
        for name, levels in self._levels.items():
            at = bisect_right(levels, free.get(name, 0))
            reached[name] = at
            sets = self._sets[name]
            for level in range(at):
                sets[level] |= bit
        self._at.append(reached)

    def cut(self, places: int) -> None:
        """Forget all places but the first so many."""
        if len(self._at) == places:
            return
        del self._at[places:]
        kept = (1 << places) - 1
        for sets in self._sets.values():
            sets[:] = [of & kept for of in sets]

    def pop(self) -> None:
        """Forget the last place."""
        reached = self._at.pop()
        bit = 1 << len(self._at)
        for name, at in reached.items():
            sets = self._sets[name]
            for level in range(at):
                sets[level] &= ~bit

    def change(self, number: int, name: str, free: int) -> None:
        levels = self._levels.get(name)
        if levels is None:
            return
        reached = self._at[number]
        was, now = reached[name], bisect_right(levels, free)
        if now == was:
            return
        reached[name] = now
        bit, sets = 1 << number, self._sets[name]
        if now < was:
            for level in range(now, was):
                sets[level] ^= bit
        else:
            for level in range(was, now):
                sets[level] |= bit

    def gate(self, needs: Mapping[str, int]) -> Gate:
        """The needs, looked up once for many questions."""
        found = []
        for name, units in needs.items():
            at = bisect_right(self._levels[name], units) - 1
            if at >= 0:
                found.append((self._sets[name], at))
        return tuple(found)

    @staticmethod
    def through(gate: Gate, among: int) -> int:
        for sets, at in gate:
            among &= sets[at]
        return among

    def holding(self, needs: Mapping[str, int], among: int) -> int:
        """Places among these that hold the needs, or nearly."""
        for name, units in needs.items():
            levels = self._levels[name]
            at = bisect_right(levels, units) - 1
            if at >= 0:
                among &= self._sets[name][at]
                if not among:
                    return 0
        return among
