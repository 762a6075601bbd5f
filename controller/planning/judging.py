"""Which of two packings is the better one, by what the pools' strategies ask of their machines together.

Each pool is judged by its own strategy: a machine of a pool that is to have the fewest GPUs is no worse because
another pool would rather pay less. Where pods change from pools of one strategy to those of another, that of all
pools decides, as it does between pools for a single pod. An order that somebody gave, of pools or of a pool's
machines, comes before any amount: nobody gave it to have it outvoted by a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from controller.domain.policy import OWN, Policy, Pool
from controller.planning.choice import SAME_PRICE
from controller.planning.fit import Ask
from controller.planning.shop import place_in_list
from controller.planning.workshop import Packing


@dataclass(slots=True)
class _Part:
    """The machines whose pools follow one strategy."""

    pods: int = 0
    gpus: int = 0
    price: Decimal = Decimal(0)


class Judge:
    def __init__(self, policy: Policy) -> None:
        self._common = policy.common_strategy
        self._strategy = {pool.name: strategy_of(pool, policy) for pool in policy.pools}
        self._lists = any(pool.strategy == "priority" for pool in policy.pools)

    def beats(self, other: Packing, best: Packing, pods: Sequence[Ask]) -> bool:
        """Pods placed come first, the most urgent ones before all; what is equal in the end has more machines."""
        ours, theirs = _left(best, pods), _left(other, pods)
        if ours != theirs:
            return theirs < ours
        if self._common == "priority":
            mine, its = _ranks(best), _ranks(other)
            if mine != its:
                return its < mine
        if self._lists and _listed(other) > _listed(best):
            return False
        verdicts = self._verdicts(other, best)
        if any(verdicts):
            return max(verdicts) <= 0
        return len(other.rooms) > len(best.rooms)

    def _verdicts(self, other: Packing, best: Packing) -> list[int]:
        """By part: below zero where the other is the better one."""
        a, b = self._parts(best), self._parts(other)
        if {name: part.pods for name, part in a.items()} == {name: part.pods for name, part in b.items()}:
            return [_judged(name, b[name], a[name]) for name in a]
        return [
            _judged(self._common, _part(other, range(len(other.rooms))), _part(best, range(len(best.rooms))))
        ]

    def _parts(self, packing: Packing) -> dict[str, _Part]:
        rooms: dict[str, list[int]] = {}
        for number, candidate in enumerate(packing.chosen):
            rooms.setdefault(self._strategy[candidate.pool.name], []).append(number)
        return {name: _part(packing, numbers) for name, numbers in rooms.items()}


def strategy_of(pool: Pool, policy: Policy) -> str:
    """What is switched and not bought goes by what all have in common."""
    return policy.common_strategy if pool.market == OWN else pool.strategy or policy.strategy


def _part(packing: Packing, numbers: Sequence[int]) -> _Part:
    part = _Part()
    for number in numbers:
        part.pods += len(packing.inside[number])
        part.gpus += packing.chosen[number].gpus
        part.price += packing.chosen[number].price
    return part


def _judged(strategy: str, other: _Part, best: _Part) -> int:
    gpus = (Decimal(best.gpus), Decimal(other.gpus))
    price = (best.price, other.price)
    for a, b in (price, gpus) if strategy == "cheapest" else (gpus, price):
        if max(a, b) > min(a, b) * SAME_PRICE:
            return -1 if b < a else 1
    return 0


def _left(packing: Packing, pods: Sequence[Ask]) -> tuple[tuple[int, int], ...]:
    """How many pods stay unplaced, by falling priority."""
    left: Counter[int] = Counter()
    for ask in pods:
        left[ask.pod.shape.priority] += ask.pod.key in packing.unplaced
    return tuple((-priority, left[priority]) for priority in sorted(left, reverse=True))


def _ranks(packing: Packing) -> list[int]:
    """The place of its pool among all, of each pod."""
    return sorted(packing.chosen[number].pool_rank for _, number in packing.order)


def _listed(packing: Packing) -> list[int]:
    """The place of its machine in its pool's list, of each pod whose pool goes by that."""
    chosen = (packing.chosen[number] for _, number in packing.order)
    return sorted(place_in_list(candidate) for candidate in chosen if candidate.pool.strategy == "priority")
