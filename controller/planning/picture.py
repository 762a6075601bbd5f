"""The picture that is planned on: at the prices that are paid, and listed in the one order that ties are broken by."""

from __future__ import annotations

from operator import attrgetter

import msgspec

from controller.domain.cloudthings import InstanceType, Offer
from controller.domain.plan import Snapshot
from controller.domain.prices import priced
from controller.domain.remembering import remembered
from controller.planning import rest

by_name, by_intent = attrgetter("name", "uid"), attrgetter("name", "intent")


def at_paid_prices(snapshot: Snapshot) -> Snapshot:
    """The same picture with what is really paid: a snapshot holds list prices, and the rules beside them."""
    rules = snapshot.policy.prices
    if not rules:
        return snapshot
    known: dict[int, InstanceType] = {}
    for offer in snapshot.offers:
        if id(offer.type) not in known:
            known[id(offer.type)] = priced(rules, offer.type)
    offers = tuple(msgspec.structs.replace(o, type=known[id(o.type)]) for o in snapshot.offers)
    return msgspec.structs.replace(snapshot, offers=offers)


def in_order(snapshot: Snapshot) -> Snapshot:
    """The same picture, listed in the one order that ties are broken by."""
    return msgspec.structs.replace(
        snapshot,
        pods=tuple(sorted(snapshot.pods, key=rest.by_name)),
        nodes=tuple(sorted(snapshot.nodes, key=by_name)),
        budgets=tuple(sorted(snapshot.budgets, key=rest.by_name)),
        machines=tuple(sorted(snapshot.machines, key=by_intent)),
        offers=listed(snapshot.offers),
    )


@remembered
def listed(offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
    return tuple(
        sorted(
            offers,
            key=lambda o: (o.type.name, o.location, o.market, o.price, not o.available, o.type.gpus),
        )
    )
