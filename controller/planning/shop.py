"""All offers as bits, in the order in which the strategy prefers them: the best of a set is its lowest bit.

What is sold out or refused for a while has a bit too, since it tells how small a machine may be; only
those in `buyable` are bought.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from decimal import Decimal

from controller.domain.plan import Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import Resources
from controller.planning.choice import SAME_PRICE, Candidate
from controller.planning.looks import Looks
from controller.planning.own import is_own
from controller.planning.predict import labels_shown
from controller.planning.room import UNNAMED, Room, new_room

_PRECISION = 10**9
# What a pool may not buy at all, as opposed to not now.
_NEVER = (Reason.LIMIT_PRICE, Reason.IMAGE_NOT_SUPPORTED, Reason.PAUSED)


class Shop:
    def __init__(self, snapshot: Snapshot, options: Sequence[Candidate]) -> None:
        self._snapshot = snapshot
        self._shown = labels_shown(snapshot)
        self._rooms: dict[int, Room] = {}
        self._frees: dict[tuple[str, str], dict[str, int]] = {}
        self.offers = in_order_of(snapshot, options)
        self.number = {id(candidate): n for n, candidate in enumerate(self.offers)}
        self.looks = Looks()
        self.buyable = self.possible = 0
        self.own = 0  # machines that are there, and off
        self.price: list[int] = []  # in billionths, so that sums are exact
        self.gpus: list[int] = []
        self.free: list[dict[str, int]] = []
        self._kinds: list[tuple[str, str, str, Decimal]] = []
        self._alike: dict[tuple[str, str, str, Decimal], int] = {}
        self._of_gpus: dict[int, int] = {}
        amounts: dict[str, dict[int, int]] = {}
        bits_of: dict[int, int] = {}  # by the very object: offers of a type share it
        for number, candidate in enumerate(self.offers):
            bit = 1 << number
            room = self.template(candidate)
            self.looks.add(room.name, room.labels, room.taints)
            if is_own(candidate.offer):
                self.own |= bit
            hindrance = candidate.hindrance
            if hindrance is None:
                self.buyable |= bit
            if hindrance is None or hindrance.code not in _NEVER:
                self.possible |= bit
            self.price.append(int(candidate.price * _PRECISION))
            self.gpus.append(candidate.gpus)
            self.free.append(room.free)
            key = self._kind(candidate)
            self._kinds.append(key)
            self._alike[key] = self._alike.get(key, 0) | bit
            self._of_gpus[candidate.gpus] = self._of_gpus.get(candidate.gpus, 0) | bit
            bits_of[id(room.free)] = bits_of.get(id(room.free), 0) | bit
        for free in {id(free): free for free in self.free}.values():
            bits = bits_of[id(free)]
            for name, units in free.items():
                of = amounts.setdefault(name, {})
                of[units] = of.get(units, 0) | bits
        self._levels: dict[str, list[int]] = {}
        self._sets: dict[str, list[int]] = {}
        for name, of in amounts.items():
            levels = sorted(of)
            sets, larger = [0] * len(levels), 0
            for at in range(len(levels) - 1, -1, -1):
                larger |= of[levels[at]]
                sets[at] = larger
            self._levels[name], self._sets[name] = levels, sets

    @staticmethod
    def _kind(candidate: Candidate) -> tuple[str, str, str, Decimal]:
        return (candidate.pool.name, candidate.offer.type.name, candidate.offer.market, candidate.price)

    def template(self, candidate: Candidate) -> Room:
        """The empty machine, to look at; never to be filled."""
        found = self._rooms.get(id(candidate))
        if found is None:
            key = (candidate.pool.name, candidate.offer.type.name)
            found = new_room(self._snapshot, candidate.pool, candidate.offer, self._shown.get(key))
            # Offers of a type differ in place and price only, unless a daemon selects on these.
            known = self._frees.setdefault(key, found.free)
            if known == found.free:
                found.free = known
            self._rooms[id(candidate)] = found
        return found

    def holding(self, needs: Resources) -> int:
        """The offers with at least so much."""
        found = -1
        for name, units in needs.items():
            levels = self._levels.get(name)
            if levels is None:
                return 0
            at = bisect_left(levels, units)
            if at == len(levels):
                return 0
            found &= self._sets[name][at]
        return found if found != -1 else self.looks.everywhere

    def alike(self, number: int) -> int:
        """The same type, pool, market and price elsewhere."""
        return self._alike[self._kinds[number]]

    def of_gpus(self, least: int, most: int | None = None) -> int:
        found = 0
        for gpus, offers in self._of_gpus.items():
            if gpus >= least and (most is None or gpus <= most):
                found |= offers
        return found

    def fewest_gpus(self, offers: int) -> int:
        return min((gpus for gpus, some in self._of_gpus.items() if some & offers), default=0)

    @staticmethod
    def best(offers: int) -> int:
        return (offers & -offers).bit_length() - 1


def in_order_of(snapshot: Snapshot, options: Sequence[Candidate]) -> list[Candidate]:
    strategy = snapshot.policy.strategy
    steady = {
        (c.pool.name, c.offer.type.name): c.price
        for c in options
        if c.hindrance is None and c.offer.market == "on-demand" and c.pool.market == "prefer_on_demand"
    }

    def price(c: Candidate) -> Decimal:
        """Where a pool prefers on-demand, its spot offers come after those of the same type."""
        if c.offer.market != "spot":
            return c.price
        return max(c.price, steady.get((c.pool.name, c.offer.type.name), c.price))

    near = _near({price(c) for c in options})

    def rest(c: Candidate) -> tuple[object, ...]:
        market = 0 if c.offer.market == "on-demand" and c.pool.market == "prefer_on_demand" else c.market_rank
        return (c.offer.type.name, c.location_rank, c.offer.location, market, c.pool_rank, c.price)

    def key(c: Candidate) -> tuple[object, ...]:
        if strategy == "cheapest":
            return (near[price(c)], c.gpus, *rest(c))
        if strategy == "priority":
            return (c.pool_rank, c.gpus, near[price(c)], *rest(c))
        return (c.gpus, near[price(c)], *rest(c))

    return sorted(options, key=key)


def _near(prices: set[Decimal]) -> Mapping[Decimal, Decimal]:
    """Prices that are equal within a rounding of the cloud are the same."""
    found: dict[Decimal, Decimal] = {}
    bound = first = Decimal(-1)
    for price in sorted(prices):
        if price > bound:
            first, bound = price, price * SAME_PRICE
        found[price] = first
    return found


__all__ = ["UNNAMED", "Shop", "in_order_of"]
