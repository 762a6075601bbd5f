"""What is bought, or switched on, for whom: the launches of a draft, and what every pod of it is told."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.domain.money import in_words
from controller.domain.plan import Explanation, Launch
from controller.domain.reason import SENTENCES, Reason
from controller.planning.choice import Candidate
from controller.planning.drafts import Draft
from controller.planning.fit import Ask
from controller.planning.hindsight import with_planned
from controller.planning.incomplete import why_unplaced
from controller.planning.own import is_own, words
from controller.planning.room import launch


def switch_on(made: Draft) -> list[Launch]:
    """Own machines that got a pod in the end; the places of the others are taken by nobody."""
    rooms = {room.name: room for room in made.placing.sites.coming if room.pods}
    actions = []
    for one in made.first:
        room = rooms.get(one.pool)
        if room is None:
            continue
        pods, what = room.pods, words(one.offer)
        for pod in pods:
            made.told[pod.key] = Explanation(Reason.LAUNCHING, f"{what} is switched on for it")
        sentence = f"{what} is switched on for {len(pods)} pod{'s' * (len(pods) != 1)}"
        actions.append(msgspec.structs.replace(one, pods=tuple(pod.key for pod in pods), reason=sentence))
    return actions


def told_of_switched(made: Draft, launches: list[Launch]) -> dict[str, Explanation]:
    """Machines that are switched on by this plan, and those that came first and that nobody needs in the end."""
    told = {one.pool: Explanation(Reason.OFF, SENTENCES[Reason.OFF]) for one in made.first}
    return told | {
        one.pool: Explanation(Reason.STARTING, one.reason) for one in launches if is_own(one.offer)
    }


def buy(made: Draft) -> list[Launch]:
    told = made.told
    actions: list[Launch] = []
    said: dict[int, tuple[str, Explanation]] = {}  # by candidate
    for room, candidate in zip(made.packing.rooms, made.packing.chosen, strict=True):
        if id(candidate) not in said:
            said[id(candidate)] = _words(candidate)
        rest, why = said[id(candidate)]
        count = len(room.pods)
        bought = launch(room, f"{count} pod{'s' * (count != 1)} on {rest}")
        actions.append(bought)
        told.update(dict.fromkeys(bought.pods, why))
    missed = [ask for ask in made.left if ask.pod.key in made.packing.unplaced]
    if made.packing.rooms and any(made.board.profiles[ask.profile].ruled for ask in missed):
        with with_planned(made.board, made.packing, made.packer.shop):
            _explain(made, missed)
    else:
        _explain(made, missed)
    return actions


def _explain(made: Draft, missed: Sequence[Ask]) -> None:
    slow: dict[tuple[int, str, str], Explanation] = {}
    for ask in missed:
        limit = made.packing.unplaced[ask.pod.key]
        alike = (ask.kind, ask.pod.namespace, limit.message if limit is not None else "")
        if alike not in slow:
            slow[alike] = why_unplaced(made, ask)
        made.told[ask.pod.key] = slow[alike]


def _words(candidate: Candidate) -> tuple[str, Explanation]:
    """Of a machine that is bought: what it is, and what its pods are told."""
    offer, gpus = candidate.offer, candidate.gpus
    if is_own(offer):
        what = f"{words(offer)}, which is switched on"
        return what, Explanation(Reason.LAUNCHING, f"{words(offer)} is switched on for it")
    price = in_words(offer.price)
    return (
        f"{offer.type.name} ({gpus} GPU{'s' * (gpus != 1)}) in {offer.location}, {offer.market}, {price} an hour",
        Explanation(
            Reason.LAUNCHING,
            f"pool {candidate.pool.name} launches {offer.type.name} in {offer.location} ({offer.market}, "
            f"{price} an hour) for it",
        ),
    )
