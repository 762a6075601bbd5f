"""Pods and kinds of machines as numbers that are quick to compare: which kind holds which pods, and for how much.

A search asks that a hundred thousand times, so amounts of all resources stand side by side in one integer,
each in a field with a guard bit above it: a subtraction that leaves all guards standing fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

from controller.domain.resources import Resources

TINY = 1e-6

# Pods, the sum of what they need, the price, the kind's number and what it has.
Machine = tuple[list[int], int, int, int, int]


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be bought; kinds are listed by rising price."""

    price: int
    free: Resources


class Puzzle:
    """Amounts as fields of one integer: a sum is one addition, whether it fits one subtraction.

    `allowed` are the kinds that each pod may go to, as bits; where some may not, that is one more field.
    """

    def __init__(
        self, pods: Sequence[Resources], kinds: Sequence[Kind], allowed: Sequence[int] | None = None
    ) -> None:
        every = (1 << len(kinds)) - 1
        among = [every] * len(pods) if allowed is None else [bits & every for bits in allowed]
        self.names = _that_may_run_out(pods, kinds)
        units = {n: reduce(gcd, (needs.get(n, 0) for needs in pods)) for n in self.names}
        total = {n: sum(needs.get(n, 0) for needs in pods) // units[n] for n in self.names}
        self.needs = [0] * len(pods)
        self.kinds = [0] * len(kinds)
        self.guards = at = 0
        for name in self.names:
            for pod, needs in enumerate(pods):
                self.needs[pod] |= needs.get(name, 0) // units[name] << at
            for number, kind in enumerate(kinds):
                self.kinds[number] |= min(max(kind.free.get(name, 0), 0) // units[name], total[name]) << at
            at += total[name].bit_length()
            self.guards |= 1 << at
            at += 1
        for bits in sorted(set(among) - {every}):
            for pod, own in enumerate(among):
                self.needs[pod] |= int(own == bits) << at
            for number in range(len(kinds)):
                self.kinds[number] |= len(pods) * (bits >> number & 1) << at
            at += len(pods).bit_length()
            self.guards |= 1 << at
            at += 1
        self.kinds = [free | self.guards for free in self.kinds]
        self.prices = [kind.price for kind in kinds]
        self.dearer = [
            [
                (prices - price, free)
                for prices, free in zip(self.prices[n + 1 :], self.kinds[n + 1 :], strict=True)
            ]
            for n, price in enumerate(self.prices)
        ]
        self._known: dict[int, tuple[int, int, int]] = {}
        self.fitting = [
            [pod for pod, used in enumerate(self.needs) if self.fits(used, free)] for free in self.kinds
        ]
        self.fillable = [number for number, inside in enumerate(self.fitting) if len(inside) > 1]
        # What a pod takes of a kind: of its scarcest resource; and that, the mean, and each by itself.
        self.most: list[list[float]] = []
        self.shares: list[list[list[float]]] = []
        for kind in kinds:
            each = [[_share(needs.get(n, 0), kind.free.get(n, 0)) for needs in pods] for n in self.names]
            most = [max(of) for of in zip(*each, strict=True)]
            self.most.append(most)
            self.shares.append([most, [sum(of) / len(of) for of in zip(*each, strict=True)], *each])

    def fits(self, used: int, free: int) -> bool:
        return (free - used) & self.guards == self.guards

    def cheapest(self, used: int) -> tuple[int, int, int]:
        """The price of the first kind that holds so much, its number, and what it has."""
        found = self._known.get(used)
        if found is None:
            guards = self.guards
            for number, free in enumerate(self.kinds):
                if (free - used) & guards == guards:
                    found = self._known[used] = (self.prices[number], number, free)
                    break
            else:
                raise ValueError("no kind of machine holds these pods together")
        return found

    def machine(self, inside: list[int]) -> Machine:
        used = 0
        for pod in inside:
            used += self.needs[pod]
        return (inside, used, *self.cheapest(used))

    def possible(self, groups: Sequence[Sequence[int]]) -> bool:
        return all(any(self.fits(sum(self.needs[p] for p in g), free) for free in self.kinds) for g in groups)

    def bound(self) -> float:
        """No machines for these pods cost less: each pays for its share of one resource, where that is cheapest."""
        found = 0.0
        for of in range(1, len(self.names) + 2):
            least = [float("inf")] * len(self.needs)
            for kind, inside in enumerate(self.fitting):
                shares = self.shares[kind][of]
                for pod in inside:
                    least[pod] = min(least[pod], self.prices[kind] * (shares[pod] - TINY))
            found = max(found, sum(least))
        return found


def _that_may_run_out(pods: Sequence[Resources], kinds: Sequence[Kind]) -> list[str]:
    """The resources that all pods together have too little of on some kind."""
    total: dict[str, int] = {}
    for needs in pods:
        for name, units in needs.items():
            total[name] = total.get(name, 0) + units
    scarce = [n for n, units in sorted(total.items()) if any(kind.free.get(n, 0) < units for kind in kinds)]
    return scarce or sorted(total)[:1]


def _share(need: int, there: int) -> float:
    return need / there + TINY if there > 0 else TINY
