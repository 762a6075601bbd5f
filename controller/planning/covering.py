"""A linear programme: which sets of pods, and how much of each, hold every pod for the least money.

The simplex method, with the inverse of the basis as rows. It begins with each pod alone, so there is always a
solution; what a set more would have to be worth is told by the value of each pod in the solution so far. Prices
and sums come in a fixed order, so the same sets give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

Pods = tuple[int, ...]

_LIKELY = 40  # sets that are looked at first, the ones that promised most when all were looked at
_TOO_SMALL = 1e-7  # of the dearest set's price: gains that are roundings; and of shares
_NOTHING = 1e-12
_SET = 12  # what it takes to look at a set, beside a number of the inverse


class Programme:
    def __init__(self, alone: Sequence[int]) -> None:
        """`alone`: the price of a machine for each pod by itself."""
        count = len(alone)
        self.sets: list[Pods] = [(pod,) for pod in range(count)]
        self.worth = [float(price) for price in alone]  # of each pod
        self._prices = list(alone)
        self._shares = [1.0] * count
        self._basis = list(range(count))  # numbers of sets; below zero: of a pod that is held more than once
        self._inverse = [[float(row == pod) for pod in range(count)] for row in range(count)]
        self.work = 0  # numbers that were worked out

    def add(self, pods: Pods, price: int) -> None:
        self.sets.append(pods)
        self._prices.append(price)

    def value(self) -> float:
        return sum(
            self._prices[one] * share
            for one, share in zip(self._basis, self._shares, strict=True)
            if one >= 0
        )

    def chosen(self) -> list[tuple[float, Pods]]:
        """Shares of sets, the largest first."""
        found = [
            (-share, self.sets[one])
            for one, share in zip(self._basis, self._shares, strict=True)
            if one >= 0 and share > _TOO_SMALL
        ]
        return [(-share, pods) for share, pods in sorted(found)]

    def solve(self, most: int, work: float = inf) -> int:
        """How many steps that took; with the most of them, or so much work, it is as good as it came to be."""
        sets, prices = self.sets, self._prices
        least = max(prices) * _TOO_SMALL
        likely: list[int] = []
        enough = self.work + work
        for steps in range(most):
            if self.work >= enough:
                return steps
            worth = self.worth.__getitem__
            gains = [(prices[one] - sum(map(worth, sets[one])), one) for one in likely]
            gains += [(value, ~pod) for pod, value in enumerate(self.worth)]
            gains = [gain for gain in gains if gain[0] < -least]
            if not gains:
                gains = [
                    (price - sum(map(worth, pods)), one)
                    for one, (price, pods) in enumerate(zip(prices, sets, strict=True))
                ]
                self.work += _SET * len(sets)
                gains = sorted(gain for gain in gains if gain[0] < -least)[:_LIKELY]
                if not gains:
                    return steps
                likely = [one for _, one in gains]
            likely = [one for _, one in sorted(gains) if one >= 0]
            if not self._enter(*min(gains)):
                return steps
        return most

    def _enter(self, gain: float, entering: int) -> bool:
        """One set more in the solution, and another one out of it."""
        inverse, shares = self._inverse, self._shares
        if entering >= 0:
            pods = self.sets[entering]
            column = [sum([row[pod] for pod in pods]) for row in inverse]
        else:
            column = [-row[~entering] for row in inverse]
        out, least = -1, 0.0
        for number, part in enumerate(column):
            if part > _TOO_SMALL:
                ratio = shares[number] / part
                near = ratio <= least + _NOTHING and part > column[out]
                if out < 0 or ratio < least - _NOTHING or near:
                    out, least = number, ratio
        if out < 0:  # numbers that are too close to nothing: what was found before is as good
            return False
        least = max(0.0, least)
        pivot = column[out]
        row = inverse[out] = [value / pivot for value in inverse[out]]
        for number, part in enumerate(column):
            shares[number] -= least * part
            if number != out and abs(part) > _NOTHING:
                inverse[number] = [a - part * b for a, b in zip(inverse[number], row, strict=True)]
                self.work += len(row)
        shares[out] = least
        self.worth = [a + gain * b for a, b in zip(self.worth, row, strict=True)]
        self._basis[out] = entering
        return True
