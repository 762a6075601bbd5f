"""Pods moved to where room is left over, if the machine that they leave may then be a cheaper one.

For machines without GPUs, whose sizes are many. Who was seated before whom stays as it is, and so does every
pod's location; rules about hosts are checked as they will be with all pods there.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.planning.board import Profile
from controller.planning.census import Census
from controller.planning.fit import Ask, enough
from controller.planning.sizes import Gate
from controller.planning.workshop import New, Workshop

_MOVES = 8  # at most, for one step


class Shedding:
    def __init__(self, made: Workshop) -> None:
        self._made = made
        self._at = {id(ask): number for number, (ask, _) in enumerate(made.order)}
        self._counted_until: dict[Census, int] = {}
        for number, (ask, _) in enumerate(made.order):
            for spreading in made.board.profiles[ask.profile].spreads:
                self._counted_until[spreading.census] = number
        self._gates: dict[int, Gate] = {}  # by size
        self._near: dict[tuple[int, tuple[str | None, ...]], int] = {}

    def run(self) -> None:
        made = self._made
        machines = [
            machine
            for machine in made.machines
            if machine.grows and len(machine.inside) > 1 and not made.shop.gpus[machine.offer]
        ]
        for machine in machines:
            possible = made.could_be(machine, made.buyable)
            while len(machine.inside) > 1 and self._step(machine, possible):
                pass

    # -- one machine, one step

    def _step(self, machine: New, possible: int) -> bool:
        """Whether the machine became a cheaper one."""
        shop = self._made.shop
        smaller = self._next(machine, possible)
        if smaller is None:
            return False
        free = shop.free[smaller]
        over = {name: units - free.get(name, 0) for name, units in machine.used.items()}
        over = {name: units for name, units in over.items() if units > 0}
        return self._to_any(machine, smaller, over)

    def _next(self, machine: New, possible: int) -> int | None:
        """The dearest of the offers that are cheaper than what the machine is and that limits allow instead."""
        shop, tally = self._made.shop, self._made.tally
        now = shop.offers[machine.offer]
        below = possible & ((1 << machine.offer) - 1)
        price = shop.price[machine.offer]
        while below:
            offer = below.bit_length() - 1
            if shop.price[offer] < price and tally.allows_instead(now, shop.offers[offer], machine.inside):
                return offer
            below &= ~shop.alike(offer)
        return None

    def _to_any(self, machine: New, smaller: int, over: Mapping[str, int]) -> bool:
        """A pod or a few, to where there is room for them."""
        made = self._made
        if over and not self._could(machine, over):
            return False
        moved: list[tuple[Ask, New]] = []
        as_it_was = list(machine.inside)
        missing = dict(over)
        tried: set[int] = set()
        for ask in sorted(machine.inside, key=_size, reverse=True):
            if ask.kind in tried or not any(ask.needs.get(name, 0) for name in missing):
                continue
            target = self._another(ask, machine)
            if target is None:
                tried.add(ask.kind)
                continue
            self._put(ask, machine, target)
            moved.append((ask, target))
            missing = {n: units - ask.needs.get(n, 0) for n, units in missing.items()}
            missing = {n: units for n, units in missing.items() if units > 0}
            if not missing or len(moved) == _MOVES or len(machine.inside) == 1:
                break
        old, new = made.shop.offers[machine.offer], made.shop.offers[smaller]
        if missing or made.tally.exchange(old, new, machine.inside) is not None:
            for ask, target in reversed(moved):
                self._put(ask, target, machine)
            if moved:  # the first of a machine pays for what is left on it: they come back in their order
                made.tally.remove(old, machine.inside)
                machine.inside[:] = as_it_was
                made.tally.add(old, machine.inside)
            return False
        made.turn(machine, smaller)
        return True

    def _could(self, machine: New, over: Mapping[str, int]) -> bool:
        """Whether so much could go at all: by amounts alone, each pod as if it were the only one."""
        among = self._made.growing & ~(1 << machine.number)
        sizes, gates = self._made.board.sizes, self._gates
        missing = dict(over)
        for ask in machine.inside:
            gate = gates.get(ask.size)
            if gate is None:
                gate = gates[ask.size] = sizes.gate(ask.needs)
            fits = among
            for sets, at in gate:
                fits &= sets[at]
            if not fits:
                continue
            for name in missing:
                missing[name] -= ask.needs.get(name, 0)
            if max(missing.values()) <= 0:
                return True
        return False

    # -- moving

    def _put(self, ask: Ask, here: New, there: New) -> None:
        made = self._made
        made.tally.part(made.shop.offers[here.offer], here.inside, ask)
        made.tally.join(made.shop.offers[there.offer], there.inside, ask)
        made.board.take(ask, here.number)
        here.inside.remove(ask)
        here.taken = there.taken = None
        for name, units in ask.needs.items():
            here.used[name] -= units
            there.used[name] = there.used.get(name, 0) + units
        there.inside.append(ask)
        there.offers &= made.board.profiles[ask.profile].offers
        made.board.put(ask, there.number)
        made.order[self._at[id(ask)]] = (ask, there)

    # -- where to

    def _another(self, ask: Ask, machine: New) -> New | None:
        """A machine that takes the pod as it is."""
        made, board = self._made, self._made.board
        among = board.sizes.holding(ask.needs, made.growing & ~(1 << machine.number))
        if among:
            among &= self._allowed(ask, machine)
        offers = board.profiles[ask.profile].offers
        while among:
            bit = among & -among
            among ^= bit
            other = made.at[bit.bit_length() - 1]
            if (
                other.offers & offers & 1 << other.offer
                and enough(ask.needs, board.free[other.number])
                and made.tally.objection_to_join(made.shop.offers[other.offer], other.inside, ask) is None
            ):
                return other
        return None

    def _allowed(self, ask: Ask, machine: New) -> int:
        """Where the pod may go, amounts apart: in the same location if that matters to anyone."""
        board = self._made.board
        profile = board.profiles[ask.profile]
        if profile.special or profile.shape.host_ports or ask.gang is not None:
            return 0
        keys = _located(profile)
        domains = tuple(board.domain(machine.number, key) for key in keys)
        among = self._near.get((ask.profile, domains))
        if among is None:
            among = self._made.growing
            for key, value in zip(keys, domains, strict=True):
                among &= board.looks.by(key).get(value, 0) if value is not None else 0
            if any(census.by_host for census in profile.affinity):
                among = 0
            self._near[(ask.profile, domains)] = among
        if not among:
            return 0
        for census in (*profile.anti, *(spreading.census for spreading in profile.spreads)):
            if census.by_host:
                most = next((s.spread.max_skew - s.itself for s in profile.spreads if s.census is census), 0)
                among &= ~census.holds_more_than(most)
        for census in profile.feeds:
            # Whoever is spread over hosts counts those that came before.
            if census.by_host and self._counted_until.get(census, -1) > self._at[id(ask)]:
                among &= ~census.holds_more_than(board.spread_at_most[census] - 1)
        return among


def _located(profile: Profile) -> tuple[str, ...]:
    """The keys of nodes in whose values the pod has to stay."""
    keys = [*profile.pins, *(census.key for census in profile.affinity if not census.by_host)]
    keys += [spreading.census.key for spreading in profile.spreads if not spreading.census.by_host]
    return tuple(dict.fromkeys(keys))


def _size(ask: Ask) -> tuple[int, int, str]:
    return (ask.needs.get("cpu", 0), ask.needs.get("memory", 0), ask.pod.key)
