"""Gangs with members that no machine holds: found by a look at the offers, before anything is packed.

A packing would seat the other members, find no place for these, and undo it all, in each of its attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.planning.board import Board
from controller.planning.fit import Ask
from controller.planning.shop import Shop


@dataclass(slots=True)
class Sorted:
    left: list[Ask] = field(default_factory=list)  # what is worth a packing
    hopeless: list[Ask] = field(default_factory=list)
    together: dict[str, int] = field(default_factory=dict)  # by hopeless gang: how many could have a place


def sort_out(left: Sequence[Ask], board: Board, shop: Shop, seated: Mapping[str, int]) -> Sorted:
    """`seated`: by gang, how many have a place that exists."""
    fits: dict[int, bool] = {}
    possible: Counter[str] = Counter(seated)
    gangs = {}
    for ask in left:
        if ask.gang is None:
            continue
        if ask.kind not in fits:
            offers = board.profiles[ask.profile].offers & shop.buyable
            fits[ask.kind] = bool(offers and offers & shop.holding(ask.needs))
        gangs[ask.gang.key] = ask.gang
        possible[ask.gang.key] += fits[ask.kind]
    found = Sorted()
    found.together = {key: possible[key] for key, gang in gangs.items() if possible[key] < gang.needed}
    for ask in left:
        lost = ask.gang is not None and ask.gang.key in found.together
        (found.hopeless if lost else found.left).append(ask)
    return found
