"""A packing improved when all pods have a place: cheaper machines for the same pods, and pods moved for it.

Nothing is undone that the filling decided for good: every pod keeps a place, and its location.
"""

from __future__ import annotations

from collections import Counter

from controller.domain.plan import Explanation
from controller.planning.fit import Ask, enough
from controller.planning.workshop import New, Workshop, bits


def exchange(made: Workshop) -> None:
    """Each machine for the best one that would hold the same pods; often it is that."""
    shop, tally = made.shop, made.tally
    for machine in made.machines:
        if not machine.inside:
            continue
        offers = made.could_be(machine, shop.possible)
        options = offers & shop.buyable & shop.holding(machine.used)
        if shop.best(options) >= machine.offer:
            continue
        options &= made.not_too_large(offers, machine.used)
        while options:
            offer = shop.best(options)
            if offer >= machine.offer:
                break
            old, new = shop.offers[machine.offer], shop.offers[offer]
            tally.remove(old, machine.inside)
            if tally.objection(new, machine.inside) is None:
                tally.add(new, machine.inside)
                machine.offers = options & shop.alike(offer)
                made.turn(machine, offer)
                break
            tally.add(old, machine.inside)
            options &= ~shop.alike(offer)


def dissolve(made: Workshop) -> dict[str, Explanation | None]:
    """Machines that stayed much too large for their pods are not bought after all; why, by pod."""
    shop = made.shop
    why_not: dict[str, Explanation | None] = {}
    if shop.one_size:
        return why_not
    gone: set[int] = set()
    for machine in made.machines:
        if not machine.inside:
            continue
        offers = made.could_be(machine, shop.possible)
        if made.not_too_large(offers, machine.used) >> machine.offer & 1:
            continue
        why = made.overshoots(1 << machine.offer, offers, machine.used)
        made.tally.remove(shop.offers[machine.offer], machine.inside)
        for ask in reversed(machine.inside):
            if machine.number >= 0:
                made.board.take(ask, machine.number)
            why_not[ask.pod.key] = why
            gone.add(id(ask))
        machine.inside, machine.used = [], {}
    if gone:
        made.order = [(ask, machine) for ask, machine in made.order if id(ask) not in gone]
    return why_not


def spread(made: Workshop, there: Counter[tuple[str, str]]) -> None:
    """The same type at the same price where the pool has the fewest machines; else where it is."""
    shop = made.shop
    for machine in made.machines:
        if not machine.inside:
            continue
        here = shop.offers[machine.offer]
        options = made.could_be(machine, shop.alike(machine.offer) & shop.buyable)
        options &= shop.holding(machine.used)
        if any(ask.gang is not None and ask.gang.one_location for ask in machine.inside):
            options = 0
        places = [machine.offer, *bits(options)]
        best = min(places, key=lambda n: there[(here.pool.name, shop.offers[n].offer.location)])
        if best != machine.offer:
            made.become(machine, best)
            made.turn(machine, best)
        there[(here.pool.name, shop.offers[best].offer.location)] += 1


def round_off(made: Workshop) -> None:
    """Move a pod where room for it is left over, if the machine that it leaves may then be a cheaper one.

    Who was seated before whom stays as it is, and so does every pod's location; rules about hosts are
    checked as they will be with all pods there.
    """
    shop, board, tally = made.shop, made.board, made.tally
    at = {id(ask): number for number, (ask, _) in enumerate(made.order)}
    for machine in made.machines:
        if not machine.grows:
            continue
        possible = made.could_be(machine, shop.buyable)
        for ask in sorted(machine.inside, key=_size):
            if len(machine.inside) == 1:
                break
            rest = {name: units - ask.needs.get(name, 0) for name, units in machine.used.items()}
            smaller = shop.best(possible & shop.holding(rest))
            if shop.price[smaller] >= shop.price[machine.offer]:
                continue
            target = _another(made, ask, machine)
            if target is None:
                continue
            board.take(ask, machine.number)
            machine.inside.remove(ask)
            machine.used = rest
            tally.remove(shop.offers[machine.offer], [*machine.inside, ask])
            tally.add(shop.offers[smaller], machine.inside)
            made.turn(machine, smaller)
            tally.join(shop.offers[target.offer], target.inside, ask)
            target.inside.append(ask)
            for name, units in ask.needs.items():
                target.used[name] = target.used.get(name, 0) + units
            target.offers &= board.profiles[ask.profile].offers
            board.put(ask, target.number)
            made.order[at[id(ask)]] = (ask, target)


def _size(ask: Ask) -> tuple[int, int, str]:
    return (ask.needs.get("cpu", 0), ask.needs.get("memory", 0), ask.pod.key)


def _another(made: Workshop, ask: Ask, machine: New) -> New | None:
    """A machine that takes the pod as it is, in the same location if that matters to anyone."""
    board = made.board
    profile = board.profiles[ask.profile]
    if profile.special or profile.shape.host_ports or ask.gang is not None:
        return None
    among = made.growing & ~(1 << machine.number)
    for key in profile.pins:
        value = board.domain(machine.number, key)
        among &= board.looks.by(key).get(value, 0) if value is not None else 0
    for census in (*profile.anti, *(spreading.census for spreading in profile.spreads)):
        if not census.by_host:
            continue
        most = next((s.spread.max_skew - s.itself for s in profile.spreads if s.census is census), 0)
        among &= ~census.holds_more_than(most)
    for census in profile.affinity:
        if census.by_host:
            return None
        value = board.domain(machine.number, census.key)
        among &= board.looks.by(census.key).get(value, 0) if value is not None else 0
    for spreading in profile.spreads:
        if not spreading.census.by_host:
            value = board.domain(machine.number, spreading.census.key)
            among &= board.looks.by(spreading.census.key).get(value, 0) if value is not None else 0
    among &= ~board.filled(profile)
    among = board.sizes.holding(ask.needs, among)
    while among:
        bit = among & -among
        among ^= bit
        other = made.at[bit.bit_length() - 1]
        if (
            other.offers & profile.offers & 1 << other.offer
            and enough(ask.needs, board.free[other.number])
            and made.tally.objection_to_join(made.shop.offers[other.offer], other.inside, ask) is None
        ):
            return other
    return None
