"""Locations that a plan itself brings into being, to the harm of pods that are to be spread evenly.

Where not every location that could be bought in can be used, pods are spread over those that there are. A machine that
is bought later, for somebody else, may then be the first of one more location, in which none of them runs: whoever is
one too many then is refused by the scheduler, for ever, on a machine that was bought for it. The same goes for hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def late(made: Workshop, *, bound: bool) -> Late:
    """What the machines of this packing do to pods that have a place and are not bound to it yet.

    `bound`: some pod got a place that it would not have if every location that can be bought in counted. Without one
    nobody is one too many in what was bought; whoever waits for an earlier machine may be.
    """
    found = Late()
    waiting = [
        (pod, number) for number, room in enumerate(made.board.rooms) for pod in room.pods if not pod.node
    ]
    if not bound and not any(spread.hard for pod, _ in waiting for spread in pod.shape.spreads):
        return found
    look = _Look(made, waiting)
    for profile in made.board.profiles.values():
        for spreading in profile.spreads:
            if spreading.census.by_host:
                look.hosts(spreading, found)
            elif spreading.census.total:
                found.offers |= look.locations(profile, spreading)
    return found


def harmless(board: Board, chosen: Iterable[int]) -> int:
    """Offers that bring no location into being beside these, where pods wait for a place and could lose it by that."""
    found = -1
    waiting = [pod for room in board.rooms for pod in room.pods if not pod.node]
    if not any(spread.hard for pod in waiting for spread in pod.shape.spreads):
        return found
    offers = list(chosen)
    for profile in board.profiles.values():
        for spreading in profile.spreads:
            census = spreading.census
            if census.by_host or not census.total:
                continue
            eligible = board.old if census.eligible is None else board.old & census.eligible
            known = {value for value, at in board.looks.by(census.key).items() if at & eligible}
            ours = [board.offers.value(offer, census.key) for offer in offers if census.offers >> offer & 1]
            known |= {value for value in ours if value is not None}
            found &= board.domains(census.key, known)[1] | ~census.offers | ~board.offers.having(census.key)
    return found


class _Look:
    def __init__(self, made: Workshop, waiting: Sequence[tuple[Pod, int]]) -> None:
        self._board = board = made.board
        self._waiting = waiting
        self._machines = [m for m in made.machines if m.inside and m.number >= 0]
        self._seated = [(board.profiles[a.profile], m) for a, m in made.order if m.number >= 0]
        self._keys = [
            (a.pod.key, board.profiles[a.profile], m.number) for a, m in made.order if m.number >= 0
        ]
        self._by: dict[str, dict[str, int]] = {}  # by key and location: new machines

    def _new(self, key: str) -> dict[str, int]:
        """Where the machines will be, be it decided or as it stands."""
        if key not in self._by:
            by = self._by[key] = {}
            for machine in self._machines:
                value = self._location(machine, key)
                if value is not None:
                    by[value] = by.get(value, 0) | 1 << machine.number
        return self._by[key]

    def _location(self, machine: New, key: str) -> str | None:
        pins = self._board.pinned.get(machine.number, {})
        return pins[key] if key in pins else self._board.offers.value(machine.offer, key)

    def locations(self, profile: Profile, spreading: Spreading) -> int:
        board, census, spread = self._board, spreading.census, spreading.spread
        eligible = board.old | board.new if census.eligible is None else census.eligible
        old = {value for value, at in board.looks.by(census.key).items() if at & eligible & board.old}
        new = {value for value, at in self._new(census.key).items() if at & eligible} - old
        if not new or (spread.min_domains is not None and len(old) + len(new) < spread.min_domains):
            return 0
        least = min(census.counts.get(value, 0) for value in new)
        if max(census.counts.values(), default=0) - least <= spread.max_skew:
            return 0
        used = {
            self._location(machine, census.key)
            for owner, machine in self._seated
            if spreading in owner.spreads
        }
        used |= {board.domain(number, census.key) for pod, number in self._waiting if _follows(pod, profile)}
        crowded = max((census.counts.get(value, 0) for value in used if value is not None), default=0)
        empty = {value for value in new if crowded - census.counts.get(value, 0) > spread.max_skew}
        return board.domains(census.key, empty)[1] & census.offers

    def hosts(self, spreading: Spreading, found: Late) -> None:
        board, census, spread = self._board, spreading.census, spreading.spread
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
        counted = [(key, owner, number) for key, owner, number in self._keys if over >> number & 1]
        holds = {number: sum(at >> number & 1 for at in census.levels) for _, _, number in counted}
        for _, owner, number in counted:
            holds[number] -= census in owner.feeds
        for key, owner, number in counted:
            holds[number] += census in owner.feeds
            if spreading in owner.spreads and holds[number] > most:
                found.pods[key] = Explanation(
                    Reason.TOPOLOGY,
                    f"one more pod would exceed maxSkew {spread.max_skew} over {spread.topology_key} on every machine "
                    "that has room for it",
                )


def _follows(pod: Pod, profile: Profile) -> bool:
    """Whether the pod is spread by the same rules, whatever it asks for."""
    mine, theirs = pod.shape, profile.shape
    return mine is theirs or (
        bool(mine.spreads)
        and pod.namespace == profile.namespace
        and mine.spreads == theirs.spreads
        and mine.labels == theirs.labels
        and mine.node_selector == theirs.node_selector
        and mine.required_terms == theirs.required_terms
        and mine.tolerations == theirs.tolerations
    )
