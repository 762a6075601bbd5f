"""The board as it will be once what is planned has come about: why a pod got no place may be others of the same plan.

A packing leaves the board as it was. Explanations are told afterwards, and where pods are spread, those that were
planned before are what is in the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from controller.planning.board import Board
from controller.planning.shop import Shop
from controller.planning.workshop import Packing


@contextmanager
def with_planned(board: Board, packing: Packing, shop: Shop) -> Iterator[None]:
    """The new machines, where they will be, and their pods are on the board meanwhile."""
    mark = board.mark()
    numbers = []
    for candidate in packing.chosen:
        offer = shop.number[id(candidate)]
        number = board.open(dict(shop.free[offer]), offer)
        for key in board.unpinned:
            board.pin(number, key, offer)
        numbers.append(number)
    for ask, at in packing.order:
        board.put(ask, numbers[at])
    try:
        yield
    finally:
        board.back_to(mark)
