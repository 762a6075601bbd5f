"""How little the machines of a plan could cost at all: the bound that strategy `cheapest` reports beside its price.

Each pod pays for its share of one resource on the machine where that share costs the least, as if machines
could be cut in pieces. No set of machines for the same pods costs less, whatever the resource; so the highest of
these sums counts, and never less than the cheapest machine that holds the dearest pod.
"""

from __future__ import annotations

from collections import Counter
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from controller.planning.board import Board
from controller.planning.packing import Packing
from controller.planning.shop import Shop

_CENT = Decimal("0.0001")
_BILLION = 10**9
_FINE = 1000  # shares are counted in trillionths, and what is cut off of one is less than that


def price_floor(packing: Packing, shop: Shop, board: Board) -> Decimal:
    """Dollars an hour, rounded down, but never above the price of the packing."""
    count = Counter(ask.kind for ask, _ in packing.order)
    first = {ask.kind: ask for ask, _ in packing.order}
    cheapest: dict[int, tuple[int, dict[str, tuple[int, int]]]] = {}  # by offers
    by_resource: dict[str, int] = {}
    dearest = 0
    for kind, ask in first.items():
        offers = board.profiles[ask.profile].offers & shop.buyable & shop.holding(ask.needs)
        found = cheapest.get(offers)
        if found is None:
            found = cheapest[offers] = _cheapest(offers, shop)
        whole, by = found
        dearest = max(dearest, whole)
        for name, units in ask.needs.items():
            if name not in by:
                continue
            price, free = by[name]
            share = price * units * _FINE // free
            by_resource[name] = by_resource.get(name, 0) + (share + 1) * count[kind]
    sums = max(by_resource.values(), default=0) // _FINE
    least = (Decimal(max(sums, dearest)) / _BILLION).quantize(_CENT, ROUND_FLOOR)
    return min(least, packing.price.quantize(_CENT, ROUND_CEILING))


def _cheapest(offers: int, shop: Shop) -> tuple[int, dict[str, tuple[int, int]]]:
    """The least price of these; and by resource the price and amount of the one whose unit costs the least."""
    whole = -1
    by: dict[str, tuple[int, int]] = {}
    for price, free, bits in shop.sizes:
        if not bits & offers:
            continue
        whole = price if whole < 0 else min(whole, price)
        for name, units in free.items():
            if units <= 0:
                continue
            known = by.get(name)
            if known is None or price * known[1] < known[0] * units:
                by[name] = (price, units)
    return max(0, whole), by
