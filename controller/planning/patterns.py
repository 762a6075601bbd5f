"""What can be put together on one machine: ever more valuable sets of pods, or every set worth more than so much.

A search in depth, pods dense in value first. What is still to be won is bounded by filling the rest of the
machine with fractions of pods, measured by that mixture of the resources which bounds the most.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

# Shares of each resource in the mixture, to begin with.
_MIXTURES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.5, 0.5, 0.0), (0.5, 0.0, 0.5),
             (0.0, 0.5, 0.5), (0.34, 0.33, 0.33), (0.7, 0.15, 0.15))  # fmt: skip
_STEP, _FINEST = 0.2, 0.02  # by which a mixture is made better
EPSILON = 1e-9
_LOOKS = 1000  # between two times that `check` is called

Amounts = tuple[float, ...]  # of GPUs, CPU and memory, as shares of the machine
Mixture = tuple[float, float, float]
Pattern = tuple[int, ...]
Line = list[tuple[float, float, Pattern]]  # weight, value, pods that go together; the densest first


@dataclass(frozen=True, slots=True)
class Rules:
    """Of sets: the pods as they go together (None: each by itself), pairs that do not, and who stays out."""

    groups: tuple[Pattern, ...] | None = None
    apart: tuple[Pattern, ...] = ()
    out: Collection[int] = ()


ANY = Rules()


def _never() -> None:
    """No clock."""


class Box:
    """One kind of machine, and the pods that fit it alone. `check`, called now and then, raises when that is enough."""

    def __init__(
        self, price: float, free: Amounts, pods: Sequence[Amounts], check: Callable[[], None] = _never
    ) -> None:
        self.price = price
        self.check = check
        self.shares = {
            number: tuple(need / there for need, there in zip(needs, free, strict=True))
            for number, needs in enumerate(pods)
            if all(need <= there for need, there in zip(needs, free, strict=True))
        }
        self._mixture: Mixture | None = None  # that bounded the most the last time

    def better(
        self, values: Sequence[float], more_than: float, rules: Rules = ANY
    ) -> list[tuple[float, Pattern]]:
        """Sets that are worth more, each more than the one before; the last one is worth the most of all."""
        return _Search(self, values, rules, positive=True).run(more_than)

    def every(
        self, values: Sequence[float], more_than: float, most: int, rules: Rules = ANY
    ) -> list[Pattern] | None:
        """All that nothing could be added to; None if they are more than `most`."""
        search = _Search(self, values, rules, positive=False)
        found = search.run(more_than, most)
        return None if search.too_many else [pattern for _, pattern in found]

    def holds(self, pattern: Pattern) -> bool:
        return all(n in self.shares for n in pattern) and all(
            sum(self.shares[n][r] for n in pattern) <= 1.0 + EPSILON for r in range(3)
        )

    def together(self, rules: Rules) -> dict[Pattern, Amounts]:
        """What is taken or left as one, and how much of the machine it takes."""
        if rules.groups is None:
            return {(n,): shares for n, shares in self.shares.items() if n not in rules.out}
        found = {}
        for group in rules.groups:
            if not any(n in rules.out for n in group) and self.holds(group):
                found[group] = tuple(sum(self.shares[n][r] for n in group) for r in range(3))
        return found

    def line(self, shares: dict[Pattern, Amounts], values: dict[Pattern, float]) -> tuple[float, Line]:
        """No set is worth more than this; and the order and weights that show it."""

        def mixed(mixture: Mixture) -> tuple[float, Line]:
            a, b, c = mixture
            line = [
                (max(EPSILON, a * x + b * y + c * z), values[one], one) for one, (x, y, z) in shares.items()
            ]
            line.sort(key=lambda one: (-one[1] / one[0], one[2]))
            bound, room = 0.0, 1.0
            for weight, value, _ in line:
                if weight >= room:
                    return bound + value * room / weight, line
                bound, room = bound + value, room - weight
            return bound, line

        begin = _MIXTURES if self._mixture is None else (self._mixture,)
        (bound, line), best = min(((mixed(each), each) for each in begin), key=lambda one: one[0][0])
        step = _STEP
        while step > _FINEST:
            was = best
            for resource in range(3):
                for change in (step, -step):
                    parts = [max(0.0, p + change * (n == resource)) for n, p in enumerate(was)]
                    if whole := sum(parts):
                        other = (parts[0] / whole, parts[1] / whole, parts[2] / whole)
                        found = mixed(other)
                        if found[0] < bound - EPSILON:
                            (bound, line), best = found, other
            step = step if best != was else step / 2
        self._mixture = best
        return bound, line


@dataclass(slots=True)
class _Search:
    box: Box
    values: Sequence[float]
    rules: Rules
    positive: bool  # only what is worth something, and nothing that another could stand for
    too_many: bool = False
    _bound: float = 0.0
    _line: Line = field(default_factory=list)
    _needs: list[Amounts] = field(default_factory=list)
    _foes: list[int] = field(default_factory=list)  # of each, as bits: with whom it is in no set
    _lesser: list[int] = field(default_factory=list)  # of each: who needs as much and is worth no more

    def __post_init__(self) -> None:
        shares = self.box.together(self.rules)
        values = {one: sum(self.values[n] for n in one) for one in shares}
        if self.positive:
            shares = {one: share for one, share in shares.items() if values[one] > EPSILON}
        self._bound, self._line = self.box.line(shares, values)
        self._needs = [shares[one] for _, _, one in self._line]
        at = {n: place for place, (_, _, one) in enumerate(self._line) for n in one}
        self._foes = [0] * len(self._line)
        for one, other in self.rules.apart:
            if one in at and other in at:
                self._foes[at[one]] |= 1 << at[other]
                self._foes[at[other]] |= 1 << at[one]
        self._lesser = [self._stands_for(place) if self.positive else 0 for place in range(len(self._line))]

    def _stands_for(self, place: int) -> int:
        """Whoever comes later is in a best set only if this one is: it could have the place."""
        if self._foes[place]:
            return 0
        (x, y, z), value = self._needs[place], self._line[place][1]
        found = 0
        for other in range(place + 1, len(self._line)):
            a, b, c = self._needs[other]
            if x <= a and y <= b and z <= c and value >= self._line[other][1]:
                found |= 1 << other
        return found

    def run(self, more_than: float, most: int | None = None) -> list[tuple[float, Pattern]]:
        """With `most`, all and not ever better ones."""
        if self._bound <= more_than:
            return []
        line, needs, foes, lesser = self._line, self._needs, self._foes, self._lesser
        count = len(line)
        weights, worth = [0.0], [0.0]  # of the first so many
        for weight, value, _ in line:
            weights.append(weights[-1] + weight)
            worth.append(worth[-1] + value)
        dense = [value / weight for weight, value, _ in line] + [0.0]
        found: list[tuple[float, Pattern]] = []
        inside: list[int] = []
        looks = 0

        def look(at: int, value: float, left: tuple[float, float, float], room: float, shut: int) -> None:
            """Take each of the pods from here on next, or none of them."""
            nonlocal more_than, looks
            looks += 1
            if looks % _LOOKS == 0:
                self.box.check()
            if value > more_than:
                if most is None:
                    more_than = value
                    found.append((value, self._pods(inside)))
                elif self._full(inside, left, shut):
                    found.append((value, self._pods(inside)))
                    self.too_many = len(found) > most
            a, b, c = left
            for number in range(at, count):
                end = weights[number] + room
                last = bisect_right(weights, end, number) - 1
                most_of_rest = worth[last] - worth[number] + (end - weights[last]) * dense[last]
                if self.too_many or value + most_of_rest <= more_than:
                    return
                if not shut >> number & 1:
                    x, y, z = needs[number]
                    if x <= a and y <= b and z <= c:
                        weight, more, _ = line[number]
                        inside.append(number)
                        look(
                            number + 1,
                            value + more,
                            (a - x, b - y, c - z),
                            room - weight,
                            shut | foes[number],
                        )
                        inside.pop()
                shut |= lesser[number]

        look(0, 0.0, (1.0 + EPSILON,) * 3, 1.0 + EPSILON, 0)
        return found

    def _pods(self, inside: Sequence[int]) -> Pattern:
        return tuple(sorted(n for place in inside for n in self._line[place][2]))

    def _full(self, inside: Sequence[int], left: tuple[float, float, float], shut: int) -> bool:
        a, b, c = left
        taken = set(inside)
        return not any(
            x <= a and y <= b and z <= c and place not in taken and not shut >> place & 1
            for place, (x, y, z) in enumerate(self._needs)
        )
