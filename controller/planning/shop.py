"""All offers as bits, in the order in which the strategy prefers them: the best of a set is its lowest bit.

What is sold out or refused for a while has a bit too, since it tells how small a machine may be; only
those in `buyable` are bought.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property

from controller.domain.kube import PodShape
from controller.domain.plan import Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import Resources
from controller.planning.choice import SAME_PRICE, Candidate
from controller.planning.looks import Looks
from controller.planning.own import any_own, is_own
from controller.planning.predict import allocatable_of, labels_shown
from controller.planning.room import UNNAMED, Room, new_room

PRECISION = 10**9
_REMEMBERED = 8  # bargains: one plan may strike a few
_LISTED = "listed"  # a pool's own strategy `priority`: the order of its types or models
# What a pool may not buy at all, as opposed to not now.
NEVER = (Reason.LIMIT_PRICE, Reason.IMAGE_NOT_SUPPORTED, Reason.PAUSED)


class Shop:
    def __init__(self, snapshot: Snapshot, options: Sequence[Candidate], before: Shop | None = None) -> None:
        """`before`: one made of the same but for its options, whose rooms serve again."""
        self._snapshot = snapshot
        self._shown = labels_shown(snapshot)
        self._rooms: dict[int, Room] = {}
        self._built: dict[tuple[int, int], Room] = {}  # by pool and offer, which the rooms hold
        self._there: dict[tuple[str, str], dict[str, int]] = {}
        self._frees: dict[tuple[str, str], dict[str, int]] = {}
        known = before._built if before else {}
        self.offers = in_order_of(snapshot, options)
        self.number = {id(candidate): n for n, candidate in enumerate(self.offers)}
        self.looks = Looks()
        self.stages: dict[int, tuple[PodShape, list[int]]] = {}  # how far pods come with all that is offered
        self.buyable = self.possible = 0
        self.own = 0  # machines that are there, and off
        # What was asked for last by whole sets of machines, and found: the same serves the next plan.
        self.bargains: deque[tuple[tuple[object, ...], list[list[int]] | None]] = deque(maxlen=_REMEMBERED)
        self.price: list[int] = []  # in billionths, so that sums are exact
        self.gpus: list[int] = []
        self.free: list[dict[str, int]] = []
        self._kinds: list[tuple[str, str, str, int]] = []
        self._alike: dict[tuple[str, str, str, int], int] = {}
        self._of_gpus: dict[int, int] = {}
        self._between: dict[tuple[int, int | None], int] = {}
        amounts: dict[str, dict[int, int]] = {}
        bits_of: dict[int, int] = {}  # by the very object: offers of a type share it
        for number, candidate in enumerate(self.offers):
            bit = 1 << number
            place = (id(candidate.pool), id(candidate.offer))
            if (room := known.get(place)) is not None:
                self._rooms[id(candidate)] = room
                self._frees.setdefault((candidate.pool.name, candidate.offer.type.name), room.free)
            else:
                room = self.template(candidate)
            self._built[place] = room
            self.looks.add(room.name, room.labels, room.taints)
            if is_own(candidate.offer):
                self.own |= bit
            hindrance = candidate.hindrance
            if hindrance is None:
                self.buyable |= bit
            if hindrance is None or hindrance.code not in NEVER:
                self.possible |= bit
            price = int(candidate.price * PRECISION)
            self.price.append(price)
            self.gpus.append(candidate.gpus)
            self.free.append(room.free)
            key = (candidate.pool.name, candidate.offer.type.name, candidate.offer.market, price)
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

    def template(self, candidate: Candidate) -> Room:
        """The empty machine, to look at; never to be filled."""
        found = self._rooms.get(id(candidate))
        if found is None:
            pool, offer = candidate.pool, candidate.offer
            key = (pool.name, offer.type.name)
            there = self._there.get(key)
            if there is None:
                there = self._there[key] = allocatable_of(
                    self._snapshot.policy, pool, offer.type, self._snapshot.observed
                )
            found = new_room(self._snapshot, pool, offer, self._shown.get(key), there)
            # Offers of a type differ in place and price only, unless a daemon selects on these.
            known = self._frees.setdefault(key, found.free)
            if known == found.free:
                found.free = known
            self._rooms[id(candidate)] = found
        return found

    def holding(self, needs: Resources, more: Resources | None = None) -> int:
        """The offers with at least so much; `more` is what is used besides."""
        found = -1
        for name, units in needs.items():
            if more:
                units += more.get(name, 0)
            levels = self._levels.get(name)
            if levels is None:
                return 0
            if units <= levels[0]:
                found &= self._sets[name][0]
                continue
            at = bisect_left(levels, units)
            if at == len(levels):
                return 0
            found &= self._sets[name][at]
        if more and not more.keys() <= needs.keys():
            found &= self.holding({name: units for name, units in more.items() if name not in needs})
        return found if found != -1 else self.looks.everywhere

    @property
    def one_size(self) -> bool:
        """Whether no machine has more GPUs than another."""
        return len(self._of_gpus) < 2

    def steps(self, name: str) -> tuple[list[int], list[int]]:
        """The amounts that some offer has, ascending, and the offers that have at least so much."""
        return self._levels[name], self._sets[name]

    @cached_property
    def sizes(self) -> list[tuple[int, dict[str, int], int]]:
        """The prices and what is free at them, each told once, with the offers that are so."""
        found: dict[tuple[int, int], int] = {}
        for number, (price, free) in enumerate(zip(self.price, self.free, strict=True)):
            found[(price, id(free))] = found.get((price, id(free)), 0) | 1 << number
        return [(price, self.free[self.best(bits)], bits) for (price, _), bits in found.items()]

    @cached_property
    def number_of_room(self) -> dict[int, int]:
        return {id(self.template(candidate)): number for number, candidate in enumerate(self.offers)}

    @cached_property
    def dearest(self) -> int:
        return max(self.price, default=0)

    @cached_property
    def worth(self) -> dict[str, float]:
        """What one unit costs on the dearest machine, if nothing else did, of what not all have alike."""
        if not self.price:
            return {}
        dearest = self.price.index(self.dearest)
        free = self.free[dearest]
        every = self.looks.everywhere
        return {
            name: self.price[dearest] / max(1, free.get(name, 0))
            for name, levels in self._levels.items()
            if len(levels) > 1 or self._sets[name][0] != every
        }

    def alike(self, number: int) -> int:
        """The same type, pool, market and price elsewhere."""
        return self._alike[self._kinds[number]]

    def of_gpus(self, least: int, most: int | None = None) -> int:
        found = self._between.get((least, most))
        if found is None:
            found = 0
            for gpus, offers in self._of_gpus.items():
                if gpus >= least and (most is None or gpus <= most):
                    found |= offers
            self._between[(least, most)] = found
        return found

    def fewest_gpus(self, offers: int) -> int:
        return min((gpus for gpus, some in self._of_gpus.items() if some & offers), default=0)

    def not_too_large(self, offers: int, needs: Resources, overshoot: int) -> int:
        """Offers with hardly more GPUs than what would be bought for this if nothing was sold out."""
        possible = offers & self.possible & ~self.own & self.holding(needs)
        if not possible:
            return -1
        # A machine that is there already is not bought: it is never too large.
        return self.of_gpus(0, self.gpus[self.best(possible)] + overshoot) | self.own

    @staticmethod
    def best(offers: int) -> int:
        return (offers & -offers).bit_length() - 1


_latest: tuple[Sequence[Candidate], tuple[object, ...], Shop] | None = None


def shop_of(snapshot: Snapshot, options: Sequence[Candidate]) -> Shop:
    """The one of the plan before where nothing that it is made of has changed: mostly only the pods have.

    A shop is never written to once it is there; what an own machine has free is read off its node, and may change.
    """
    global _latest
    if any_own(snapshot.offers):
        return Shop(snapshot, options)
    # The figures are one map that whoever learns goes on writing to.
    figures = {kind: dict(units) for kind, units in snapshot.observed.items()}
    made_of = (snapshot.policy, snapshot.daemonsets, figures, labels_shown(snapshot))
    known = _latest
    before = known[2] if known is not None and known[1] == made_of else None
    if known is not None and before is not None and known[0] is options:
        return before
    shop = Shop(snapshot, options, before)
    _latest = (options, made_of, shop)
    return shop


def in_order_of(snapshot: Snapshot, options: Sequence[Candidate]) -> list[Candidate]:
    """What is preferred first: over all by the strategy of all pools.

    Where a pool has one of its own, its offers change places among themselves only.
    """
    strategy = snapshot.policy.common_strategy
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

    priced = [(c.price, price(c), c) for c in options]
    near = _near({counted for _, counted, _ in priced})

    def key(one: tuple[Decimal, Decimal, Candidate], strategy: str = strategy) -> tuple[object, ...]:
        paid, counted, c = one
        steadier = c.offer.market != "spot" or c.pool.market != "prefer_on_demand"  # in whatever location
        rest = (
            c.offer.type.name,
            not steadier,
            c.location_rank,
            c.offer.location,
            c.market_rank,
            c.pool_rank,
            paid,
        )
        if strategy == "cheapest":
            return (near[counted], c.gpus, *rest)
        if strategy == "priority":
            return (c.pool_rank, c.gpus, near[counted], *rest)
        if strategy == _LISTED:
            return (place_in_list(c), c.gpus, near[counted], *rest)
        return (c.gpus, near[counted], *rest)

    ordered = sorted(priced, key=key)
    for pool in snapshot.policy.pools:
        if pool.strategy not in ("", strategy) or pool.strategy == "priority":
            places = [n for n, (_, _, c) in enumerate(ordered) if c.pool.name == pool.name]
            own = _LISTED if pool.strategy == "priority" else pool.strategy
            mine = sorted((ordered[n] for n in places), key=lambda one, own=own: key(one, own))  # type: ignore[misc]
            for n, one in zip(places, mine, strict=True):
                ordered[n] = one
    return [c for _, _, c in ordered]


def larger(why: str, more: int) -> str:
    """What is sold out, and that a larger one is not bought in its place."""
    return (
        f"{why}; the next larger machine has {more} GPUs more: set planning.max_overshoot to at least {more} to "
        "allow that"
    )


def place_in_list(candidate: Candidate) -> int:
    """Where the pool lists the type, or its model."""
    pool, kind = candidate.pool, candidate.offer.type
    for listed, name in ((pool.instance_types, kind.name), (pool.gpu_models, kind.model)):
        if listed:
            return [each.upper() for each in listed].index(name.upper())
    return 0


def _near(prices: set[Decimal]) -> Mapping[Decimal, Decimal]:
    """Prices that are equal within a rounding of the cloud are the same."""
    found: dict[Decimal, Decimal] = {}
    bound = first = Decimal(-1)
    for price in sorted(prices):
        if price > bound:
            first, bound = price, price * SAME_PRICE
        found[price] = first
    return found


__all__ = ["PRECISION", "UNNAMED", "Shop", "in_order_of", "larger", "place_in_list", "shop_of"]
