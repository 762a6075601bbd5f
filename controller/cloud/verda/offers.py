"""The catalogue and the two inventories of what is in stock, joined into offers. Pure.

Spot and on-demand stock are separate lists, a type can be in one and not in the other, and a location
without stock may be missing altogether. What is not in stock is offered as not available, so that the
planner can say that it exists. A market without a price above zero is not offered: nothing is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.domain.cloudthings import ON_DEMAND, SPOT, InstanceType, Offer

Stock = Mapping[str, frozenset[str]]  # location -> types in upper case


def offers(
    types: Iterable[InstanceType], locations: Iterable[str], on_demand: Stock, spot: Stock
) -> tuple[Offer, ...]:
    """Every type in every known location and market, in the order of the catalogue."""
    known = tuple(dict.fromkeys((*locations, *sorted(on_demand), *sorted(spot))))
    found: list[Offer] = []
    for kind in types:
        for place in known:
            for market, stock in ((ON_DEMAND, on_demand), (SPOT, spot)):
                if kind.price_in(market) > 0:
                    available = kind.name.upper() in stock.get(place, frozenset())
                    found.append(Offer(type=kind, location=place, market=market, available=available))
    return tuple(found)
