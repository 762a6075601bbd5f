"""What can be put together on one machine: the most valuable set of pods, or every set worth more than so much.

A search in depth, pods dense in value first. What is still to be won is bounded by filling the rest of the
machine with fractions of pods, measured by that mixture of the resources which bounds the most.
"""

from __future__ import annotations

from collections.abc import Sequence

# Shares of each resource in the mixture; the last one of them is what they are cut to.
_MIXTURES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.5, 0.5, 0.0), (0.5, 0.0, 0.5),
             (0.0, 0.5, 0.5), (0.34, 0.33, 0.33), (0.7, 0.15, 0.15))  # fmt: skip
EPSILON = 1e-9

Amounts = tuple[float, ...]  # of GPUs, CPU and memory, as shares of the machine
Pattern = tuple[int, ...]


class Box:
    """One kind of machine, and the pods that fit it alone."""

    def __init__(self, price: float, free: Amounts, pods: Sequence[Amounts]) -> None:
        self.price = price
        self.shares = {
            number: tuple(need / there for need, there in zip(needs, free, strict=True))
            for number, needs in enumerate(pods)
            if all(need <= there for need, there in zip(needs, free, strict=True))
        }

    def best(self, values: Sequence[float], more_than: float) -> tuple[float, Pattern] | None:
        search = _Search(self, values, more_than)
        search.run()
        return max(search.found) if search.found else None

    def every(self, values: Sequence[float], more_than: float, most: int) -> list[Pattern] | None:
        """All that nothing could be added to; None if they are more than `most`."""
        search = _Search(self, values, more_than, most)
        search.run()
        if search.too_many:
            return None
        return [pattern for _, pattern in search.found if self._full(pattern)]

    def _full(self, pattern: Pattern) -> bool:
        left = [1.0 + EPSILON - sum(self.shares[n][r] for n in pattern) for r in range(3)]
        inside = set(pattern)
        return not any(
            number not in inside and all(share <= rest for share, rest in zip(shares, left, strict=True))
            for number, shares in self.shares.items()
        )


class _Search:
    def __init__(self, box: Box, values: Sequence[float], more_than: float, every: int = 0) -> None:
        self._every = every
        self._more_than = more_than
        self.found: list[tuple[float, Pattern]] = []
        self.too_many = False
        worth = [number for number in box.shares if every or values[number] > EPSILON]
        self._order, self._weights = self._mixed(box, values, worth)
        self._values = [values[number] for number in self._order]
        self._needs = [box.shares[number] for number in self._order]

    @staticmethod
    def _mixed(box: Box, values: Sequence[float], worth: list[int]) -> tuple[list[int], list[float]]:
        """In the order of, and weighed by, the mixture that bounds the value of the whole machine the most."""
        best: tuple[float, list[int], list[float]] = (float("inf"), [], [])
        for mixture in _MIXTURES:
            weight = {
                n: max(EPSILON, sum(m * s for m, s in zip(mixture, box.shares[n], strict=True)))
                for n in worth
            }
            order = sorted(worth, key=lambda n: (-values[n] / weight[n], n))
            bound, room = 0.0, 1.0
            for number in order:
                part = min(1.0, room / weight[number])
                bound, room = bound + part * values[number], room - part * weight[number]
                if room <= EPSILON:
                    break
            if bound < best[0]:
                best = (bound, order, [weight[n] for n in order])
        return best[1], best[2]

    def run(self) -> None:
        self._look(0, 0.0, (1.0 + EPSILON,) * 3, 1.0, ())

    def _look(self, at: int, value: float, left: Amounts, room: float, inside: Pattern) -> None:
        """Take each of the pods from here on next, or none of them."""
        if value > self._more_than:
            self.found.append((value, tuple(sorted(self._order[n] for n in inside))))
            if not self._every:
                self._more_than = value
            elif len(self.found) > self._every:
                self.too_many = True
        a, b, c = left
        for number in range(at, len(self._order)):
            if self.too_many or value + self._bound(number, room) <= self._more_than:
                return
            x, y, z = self._needs[number]
            if x <= a and y <= b and z <= c:
                self._look(
                    number + 1,
                    value + self._values[number],
                    (a - x, b - y, c - z),
                    room - self._weights[number],
                    (*inside, number),
                )

    def _bound(self, at: int, room: float) -> float:
        total = 0.0
        values, weights = self._values, self._weights
        for number in range(at, len(values)):
            weight = weights[number]
            if weight >= room:
                return total + values[number] * max(room, 0.0) / weight
            room -= weight
            total += values[number]
        return total
