"""What sets of machines as a whole are to have little of: what a bargain is about, and among which offers.

What pools of one strategy have is put together anew by that one, and stays with them. An order, of pools or of a pool's
machines, is kept by whoever follows it pod by pod, and nothing is gained by sets.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.domain.policy import OWN, Policy
from controller.planning.cheapening import WORK
from controller.planning.choice import SAME_PRICE
from controller.planning.judging import strategy_of
from controller.planning.shop import Shop
from controller.planning.workshop import Packing

_PER_GPU = 10**13  # of prices in billionths: more than any price differs
_SOME_WORK = 40_000


@dataclass(frozen=True, slots=True)
class Goal:
    cheapest: bool
    offers: int
    shop: Shop

    @property
    def work(self) -> int:
        """Where the fewest GPUs are asked for, less money is the tie-break only, and nobody waits long for that."""
        return WORK if self.cheapest else _SOME_WORK

    def cost(self, offer: int) -> int:
        """What is to be least in all, as one number."""
        price = self.shop.price[offer]
        return price if self.cheapest else self.shop.gpus[offer] * _PER_GPU + price

    def saves(self, other: Packing, best: Packing) -> bool:
        """Whether another packing of the same pods is the better one by more than a rounding."""
        if not self.cheapest and other.gpus != best.gpus:
            return other.gpus < best.gpus
        return other.price * SAME_PRICE < best.price


def goals_of(policy: Policy, shop: Shop) -> list[Goal]:
    """One for the pools that share the strategy of all, and one for each other pool.

    Offers of the former are in that strategy's order among each other, those of the latter in each pool alone.
    """
    followed = {pool.name: strategy_of(pool, policy) for pool in policy.pools if pool.market != OWN}
    if set(followed.values()) == {policy.common_strategy}:
        return [Goal(policy.common_strategy == "cheapest", -1, shop)] if _sets(policy.common_strategy) else []
    offers: dict[tuple[str, str], int] = {}
    for number, candidate in enumerate(shop.offers):
        if (strategy := followed.get(candidate.pool.name)) is not None and _sets(strategy):
            key = (strategy, "" if strategy == policy.common_strategy else candidate.pool.name)
            offers[key] = offers.get(key, 0) | 1 << number
    return [Goal(strategy == "cheapest", of, shop) for (strategy, _), of in sorted(offers.items())]


def _sets(strategy: str) -> bool:
    return strategy in ("smallest", "cheapest")
