"""What would be done for the pods that wait: places on what exists, then machines; before anything is said of it.

A gang that cannot be completed is left out, and the places of its pods are for others. The machines that a pool's minimum
lacks are room for pods; where they would stand in the way of pods, or cost more, they come after the machines for these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from controller.domain import names
from controller.domain.kube import Pod
from controller.domain.plan import Explanation, Launch, Snapshot
from controller.domain.reason import Reason
from controller.planning import together
from controller.planning.at_once import at_once
from controller.planning.bargains import bargain
from controller.planning.board import Board
from controller.planning.choice import Candidate, candidates
from controller.planning.companions import Companions
from controller.planning.default_spreads import with_default_spreads
from controller.planning.demand import Demand, gather
from controller.planning.device_claims import Claims, with_devices
from controller.planning.evidence import Doubts
from controller.planning.explain import Question, why_not
from controller.planning.fit import Ask, asks, watched_labels
from controller.planning.gangs import Gang
from controller.planning.hopeless import sort_out
from controller.planning.in_vain import without_doubted, without_hopeless
from controller.planning.limit_ranges import with_limit_ranges
from controller.planning.limits import Tally
from controller.planning.locations import Place, Tried, in_one_location
from controller.planning.minimum import TopUp, kept, top_up
from controller.planning.narrowing import Narrowed, Narrowing
from controller.planning.nominated import with_nominated
from controller.planning.own import any_own, as_if_on_the_way, only_own
from controller.planning.packing import Packer, Packing
from controller.planning.picture import at_paid_prices, in_order
from controller.planning.placing import Placing, board_of, place
from controller.planning.protection import paused
from controller.planning.room import UNNAMED, launch
from controller.planning.sites import Sites, existing

# Gangs that fail are left out one after the other, since one may stand in the other's way, and each time all is drafted
# anew; after so many (fewer where many pods wait, whose drafts take long) all that fail at once.
_AT_LEAST, _ONE_BY_ONE, _PODS_OF_THEM = 4, 100, 8000
# How often gangs that must be in one location are tried in the next one, by a draft of everything.
# Gangs that nothing helps take as many in each round in which one of them is left out.
_OTHER_LOCATIONS, _AT_MOST, _PODS_OF_ALL = 8, 64, 4000
_PASSED_ON = 8  # pods: so often a turn is passed on where nothing is ordered in it, by a draft of everything
_IN_DOUBT = "its machines did not become usable lately, and one at a time is tried"


@dataclass(slots=True)
class Draft:
    """What would be done if these gangs were left out."""

    snapshot: Snapshot
    found: Demand
    told: dict[str, Explanation]
    sites: Sites
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
    waiting: frozenset[str] = frozenset()  # pods that wait while another one is tried
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
    def hopeless(self) -> set[str]:
        """Gangs of which some pod was bought for twice, by machines that did not take it: no other location helps."""
        gangs = self.found.gangs
        wrong = (key for key in gangs if key in self.told and self.told[key].code is Reason.PREDICTION_WRONG)
        return {gangs[key].key for key in wrong}


def draft(snapshot: Snapshot) -> Draft:
    """The picture must have a pool for each machine of the user's own."""
    snapshot = in_order(at_paid_prices(snapshot))
    snapshot = with_limit_ranges(with_default_spreads(snapshot))
    claims = Claims(snapshot)
    found = gather(snapshot, claims)
    snapshot, placed = with_nominated(snapshot)
    snapshot = with_devices(snapshot, claims)
    first: list[Launch] = []
    if snapshot.policy.own_first and found.pods and any_own(snapshot.offers):
        without = _whole(only_own(snapshot), found)
        first = [launch(room, "") for room in without.packing.rooms]
        snapshot = as_if_on_the_way(snapshot, first)
    made = _beside_minimum(snapshot, found)
    made.first, made.placed = first, placed
    return made


def _beside_minimum(snapshot: Snapshot, found: Demand) -> Draft:
    """Pods have the machines that a minimum lacks. Where these are not enough, the pods may also come first: what is bought
    for them counts towards the minimum, and only what it lacks even then is ordered anyhow."""
    made = _whole(snapshot, found)
    lacked = Counter(c.pool.name for c in made.minimum.chosen)
    if not lacked or len(made.placing.order) == len(found.pods):
        return made
    after = _whole(snapshot, found, {})
    anyhow = Counter(c.pool.name for c in after.minimum.chosen)
    between = [_whole(snapshot, found, anyhow)] if anyhow and anyhow != lacked else []
    _, idle = kept(snapshot, made.ordered)
    return min((made, *between, after), key=lambda way: _worth(way, idle))


