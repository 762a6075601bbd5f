"""Where a pod goes: to a machine of this plan that takes it, else to the best new one that the limits allow.

A machine without GPUs is not settled until the end: it may grow as long as that costs no more than another
machine would. In one of the packings that are tried, one with GPUs may too, as long as that costs less.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from controller.domain import names
from controller.domain.plan import Explanation
from controller.domain.reason import Reason
from controller.domain.resources import Resources
from controller.planning.board import Board, Profile
from controller.planning.fit import Ask, enough
from controller.planning.limits import Tally
from controller.planning.shop import Shop
from controller.planning.sizes import Gate
from controller.planning.workshop import New, Workshop

_SAMPLE = 10  # machines that are priced exactly before one of them grows
_LOST = 0.5  # of its price, what is left over on a machine in one resource only
_PARTS = 4  # of what a pod needs, by which machines are told apart that nearly hold it


@dataclass(slots=True)
class _Appetite:
    """What pods of one size lack on a machine that has to grow."""

    parts: list[Gate]  # machines that hold less and less of it
    scarce: list[tuple[str, int, float, list[int], list[int]]]  # what machines differ in
    others: Resources


class Seating(Workshop):
    """Opens no machine with fewer GPUs than `least`, where the limits allow such a one."""

    def __init__(
        self,
        shop: Shop,
        board: Board,
        tally: Tally,
        *,
        least: int,
        overshoot: int,
        cheapest: bool,
        costs: Sequence[int] | None,
    ) -> None:
        super().__init__(shop, board, tally, overshoot=overshoot, cheapest=cheapest)
        self.all_grow = costs is not None
        self._costs = shop.price if costs is None else costs
        self._large = shop.of_gpus(least) if least else -1
        self._any_size = not least
        self._zone: str | None = None  # where a gang has to be
        self._no_use: dict[int, int] = {}  # by offers of a profile: machines that are none of these
        self._fitting: dict[int, tuple[Gate, int]] = {}  # by size: machines, and offers, that hold it
        self._appetites: dict[int, _Appetite] = {}  # by size
        self._within: dict[int, int] = {}  # by kind: what is not too large

    def _off(self, machine: New) -> None:
        """Who could not use this machine may use the one that gets its place."""
        others = ~(1 << machine.number)
        for key in self._no_use:
            self._no_use[key] &= others
        super()._off(machine)

    def _place(self, ask: Ask, scope: int) -> tuple[Explanation | None] | None:
        """None: seated."""
        board, shop = self.board, self.shop
        profile = board.profiles[ask.profile]
        if not profile.offers:
            return (None,)
        nodes, offers, fresh = board.allowed(profile, scope) if profile.ruled else (board.new, -1, -1)
        if self._zone is not None:
            here = board.offers.by(names.LABEL_ZONE).get(self._zone, 0)
            offers &= here
            fresh &= here
        among = board.new & nodes & ~self._no_use.get(profile.offers, 0)
        if among and profile.shape.host_ports:
            among &= ~board.ports_held(profile)
        known = self._fitting.get(ask.size)
        if known is None:
            known = self._fitting[ask.size] = (board.sizes.gate(ask.needs), shop.holding(ask.needs))
        gate, holding = known
        if among:
            now = among
            for sets, at in gate:
                now &= sets[at]
            while now:
                bit = now & -now
                now ^= bit
                if self._sit(ask, profile, self.at[bit.bit_length() - 1], offers):
                    return None
        fitting = profile.offers & holding & fresh & self.buyable
        if fitting and profile.special:
            fitting = board.offers_specially(profile, fitting)
        objection: Explanation | None = None
        if fitting and self._any_size and not shop.one_size:
            within = self._within.get(ask.kind)
            if within is None:
                within = self._within[ask.kind] = self.not_too_large(profile.sold, ask.needs)
            if not fitting & within:
                objection = self.overshoots(fitting, profile.offers, ask.needs)
            fitting &= within
        if fitting and profile.offer_wishes:
            fitting = self._preferred(profile, fitting)
        chosen = None
        if fitting:
            chosen, objection = self._choose(ask, fitting)
            if chosen is not None and profile.soft_spreads:
                chosen = self._evenly(profile, chosen, fitting)
        growing = among & self.growing
        if growing and self._grow(ask, profile, growing, offers, chosen):
            return None
        if chosen is None:
            return (objection,)
        self.open(ask, profile, chosen, fitting)
        return None

    def _preferred(self, profile: Profile, fitting: int) -> int:
        """Preferences decide among what the strategy holds equal; they never buy a larger or dearer machine."""
        shop = self.shop
        best = shop.best(fitting)
        for wish in profile.offer_wishes:
            wanted = fitting & wish
            if not wanted:
                continue
            offer = shop.best(wanted)
            dearer = self.cheapest and shop.price[offer] > shop.price[best]
            if shop.gpus[offer] == shop.gpus[best] and not dearer:
                return wanted
        return fitting

    def _evenly(self, profile: Profile, chosen: int, fitting: int) -> int:
        """The same machine at the same price, where the fewest pods are that it would rather not be beside."""
        board = self.board
        alike = fitting & self.shop.alike(chosen)
        for spreading in profile.soft_spreads:
            census = spreading.census
            if census.by_host:
                continue
            least, best = -1, 0
            for value, offers in board.offers.by(census.key).items():
                there = census.counts.get(value, 0)
                if alike & offers and (least < 0 or there <= least):
                    best = alike & offers | (best if there == least else 0)
                    least = there
            alike = best or alike
        return self.shop.best(alike)

    def _appetite(self, ask: Ask) -> _Appetite:
        shop, needs, sizes = self.shop, ask.needs, self.board.sizes
        parts = [
            {n: units * (_PARTS - part) // _PARTS for n, units in needs.items()}
            for part in range(1, _PARTS + 1)
        ]
        found = self._appetites[ask.size] = _Appetite(
            [sizes.gate(part) for part in parts],
            [(name, needs.get(name, 0), each, *shop.steps(name)) for name, each in shop.worth.items()],
            {name: units for name, units in needs.items() if name not in shop.worth},
        )
        return found

    def _sit(self, ask: Ask, profile: Profile, machine: New, offers: int) -> bool:
        """Join a machine as it is now."""
        left = machine.offers & profile.offers
        if not left:
            key = profile.offers
            self._no_use[key] = self._no_use.get(key, 0) | 1 << machine.number
            return False
        left &= offers
        if not left or not enough(ask.needs, self.board.free[machine.number]):
            return False
        if not left >> machine.offer & 1:
            # Another place or market for the machine, at the price that it has now.
            shop = self.shop
            same = left & shop.alike(machine.offer)
            if not same:
                return False
            offer = shop.best(same)
            if shop.free[offer] is not shop.free[machine.offer]:  # other daemons run there
                same &= shop.holding(ask.needs, machine.used)
                if not same:
                    return False
                offer = shop.best(same)
                self.become(machine, offer)
                self.board.resize(machine.number, self._left(machine))
            else:
                self.become(machine, offer)
        if profile.special:
            now = self.shop.offers[machine.offer]
            kind = (now.pool.name, now.offer.type.name)
            if not self.board.fits_specially(profile, machine.number, kind, machine.offer):
                return False
        if self.tally.objection_to_join(self.shop.offers[machine.offer], machine.inside, ask) is not None:
            return False
        self.add(ask, profile, machine, left)
        return True

    def _choose(self, ask: Ask, fitting: int) -> tuple[int | None, Explanation | None]:
        """The best machine for the pod: of at least this size if limits allow one, else of any."""
        shop, tally = self.shop, self.tally
        larger = fitting & self._large
        objection: Explanation | None = None
        for options in (larger, fitting) if larger and larger != fitting else (fitting,):
            first = True
            while options:
                offer = shop.best(options)
                why = tally.objection(shop.offers[offer], [ask])
                if why is None:
                    return offer, None
                if first:
                    objection = why
                if tally.exhausted:
                    return None, objection
                if tally.out_of_gpus:
                    options &= shop.of_gpus(0, 0)
                first = False
                options &= ~shop.alike(offer) if why.code is not Reason.PAUSED else ~(1 << offer)
        return None, objection

    def _most(self, chosen: int) -> int:
        """By how much a machine may rise if this one could be bought in place of that.

        One with GPUs grows only if that is less: machines that cost the same had better be more and smaller.
        """
        rounding = self.shop.price[chosen] // 1000
        return self._costs[chosen] + (-rounding - 1 if self.all_grow else rounding)

    def _sample(self, parts: Sequence[Gate], among: int) -> list[New]:
        """Those that lack the least first."""
        found: list[New] = []
        for gate in parts:
            near = among
            for sets, at in gate:
                near &= sets[at]
            among ^= near
            while near:
                bit = near & -near
                near ^= bit
                found.append(self.at[bit.bit_length() - 1])
                if len(found) == _SAMPLE:
                    return found
        return found

    def _grow(self, ask: Ask, profile: Profile, growing: int, offers: int, chosen: int | None) -> bool:
        """Let the machine grow that it costs least, if its price rises by no more than another machine costs.

        What a machine has left of all resources is of use to other pods; of one only, it is half lost.
        """
        appetite = self._appetites.get(ask.size) or self._appetite(ask)
        shop, scarce, others = self.shop, appetite.scarce, appetite.others
        board_free, dearest = self.board.free, float(shop.dearest) if scarce else 0.0
        costs, frees = self._costs, shop.free
        most = self._most(chosen) if chosen is not None else None
        best: tuple[float, New, int, int] | None = None
        allowed = profile.offers & offers & self.buyable
        for machine in self._sample(appetite.parts, growing):
            left = machine.offers & allowed
            if not left:
                if not machine.offers & profile.offers:
                    key = profile.offers
                    self._no_use[key] = self._no_use.get(key, 0) | 1 << machine.number
                continue
            taken = machine.taken
            if taken is None:
                used = machine.used
                taken = machine.taken = [used.get(name, 0) for name in shop.worth]
            for (_, units, _, levels, offered), there in zip(scarce, taken, strict=True):
                if amount := units + there:
                    at = bisect_left(levels, amount)
                    if at == len(levels):
                        left = 0
                        break
                    left &= offered[at]
            if not left:
                continue
            offer = (left & -left).bit_length() - 1
            rise = costs[offer] - costs[machine.offer]
            if most is not None and rise > most:
                continue
            free, before, after = frees[offer], dearest, dearest
            for (name, units, each, _, _), there in zip(scarce, taken, strict=True):
                if units and (rest := (free.get(name, 0) - there - units) * each) < after:
                    after = rest
            cost = rise - _LOST * after
            if best is not None and cost >= best[0]:
                continue
            left_now = board_free[machine.number]
            for name, units, each, _, _ in scarce:
                if units and (was := left_now.get(name, 0) * each) < before:
                    before = was
            cost += _LOST * before
            if (best is None or cost < best[0]) and enough(others, left_now):
                best = (cost, machine, offer, left)
        if best is None:
            return False
        _, machine, offer, left = best
        old, new = shop.offers[machine.offer], shop.offers[offer]
        kind = (new.pool.name, new.offer.type.name)
        if profile.special and not self.board.fits_specially(profile, machine.number, kind, offer):
            return False
        if self.tally.exchange(old, new, machine.inside, [ask]) is not None:
            return False
        self.grow(ask, profile, machine, offer, left)
        return True
