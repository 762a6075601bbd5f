"""Locations that a plan itself brings into being, to the harm of pods that are to be spread evenly.

Where not every location that could be bought in can be used, pods are spread over those that there are. A machine that
is bought later, for somebody else, may then be the first of one more location, in which none of them runs: whoever is
one too many then is refused by the scheduler, for ever, on a machine that was bought for it. The same goes for hosts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.domain.kube import Pod
from controller.domain.plan import Explanation
from controller.domain.reason import Reason
from controller.planning.board import Board, Profile
from controller.planning.census import Spreading
from controller.planning.workshop import New, Workshop

APART = Explanation(
    Reason.TOPOLOGY,
    "a machine for it would be the first in its location, and pods that have a place and are to be spread evenly could "
    "not be bound then: it is bought once they are",
)


@dataclass(slots=True)
class Late:
    """What is wrong with a packing."""

    offers: int = 0  # without machines of these nobody would be one too many
    pods: dict[str, Explanation] = field(default_factory=dict)  # and these are, whatever is bought


def late(made: Workshop) -> Late:
    """What the machines of this packing do to pods that have a place and are not bound to it yet."""
    found = Late()
    seen: set[int] = set()
    for profile in made.board.profiles.values():
        for spreading in profile.spreads:
            if spreading.census.by_host:
                _hosts(made, spreading, found)
            elif spreading.census.total and id(spreading) not in seen:
                seen.add(id(spreading))
                found.offers |= _locations(made, profile, spreading)
    return found


def _locations(made: Workshop, profile: Profile, spreading: Spreading) -> int:
    board, census, spread = made.board, spreading.census, spreading.spread
    eligible = board.old | board.new if census.eligible is None else census.eligible
    by = board.looks.by(census.key)
    old = {value for value, places in by.items() if places & eligible & board.old}
    values = old | {value for value, places in by.items() if places & eligible}
    for machine in made.machines:
        if machine.inside and machine.number >= 0 and eligible >> machine.number & 1:
            value = _location(board, machine, census.key)
            if value is not None:
                values.add(value)
    if spread.min_domains is not None and len(values) < spread.min_domains:
        return 0
    crowded = max((census.counts.get(value, 0) for value in _used(made, profile, spreading)), default=0)
    empty = {value for value in values - old if crowded - census.counts.get(value, 0) > spread.max_skew}
    return board.domains(census.key, empty)[1] & census.offers


def _location(board: Board, machine: New, key: str) -> str | None:
    pins = board.pinned.get(machine.number, {})
    return pins[key] if key in pins else board.offers.value(machine.offer, key)


def _used(made: Workshop, profile: Profile, spreading: Spreading) -> set[str]:
    """Locations with pods of the kind that are not bound yet."""
    board, key = made.board, spreading.census.key
    found = {
        _location(board, machine, key)
        for ask, machine in made.order
        if machine.number >= 0 and spreading in board.profiles[ask.profile].spreads
    }
    for number, room in enumerate(board.rooms):
        if _waiting(room.pods, profile):
            found.add(board.domain(number, key))
    return {value for value in found if value is not None}


def _waiting(pods: Iterable[Pod], profile: Profile) -> bool:
    return any(not pod.node and pod.shape is profile.shape for pod in pods)


def _hosts(made: Workshop, spreading: Spreading, found: Late) -> None:
    board, census, spread = made.board, spreading.census, spreading.spread
    eligible = board.old | board.new if census.eligible is None else census.eligible
    eligible &= board.looks.having(census.key) | board.new
    low = 0
    while eligible and not eligible & ~census.holds_more_than(low):
        low += 1
    if spread.min_domains is not None and eligible.bit_count() < spread.min_domains:
        low = 0
    most = spread.max_skew + low
    over = census.holds_more_than(most)
    if not over:
        return
    counted = [
        (ask, machine.number)
        for ask, machine in made.order
        if machine.number >= 0 and over >> machine.number & 1
    ]
    holds = {number: sum(places >> number & 1 for places in census.levels) for _, number in counted}
    profiles = board.profiles
    for ask, number in counted:
        holds[number] -= census in profiles[ask.profile].feeds
    for ask, number in counted:
        holds[number] += census in profiles[ask.profile].feeds
        if spreading in profiles[ask.profile].spreads and holds[number] > most:
            found.pods[ask.pod.key] = Explanation(
                Reason.TOPOLOGY,
                f"one more pod would exceed maxSkew {spread.max_skew} over {spread.topology_key} on every machine that "
                "has room for it",
            )
