"""Machines that keep the limits together, where those that are opened pod by pod use them up too soon.

A pod that is seated early opens the best machine for itself alone, and what the limits leave then may be too little for
the next one, though one machine for both would have kept them. So where a limit left somebody without a place, all
are packed as if there were none, and the result is taken if nothing objects to it after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from controller.domain.plan import Explanation
from controller.domain.resources import GPU
from controller.planning.bargains import MOST, bargain
from controller.planning.board import Board
from controller.planning.choice import Candidate
from controller.planning.fit import Ask
from controller.planning.limits import Tally
from controller.planning.own import is_own
from controller.planning.packing import Packer, Packing
from controller.planning.shop import PRECISION, Shop
from controller.planning.turns import limited
from controller.planning.workshop import bits

_AMOUNTS = (GPU, "cpu", "memory")
_ROUNDING = 1 + 1e-9


class _Unlimited(Tally):
    """Objects to no machine that is bought. One of the user's own is there once, whatever anybody allows."""

    def __init__(self, tally: Tally) -> None:
        self.__dict__.update(tally.copy().__dict__)

    def objection(self, candidate: Candidate, inside: Sequence[Ask] = ()) -> Explanation | None:
        return super().objection(candidate, inside) if is_own(candidate.offer) else None

    def objection_to_join(self, candidate: Candidate, inside: Sequence[Ask], ask: Ask) -> Explanation | None:
        return None

    @property
    def exhausted(self) -> bool:
        return False

    @property
    def out_of_gpus(self) -> bool:
        return False


def at_once(
    packing: Packing, packer: Packer, tally: Tally, board: Board, left: Sequence[Ask]
) -> Packing | None:
    """More pods of `left` than the packing has, with all limits kept; or None.

    Not where gangs wait: too few of one would have to be taken out again, and for its sake others were left out.
    """
    if len(left) > MOST or any(ask.gang is not None for ask in left):
        return None
    if not limited(packing):
        return None
    never = {key for key, why in packing.unplaced.items() if why is None}
    pods = [ask for ask in left if ask.pod.key not in never]
    if _too_much(pods, packer.shop, tally):
        return None
    free = _Unlimited(tally)
    found = packer.best(pods, free, board)
    for made in (bargain(found, packer, free, board, pods), found):
        kept = _keeping(tally, made) if made is not None else None
        if kept is not None:
            kept.unplaced |= dict.fromkeys(never)
            if packer.judge.beats(kept, packing, left):
                return kept
    return None


def _keeping(tally: Tally, made: Packing) -> Packing | None:
    """The same packing on the tally of what is there, if nothing objects."""
    kept = replace(made, tally=tally.copy(), unplaced=dict(made.unplaced))
    for candidate, inside in zip(made.chosen, made.inside, strict=True):
        if kept.tally.objection(candidate, inside) is not None:
            return None
        kept.tally.add(candidate, inside)
    return kept


def _too_much(pods: Sequence[Ask], shop: Shop, tally: Tally) -> bool:
    """Whether the limits cannot possibly leave room for all of these, so that nobody need look for long."""
    sold = [(n, shop.offers[n]) for n in bits(shop.buyable & ~shop.own)]
    if not sold:
        return True
    limits = tally.limits
    for name in _AMOUNTS:
        needed = sum(ask.needs.get(name, 0) for ask in pods)
        most: dict[str, int] = {}  # by pool, what its machines could have together
        for n, candidate in sold:
            there = tally.slots(candidate) * shop.free[n].get(name, 0)
            most[candidate.pool.name] = max(there, most.get(candidate.pool.name, 0))
        own = sum(shop.free[n].get(name, 0) for n in bits(shop.own))
        if needed > own + sum(most.values()):
            return True
        if limits.price_per_hour is not None and not own and needed:
            per_unit = max(shop.free[n].get(name, 0) / max(1, shop.price[n]) for n, _ in sold)
            left = float(limits.price_per_hour - tally.price) * PRECISION
            if needed > left * per_unit * _ROUNDING:
                return True
        if (gpus := tally.gpus_left) is not None and name == GPU and not own and needed:
            per_gpu = max(shop.free[n].get(name, 0) / max(1, candidate.gpus) for n, candidate in sold)
            if needed > gpus * per_gpu * _ROUNDING:
                return True
    return False
