"""How little the machines of a plan could cost at all: the bound that strategy `cheapest` reports beside its price.

Each pod pays for its share of one resource on the machine where that share costs the least, as if machines
could be cut in pieces. No set of machines for the same pods costs less, whatever the resource; so the highest of
these sums counts, and never less than the cheapest machine that holds the dearest pod.
"""

from __future__ import annotations

from collections import Counter
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from controller.planning.board import Board
from controller.planning.fit import Ask
from controller.planning.packing import Packing
from controller.planning.shop import Shop

_CENT = Decimal("0.0001")
_BILLION = 10**9
_FINE = 1000  # shares are counted in trillionths, and what is cut off of one is less than that


def price_floor(packing: Packing, shop: Shop, board: Board) -> Decimal:
    """Dollars an hour, rounded down, but never above the price of the packing."""
    count = Counter(ask.kind for ask, _ in packing.order)
    first = {ask.kind: ask for ask, _ in packing.order}
    by_resource: dict[str, int] = {}
    dearest = 0
    for kind, ask in first.items():
        whole, shares = _cheapest(ask, shop, board)
        dearest = max(dearest, whole)
        for name, share in shares.items():
            by_resource[name] = by_resource.get(name, 0) + (share + 1) * count[kind]
    sums = max(by_resource.values(), default=0) // _FINE
    least = (Decimal(max(sums, dearest)) / _BILLION).quantize(_CENT, ROUND_FLOOR)
    return min(least, packing.price.quantize(_CENT, ROUND_CEILING))


def _cheapest(ask: Ask, shop: Shop, board: Board) -> tuple[int, dict[str, int]]:
    """The price of the cheapest machine that holds it, and by resource of its cheapest share of any machine."""
    offers = board.profiles[ask.profile].offers & shop.buyable & shop.holding(ask.needs)
    whole = -1
    shares: dict[str, int] = {}
    seen: set[tuple[int, int]] = set()
    while offers:
        bit = offers & -offers
        offers ^= bit
        number = bit.bit_length() - 1
        price, free = shop.price[number], shop.free[number]
        if (price, id(free)) in seen:
            continue
        seen.add((price, id(free)))
        whole = price if whole < 0 else min(whole, price)
        for name, units in ask.needs.items():
            share = price * units * _FINE // free[name]
            shares[name] = min(share, shares.get(name, share))
    return max(0, whole), shares
