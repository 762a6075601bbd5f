"""What is done to a packing when all pods have a place: other machines for the same pods.

Machines are exchanged for better ones, given up if they stayed far too large, and spread over locations.
"""

from __future__ import annotations

from collections import Counter

from controller.domain.plan import Explanation
from controller.planning.fit import Ask
from controller.planning.workshop import New, Workshop, bits


def exchange(made: Workshop) -> None:
    """Each machine for the best one that would hold the same pods; often it is that."""
    shop, tally = made.shop, made.tally
    for machine in made.machines:
        if not machine.inside:
            continue
        offers = made.could_be(machine, shop.possible)
        options = offers & made.buyable & shop.holding(machine.used)
        if shop.best(options) >= machine.offer:
            continue
        options &= made.not_too_large(offers, machine.used)
        while options:
            offer = shop.best(options)
            if offer >= machine.offer:
                break
            if tally.exchange(shop.offers[machine.offer], shop.offers[offer], machine.inside) is None:
                machine.offers = options & shop.alike(offer)
                made.turn(machine, offer)
                break
            options &= ~shop.alike(offer)


def dissolve(made: Workshop, *, large: bool) -> dict[str, Explanation | None]:
    """Machines that stayed much too large for their pods are not bought after all; why, by pod.

    `large`: they were opened for more pods than the first, who may have been too few.
    """
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
            if not large or (ask := _better_alone(made, machine)) is None:
                continue
            why = made.overshoots(1 << machine.offer, made.board.profiles[ask.profile].offers, ask.needs)
        else:
            why = made.overshoots(1 << machine.offer, offers, machine.used)
        made.tally.remove(shop.offers[machine.offer], machine.inside)
        for ask in reversed(machine.inside):
            if machine.number >= 0:
                made.board.take(ask, machine.number)
            why_not[ask.pod.key] = why
            gone.add(id(ask))
        machine.inside, machine.used, machine.taken = [], {}, None
        machine.offers = 0  # nobody else's
    if gone:
        made.order = [(ask, machine) for ask, machine in made.order if id(ask) not in gone]
    return why_not


def _better_alone(made: Workshop, machine: New) -> Ask | None:
    """The first pod, if the own machines of all pods here are sold out and would be far smaller together.

    Where one machine for all would be the better buy anyway, nobody has a larger one for want of the right one.
    """
    shop, profiles = made.shop, made.board.profiles
    if shop.own >> machine.offer & 1:
        return None
    alone: list[int] = []
    for ask in machine.inside:
        fitting = profiles[ask.profile].offers & shop.holding(ask.needs) & ~shop.own
        offer = shop.best(fitting & shop.possible)
        if fitting & shop.buyable & shop.of_gpus(0, shop.gpus[offer]):
            return None
        alone.append(offer)
    if shop.gpus[machine.offer] <= sum(shop.gpus[offer] for offer in alone) + made.overshoot:
        return None
    if made.cheapest and shop.price[machine.offer] <= sum(shop.price[offer] for offer in alone):
        return None
    return machine.inside[0]


def spread(made: Workshop, there: Counter[tuple[str, str]]) -> None:
    """The same type at the same price where the pool has the fewest machines; else where it is."""
    shop = made.shop
    for machine in made.machines:
        if not machine.inside:
            continue
        here = shop.offers[machine.offer]
        options = made.could_be(machine, shop.alike(machine.offer) & made.buyable)
        options &= shop.holding(machine.used)
        if any(ask.gang is not None and ask.gang.one_location for ask in machine.inside):
            options = 0
        places = [machine.offer, *bits(options)]
        best = min(places, key=lambda n: there[(here.pool.name, shop.offers[n].offer.location)])
        if best != machine.offer:
            made.become(machine, best)
            made.turn(machine, best)
        there[(here.pool.name, shop.offers[best].offer.location)] += 1