def _worth(made: Draft, idle: Decimal) -> tuple[list[int], int, Decimal, Decimal]:
    """The least is the best: whom it leaves without a place, the most urgent first; what the minimums lack; what it orders,
    and by how much dearer than `idle` is what stays when nothing runs, which is paid for ever; then what it orders."""
    placed = {ask.pod.key for ask, _ in (*made.placing.order, *made.packing.order)}
    left = sorted((p.shape.priority for p in made.found.pods if p.key not in placed), reverse=True)
    lacking, stays = kept(made.snapshot, made.ordered)
    price = sum((c.price for c in made.ordered), Decimal(0))
    return left, lacking, price + max(Decimal(0), stays - idle), price


def _whole(snapshot: Snapshot, found: Demand, first: Mapping[str, int] | None = None) -> Draft:
    """No gang of which too few would get a place. `first`: how many machines of a pool's minimum come before those for pods;
    None: all that it lacks."""
    failed: dict[str, Explanation] = {}
    short: set[Reason] = set()
    tried = Tried()
    wakes: list[float] = []
    doubts = Doubts(snapshot)
    options = without_doubted(snapshot, doubts, candidates(snapshot), wakes)
    whole: set[str] = set()  # gangs that do not come together without what is in doubt
    blamed: dict[str, set[str]] = {}
    nearest: dict[str, Explanation] = {}  # what was in the way in the first location of a gang
    pods = max(1, len(found.pods))
    moves = max(_OTHER_LOCATIONS, min(_AT_MOST, _PODS_OF_ALL // pods))
    alone = max(_AT_LEAST, min(_ONE_BY_ONE, _PODS_OF_THEM // pods))
    parked: set[str] = set()  # gangs whose turn it is not, left out as long as it may be that of others
    passed: set[str] = set()  # pods for which nothing is ordered of what is in doubt, as it turned out
    while True:
        made = _draft(snapshot, found, options, failed, tried, blamed, wakes, doubts, whole, passed, first)
        made.short = set(short)
        broken = _incomplete(made, failed)
        if again := broken.keys() & made.narrowed.gangs:
            whole |= again
            continue
        in_vain = made.narrowed.tries & made.packing.unplaced.keys()
        if not in_vain <= passed and len(passed) < _PASSED_ON:
            passed |= in_vain  # it is the turn of others
            continue
        waiting = {gang.key for key, gang in found.gangs.items() if key in made.waiting}
        for key in made.places.keys() & broken.keys() - waiting:
            broken[key] = nearest.setdefault(key, broken[key])
        if tried.heed(made.places, broken, made.seated, made.hopeless, more=moves > 0) and moves:
            moves -= 1
            continue
        if not broken:
            if made.packer.goals:
                _better(made, bargain(made.packing, made.packer, made.tally, made.board, made.left), failed)
            _better(made, at_once(made.packing, made.packer, made.tally, made.board, made.left), failed)
            if first is not None:
                _fill_up(made)
            return made
        short = made.short
        alone -= 1
        ready = {key: why for key, why in broken.items() if key not in waiting} or broken
        in_the_way = {key: why for key, why in broken.items() if key not in ready and made.seated[key]}
        if (
            in_the_way
        ):  # it has no turn, and so not its places either, unless those that have one fail without it
            failed |= in_the_way
            parked |= in_the_way.keys()
            tried.clear()  # of what failed beside them
            continue
        for key in parked:
            del failed[key]
        parked.clear()
        failed |= _of_no_influence(ready, tried.held) if alone >= 0 else broken
        tried.clear()  # what is left out now may have been in the way


def _draft(
    snapshot: Snapshot,
    found: Demand,
    options: list[Candidate],
    failed: Mapping[str, Explanation],
    tried: Tried,
    blamed: dict[str, set[str]],
    wakes: list[float],
    doubts: Doubts,
    whole: Collection[str],
    passed: Collection[str],
    first: Mapping[str, int] | None,
) -> Draft:
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
    minimum = top_up(snapshot, packer, options, tally, first)
    sites.coming += minimum.rooms
    for number, room in enumerate(minimum.rooms):  # told apart, as machines are
        room.labels = {**room.labels, names.LABEL_HOSTNAME: f"{UNNAMED} {number}"}
    gangs: Mapping[str, Gang] = found.gangs
    places: dict[str, Place] = {}
    if any(gang.one_location for gang in gangs.values()):
        demand, gangs, places = in_one_location(
            demand, gangs, snapshot.machines, sites, options, packer.template, tally, tried
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

    narrowing = Narrowing(snapshot, doubts, packer.shop, board, tally, packer.overshoot, whole)
    taken = {room.pool.name for room in minimum.rooms if room.pool is not None}
    left, turns = without_hopeless(
        snapshot,
        placing.left,
        told,
        free,
        doubts=doubts,
        narrowing=narrowing,
        passed=passed,
        taken=taken,
        wakes=wakes,
        blamed=blamed,
    )
    narrowed = narrowing.narrow(left, turns, passed, taken)
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
        blamed=blamed,
        wakes=wakes,
        narrowed=narrowed,
        waiting=frozenset(turns.waiting | narrowed.waiting),
    )


def _fill_up(made: Draft) -> None:
    """What the minimum lacks beside the machines for pods."""
    tally = made.tally.copy()
    for candidate, inside in zip(made.packing.chosen, made.packing.inside, strict=True):
        tally.add(candidate, inside)
    bought = Counter(c.pool.name for c in made.ordered)
    rest = top_up(made.snapshot, made.packer, made.options, tally, bought=bought)
    for candidate in rest.chosen:
        made.tally.add(candidate)
    made.sites.coming += rest.rooms
    made.minimum.extend(rest)


def _better(made: Draft, packing: Packing | None, failed: Mapping[str, Explanation]) -> None:
    """Take this packing, unless members of gangs that ask for no GPU would have a place with the first one only."""
    if packing is not None and not _incomplete(replace(made, packing=packing, short=set()), failed):
        made.packing = packing


def _incomplete(made: Draft, failed: Mapping[str, Explanation]) -> dict[str, Explanation]:
    """Gangs of which fewer pods got a place than are of use, the most urgent first, with the first thing that is missing."""
    of_pod = made.found.gangs
    in_turn = (of_pod[pod.key] for pod in made.found.pods if pod.key in of_pod)
    gangs = {gang.key: gang for gang in in_turn if gang.key not in failed}
    if not gangs:
        return {}
    placed = {ask.pod.key for ask, _ in (*made.placing.order, *made.packing.order)}
    count = Counter(gang.key for key, gang in made.found.gangs.items() if key in placed)
    waiting = Counter(gang.key for gang in made.found.gangs.values())
    why: dict[str, Explanation] = {}
    for ask in made.left:
        if ask.gang is not None and ask.pod.key in made.packing.unplaced and ask.gang.key not in why:
            why[ask.gang.key] = why_unplaced(made, ask)
    for key, gang in made.found.gangs.items():
        if gang.key not in why and key not in placed and key in made.told:
            why[gang.key] = made.told[key]
    found = {}
    declared = made.snapshot.policy.wanted_resources
    companions = Companions(gangs.values(), made.sites, made.packing, declared)
    for gang in gangs.values():
        if count[gang.key] >= min(gang.needed, waiting[gang.key]):
            lacking = companions.lacking(gang)
            if count[gang.key] < gang.needed + len(lacking) - gang.spare:
                found[gang.key] = _nothing_beside(gang, lacking)
            continue
        first = why.get(gang.key)
        if first is not None:
            made.short.add(first.code)
        places = made.packing.together.get(gang.key, count[gang.key])
        found[gang.key] = Explanation(
            Reason.GANG_INCOMPLETE,
            f"{gang.name} needs {gang.needed} of its waiting pods at once and only {places} would get a place"
            + (", all in one location" if gang.one_location else "")
            + (f"; the next: {_for_a_gang(made, first)}" if first is not None else ""),
        )
    made.placing.needed = companions.needed | made.placing.needed
    return found


def _nothing_beside(gang: Gang, lacking: Sequence[Pod]) -> Explanation:
    several = f", as {len(lacking) - 1} more do" if len(lacking) > 1 else ""
    return Explanation(
        Reason.GANG_INCOMPLETE,
        f"{gang.name} cannot start without pod {lacking[0].key}, which asks for no GPU{several}: no node that is there or "
        "on its way has room for it, nor has a machine that the others would get",
    )


def _for_a_gang(made: Draft, why: Explanation) -> str:
    if why.code is not Reason.LIMIT_RATE:
        return why.message
    return (
        f"limits.launches_per_minute is {made.snapshot.policy.limits.launches_per_minute}, and all that it needs is ordered "
        "at once: it waits until so many launches are free again, and for ever if it needs more: raise it then"
    )


def _of_no_influence(broken: Mapping[str, Explanation], held: Collection[str]) -> dict[str, Explanation]:
    """The first gang that fails and held places, without which others may come together. Where none held any, all of
    them: what failed without a place stood in nobody's way."""
    first = next((key for key in broken if key in held), None)
    return {first: broken[first]} if first is not None else dict(broken)


def why_unplaced(made: Draft, ask: Ask) -> Explanation:
    shop, packing, options = made.packer.shop, made.packing, made.options
    stages, apart = shop.stages, {}
    before = made.narrowed.profiles.get(ask.profile)
    if before is not None and ask.pod.key in made.narrowed.without:
        ask = Ask(ask.pod, ask.kind, before, ask.needs, ask.size, ask.scarce, ask.gang)
    elif before is not None:
        # The others are not for it now.
        out = made.board.profiles[before].offers & ~made.board.profiles[ask.profile].offers
        apart = {c.pool.name: _IN_DOUBT for c in options if out >> shop.number[id(c)] & 1}
        options, stages = [c for c in options if not out >> shop.number[id(c)] & 1], {}
    claims = made.board.profiles[ask.profile].held.contested
    users = packing.users_of(claims, made.board) if claims else ()
    question = Question(made.snapshot, ask, shop.template, made.board, packing.tally, users, stages, apart)
    return why_not(question, options, packing.unplaced[ask.pod.key])
