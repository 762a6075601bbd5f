"""One draft of what would be done: places on what exists, then machines; before anything is said of it.

The machines that a pool's minimum lacks are room for pods. A gang that is known to fail is left out, and the places of its
pods are for others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.domain import names
from controller.domain.plan import Explanation, Launch, Snapshot
from controller.domain.reason import Reason
from controller.planning import together
from controller.planning.board import Board
from controller.planning.choice import Candidate
from controller.planning.demand import Demand
from controller.planning.evidence import Doubts
from controller.planning.fit import Ask, asks, watched_labels
from controller.planning.gangs import Gang
from controller.planning.hopeless import sort_out
from controller.planning.in_vain import without_hopeless
from controller.planning.limits import Tally
from controller.planning.locations import Place, Tried, in_one_location
from controller.planning.minimum import TopUp, top_up
from controller.planning.narrowing import Narrowed, Narrowing
from controller.planning.packing import Packer, Packing
from controller.planning.placing import Placing, board_of, place
from controller.planning.protection import paused
from controller.planning.room import UNNAMED
from controller.planning.sites import Sites, existing


@dataclass(frozen=True, slots=True)
class Matter:
    """What a draft is of."""

    snapshot: Snapshot
    found: Demand
    doubts: Doubts
    options: list[Candidate]
    # How many machines of a pool's minimum come before those for pods; None: all that it lacks.
    first: Mapping[str, int] | None


@dataclass(slots=True)
class Before:
    """What earlier drafts of the same came to."""

    failed: dict[str, Explanation] = field(default_factory=dict)  # by gang that is left out, why
    tried: Tried = field(default_factory=Tried)
    whole: set[str] = field(default_factory=set)  # gangs that do not come together without what is in doubt
    passed: set[str] = field(
        default_factory=set
    )  # pods for which nothing is ordered of what is in doubt, as it turned out
    blamed: dict[str, set[str]] = field(
        default_factory=dict
    )  # by pod, machines that did not take it, gang or not
    wakes: list[float] = field(default_factory=list)  # when those that wait for a pause may be bought for

    @property
    def had_turns(self) -> bool:
        return bool(self.whole or self.passed)

    def forget_turns(self) -> None:
        self.whole.clear()
        self.passed.clear()


@dataclass(slots=True)
class Draft:
    """What would be done if these gangs were left out."""

    snapshot: Snapshot
    found: Demand
    told: dict[str, Explanation]
    sites: Sites
    doubts: Doubts
    options: list[Candidate]
    packer: Packer
    tally: Tally
    minimum: TopUp
    board: Board
    placing: Placing
    packing: Packing
    left: list[Ask]
    seated: Counter[str]  # by gang, how many of its pods have a place on what exists
    narrowed: Narrowed
    short: set[Reason] = field(default_factory=set)  # what gangs that were left out lacked first
    places: dict[str, Place] = field(default_factory=dict)  # of gangs in one location that could have another
    blamed: dict[str, set[str]] = field(
        default_factory=dict
    )  # by pod, machines that did not take it, gang or not
    wakes: list[float] = field(default_factory=list)  # when those that wait for a pause may be bought for
    first: list[Launch] = field(default_factory=list)  # own machines, which come before all that is bought
    placed: frozenset[str] = frozenset()  # pods that are on a node in this picture and not bound yet

    @property
    def ordered(self) -> list[Candidate]:
        return [*self.minimum.chosen, *self.packing.chosen]

    @property
    def served(self) -> set[str]:
        """Pods that get a place."""
        return {ask.pod.key for ask, _ in (*self.placing.order, *self.packing.order)}

    @property
    def waiting(self) -> set[str]:
        """Gangs that wait while another one is tried."""
        return {gang.key for key, gang in self.found.gangs.items() if key in self.narrowed.waiting}

    @property
    def hopeless(self) -> set[str]:
        """Gangs of which some pod was bought for twice, by machines that did not take it: no other location helps."""
        gangs = self.found.gangs
        wrong = (key for key in gangs if key in self.told and self.told[key].code is Reason.PREDICTION_WRONG)
        return {gangs[key].key for key in wrong}


def make(matter: Matter, before: Before) -> Draft:
    snapshot, found, options, failed = matter.snapshot, matter.found, matter.options, before.failed
    declared = snapshot.policy.wanted_resources
    told = dict(found.told)
    demand = found.pods
    if failed:
        out = {key: failed[gang.key] for key, gang in found.gangs.items() if gang.key in failed}
        told |= out
        demand = [pod for pod in demand if pod.key not in out]
    sites = existing(snapshot)
    packer = Packer(snapshot, options)
    tally = Tally(snapshot)
    minimum = top_up(snapshot, packer, options, tally, matter.doubts, matter.first)
    sites.coming += minimum.rooms
    for number, room in enumerate(minimum.rooms):  # told apart, as machines are
        room.labels = {**room.labels, names.LABEL_HOSTNAME: f"{UNNAMED} {number}"}
    gangs: Mapping[str, Gang] = found.gangs
    places: dict[str, Place] = {}
    if any(gang.one_location for gang in gangs.values()):
        demand, gangs, places = in_one_location(
            demand, gangs, snapshot.machines, sites, options, packer.template, tally, before.tried
        )
    watched = watched_labels((*demand, *(pod for pod in snapshot.pods if pod.node)))
    asking = asks(demand, declared, watched, gangs)
    board = board_of(snapshot, sites, asking, packer.shop.looks, packer.shop.buyable)
    board.offer_number = packer.shop.number_of_room
    placing = place(asking, sites, declared, board)
    told |= placing.told
    for rooms in (placing.sites.ready, placing.sites.coming, placing.sites.draining):
        tally.charges.placed(rooms)
    free = {room.name: room.free for room in placing.sites.ready}

    narrowing = Narrowing(snapshot, matter.doubts, packer.shop, board, tally, packer.overshoot, before.whole)
    taken = {room.pool.name for room in minimum.rooms if room.pool is not None}
    left, turns = without_hopeless(
        snapshot,
        placing.left,
        told,
        free,
        doubts=matter.doubts,
        narrowing=narrowing,
        passed=before.passed,
        taken=taken,
        wakes=before.wakes,
        blamed=before.blamed,
    )
    narrowed = narrowing.narrow(left, turns, before.passed, taken)
    left = narrowed.left
    if left and paused(snapshot, None, "scale-up"):
        told |= {ask.pod.key: Explanation(Reason.PAUSED, "scale-up is paused") for ask in left}
        left = []
    left = together.possible(left, demand, found.gangs, told)
    seated = Counter(ask.gang.key for ask, _ in placing.order if ask.gang is not None)
    sorted_out = sort_out(left, board, packer.shop, seated)
    packing = packer.best(sorted_out.left, tally, board, seated)
    packing.unplaced |= {ask.pod.key: None for ask in sorted_out.hopeless}
    packing.together |= sorted_out.together
    return Draft(
        snapshot=snapshot,
        found=found,
        told=told,
        sites=sites,
        doubts=matter.doubts,
        options=options,
        packer=packer,
        tally=tally,
        minimum=minimum,
        board=board,
        placing=placing,
        packing=packing,
        left=left,
        seated=seated,
        places=places,
        blamed=before.blamed,
        wakes=before.wakes,
        narrowed=narrowed,
    )
