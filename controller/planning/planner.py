"""`plan(snapshot) -> Plan`: pure. The same snapshot gives the same plan, byte for byte.

Waiting pods are placed on what exists, or is on its way; what is left is packed onto new machines.
Every waiting pod and every machine gets one explanation, made here and printed everywhere. The order in
which a snapshot lists its things decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from operator import attrgetter

import msgspec

from controller.domain import names
from controller.domain.cloudthings import InstanceType, Offer
from controller.domain.kube import Pod
from controller.domain.machine import Machine, Phase
from controller.domain.money import in_words
from controller.domain.plan import Action, Explanation, KeepAfterAll, Launch, Plan, Snapshot
from controller.domain.prices import priced
from controller.domain.reason import SENTENCES, Reason
from controller.domain.remembering import remembered
from controller.planning import budget, rest, scale_down, together
from controller.planning.bargains import bargain
from controller.planning.board import Board
from controller.planning.choice import Candidate, candidates
from controller.planning.default_spreads import with_default_spreads
from controller.planning.demand import Demand, gather
from controller.planning.device_claims import Claims, with_devices
from controller.planning.explain import Question, why_not
from controller.planning.fit import Ask, admitted, asks, enough, watched_labels, with_place
from controller.planning.fractions import come_along
from controller.planning.headroom import keep_free
from controller.planning.hopeless import sort_out
from controller.planning.in_vain import without_hopeless
from controller.planning.limit_ranges import with_limit_ranges
from controller.planning.limits import Tally
from controller.planning.minimum import TopUp, top_up
from controller.planning.own import as_if_on_the_way, is_own, only_own, told_of_off, with_own, words
from controller.planning.packing import Packer, Packing
from controller.planning.placing import Placing, board_of, place
from controller.planning.price_floor import price_floor
from controller.planning.protection import paused
from controller.planning.room import UNNAMED, Room
from controller.planning.sites import Sites, existing

_by_name, _by_intent = attrgetter("name", "uid"), attrgetter("name", "intent")

# Gangs that fail are left out one after the other, since one may stand in the other's way; many, all at once.
_GANGS_ONE_BY_ONE = 4


@dataclass(frozen=True, slots=True)
class Placement:
    pod: str  # namespace/name
    place: str  # name of the node or machine; of a new one, a number
    room: Room


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
    first: list[Launch] = field(default_factory=list)  # own machines, which come before all that is bought


def plan(snapshot: Snapshot) -> Plan:
    snapshot = with_own(snapshot)
    if rest.nobody_waits(snapshot):
        return _at_rest(snapshot)
    return the_long_way(snapshot)


def the_long_way(snapshot: Snapshot) -> Plan:
    """Where somebody waits, or nobody knows; where nobody does, the same plan comes of it."""
    return _finished(draft(snapshot))


def _at_rest(snapshot: Snapshot) -> Plan:
    snapshot = with_default_spreads(snapshot)
    snapshot = msgspec.structs.replace(
        snapshot,
        nodes=tuple(sorted(snapshot.nodes, key=_by_name)),
        budgets=tuple(sorted(snapshot.budgets, key=rest.by_name)),
        machines=tuple(sorted(snapshot.machines, key=_by_intent)),
        offers=_listed(snapshot.offers),
    )

    def rooms() -> list[Room]:
        picture = in_order(snapshot)
        return existing(with_devices(picture, Claims(picture))).ready

    actions, told, wakes = rest.at_rest(snapshot, rooms)
    for machine in snapshot.machines:
        if machine.name not in told:
            told[machine.name] = _about(machine, called_off=False)
    told |= told_of_off(snapshot)
    wakes += _refusals_end(snapshot)
    return Plan(
        actions=tuple(actions),
        machines=dict(sorted(told.items())),
        wake_at=min((moment for moment in wakes if moment is not None), default=None),
    )


def draft(snapshot: Snapshot) -> Draft:
    """A gang that cannot be completed is left out, and the places of its pods are for others."""
    snapshot = with_own(in_order(at_paid_prices(snapshot)))
    snapshot = with_limit_ranges(with_default_spreads(snapshot))
    claims = Claims(snapshot)
    found = gather(snapshot, claims)
    snapshot = with_devices(snapshot, claims)
    first: list[Launch] = []
    if snapshot.policy.own_first and found.pods and any(is_own(offer) for offer in snapshot.offers):
        without = _whole(only_own(snapshot), found)
        first = [_launch(room, "") for room in without.packing.rooms]
        snapshot = as_if_on_the_way(snapshot, first)
    made = _whole(snapshot, found)
    made.first = first
    return made


def _whole(snapshot: Snapshot, found: Demand) -> Draft:
    """No gang of which too few would get a place."""
    failed: dict[str, Explanation] = {}
    while True:
        made = _draft(snapshot, found, failed)
        broken = _incomplete(made, failed)
        if not broken:
            if snapshot.policy.common_strategy == "cheapest":
                cheaper = bargain(made.packing, made.packer.shop, made.tally, made.board)
                made.packing = cheaper or made.packing
            return made
        failed |= broken if len(failed) >= _GANGS_ONE_BY_ONE else _of_no_influence(made, broken)


def _draft(snapshot: Snapshot, found: Demand, failed: Mapping[str, Explanation]) -> Draft:
    declared = snapshot.policy.gpu_resources
    told = dict(found.told)
    demand = found.pods
    if failed:
        out = {key: failed[gang.key] for key, gang in found.gangs.items() if gang.key in failed}
        told |= out
        demand = [pod for pod in demand if pod.key not in out]
    sites = existing(snapshot)
    options = candidates(snapshot)
    packer = Packer(snapshot, options)
    if any(gang.one_location for gang in found.gangs.values()):
        there = [*sites.ready, *sites.coming, *sites.draining]
        demand = together.in_one_location(
            demand,
            found.gangs,
            options,
            snapshot.machines,
            there,
            lambda pod, c: runs_on(pod, packer.template(c)),
        )
    tally = Tally(snapshot)
    minimum = top_up(snapshot, packer, options, tally)
    sites.coming += minimum.rooms
    for number, room in enumerate(minimum.rooms):  # told apart, as machines are
        room.labels = {**room.labels, names.LABEL_HOSTNAME: f"{UNNAMED} {number}"}
    watched = watched_labels((*demand, *(pod for pod in snapshot.pods if pod.node)))
    asking = asks(demand, declared, watched, found.gangs)
    board = board_of(snapshot, sites, asking, packer.shop.looks, packer.shop.buyable)
    board.offer_number = {id(packer.template(c)): n for n, c in enumerate(packer.shop.offers)}
    placing = place(asking, sites, declared, board)
    told |= placing.told
    for rooms in (placing.sites.ready, placing.sites.coming, placing.sites.draining):
        tally.charges.placed(rooms)
    free = {room.name: room.free for room in placing.sites.ready}
    left = without_hopeless(snapshot, placing.left, told, free)
    if left and paused(snapshot, None, "scale-up"):
        told |= {ask.pod.key: Explanation(Reason.PAUSED, "scale-up is paused") for ask in left}
        left = []
    left = together.possible(left, demand, found.gangs, told)
    seated = Counter(ask.gang.key for ask, _ in placing.order if ask.gang is not None)
    sorted_out = sort_out(left, board, packer.shop, seated)
    packing = packer.best(sorted_out.left, tally, board, seated)
    packing.unplaced |= {ask.pod.key: None for ask in sorted_out.hopeless}
    packing.together |= sorted_out.together
    return Draft(snapshot, found, told, sites, options, packer, tally, minimum, board, placing, packing, left)


def _incomplete(made: Draft, failed: Mapping[str, Explanation]) -> dict[str, Explanation]:
    """Gangs of which fewer pods got a place than are of use, with the first thing that is missing."""
    gangs = {gang.key: gang for gang in made.found.gangs.values() if gang.key not in failed}
    if not gangs:
        return {}
    placed = {ask.pod.key for ask, _ in (*made.placing.order, *made.packing.order)}
    count = Counter(gang.key for key, gang in made.found.gangs.items() if key in placed)
    waiting = Counter(gang.key for gang in made.found.gangs.values())
    why: dict[str, Explanation] = {}
    for ask in made.left:
        if ask.gang is not None and ask.pod.key in made.packing.unplaced and ask.gang.key not in why:
            why[ask.gang.key] = _why_unplaced(made, ask)
    for key, gang in made.found.gangs.items():
        if gang.key not in why and key not in placed and key in made.told:
            why[gang.key] = made.told[key]
    found = {}
    for gang in gangs.values():
        if count[gang.key] >= min(gang.needed, waiting[gang.key]):
            continue
        first = why.get(gang.key)
        places = made.packing.together.get(gang.key, count[gang.key])
        found[gang.key] = Explanation(
            Reason.GANG_INCOMPLETE,
            f"{gang.name} needs {gang.needed} of its waiting pods at once and only {places} would get a place"
            + (", all in one location" if gang.one_location else "")
            + (f"; the next: {first.message}" if first is not None else ""),
        )
    return found


def _of_no_influence(made: Draft, broken: Mapping[str, Explanation]) -> dict[str, Explanation]:
    """The first gang that fails, and all that hold no place: those stand in nobody's way."""
    seated = {ask.gang.key for ask, _ in made.placing.order if ask.gang is not None}
    first = next((key for key in broken if key in seated), "")
    return {key: why for key, why in broken.items() if key == first or key not in seated}


def _why_unplaced(made: Draft, ask: Ask) -> Explanation:
    question = Question(made.snapshot, ask, made.packer.template, made.board, made.packing.tally)
    return why_not(question, made.options, made.packing.unplaced[ask.pod.key])


def _finished(made: Draft) -> Plan:
    snapshot, told, placing, minimum = made.snapshot, made.told, made.placing, made.minimum
    actions: list[Action] = [
        KeepAfterAll(machine=room.name, message=f"pod {room.pods[0].key} needs it: its removal is called off")
        for room in placing.sites.draining
        if room.pods
    ]
    for room in placing.sites.coming:
        if room.pool is not None:
            kept = f"{room.pool.name} is kept on" if is_own(room.offer) else ""
            actions.append(_launch(room, kept or f"pool {room.pool.name} keeps min: {room.pool.min}"))
    bought = come_along(_switch_on(made) + _buy(made), made.found.along, told)
    actions += bought
    tally = made.tally
    offered = {(c.pool.name, c.offer.key): c for c in made.options}
    for launch in bought:
        if (launch.pool, launch.offer.key) in offered:  # what is switched on first is among the machines
            tally.add(offered[(launch.pool, launch.offer.key)])
    free = keep_free(snapshot, placing.sites, bought, made.options, tally, told, made.found.pods)
    codes = {why.code for why in told.values()}
    launches = [action for action in actions if isinstance(action, Launch)]
    together.tell(made.found.pods, made.found.gangs, launches, told)
    if not paused(snapshot, None, "scale-up"):
        actions += free.launches
    downs, machines_told, down_wake = scale_down.decide(
        snapshot,
        placing.needed,
        made.found.pods,
        lambda: placing.sites.ready,
        free.machines,
        buying=any(isinstance(action, Launch) for action in actions),
    )
    machines_told |= told_of_off(snapshot)
    machines_told |= _told_of_first(made, launches)
    called_off = {action.machine for action in actions if isinstance(action, KeepAfterAll)}
    for machine in snapshot.machines:
        if machine.name not in machines_told:
            machines_told[machine.name] = _about(machine, machine.name in called_off)
    wakes = [
        made.found.wake,
        down_wake,
        *placing.wakes,
        *minimum.wakes,
        *free.wakes,
        *_refusals_end(snapshot),
    ]
    if Reason.LIMIT_RATE in codes:
        wakes.append(tally.rate_eases_at)
    if Reason.LIMIT_BUDGET in codes:
        wakes.append(budget.month_ends(snapshot.now))
    return Plan(
        actions=tuple(actions + downs),
        pods=dict(sorted(told.items())),
        machines=dict(sorted(machines_told.items())),
        pools=dict(sorted((free.told | minimum.told).items())),
        price_floor=_price_floor(made),
        wake_at=min((moment for moment in wakes if moment is not None), default=None),
    )


def _price_floor(made: Draft) -> Decimal | None:
    if made.snapshot.policy.common_strategy != "cheapest" or not made.packing.rooms:
        return None
    return price_floor(made.packing, made.packer.shop, made.board)


def runs_on(pod: Pod, room: Room) -> bool:
    """Whether the pod alone would run on such a machine."""
    needs = {name: units for name, units in with_place(pod.shape.requests).items() if units}
    return enough(needs, room.free) and admitted(pod.shape, room.name, room.labels, room.taints)


def placements(snapshot: Snapshot) -> tuple[Placement, ...]:
    """Which pod the plan sends where, in the order in which places were taken; for whoever checks plans."""
    made = draft(snapshot)
    found = [
        Placement(ask.pod.key, made.board.rooms[number].name, made.board.rooms[number])
        for ask, number in made.placing.order
    ]
    found += [
        Placement(ask.pod.key, f"new machine {number}", made.packing.rooms[number])
        for ask, number in made.packing.order
    ]
    return tuple(found)


def at_paid_prices(snapshot: Snapshot) -> Snapshot:
    """The same picture with what is really paid: a snapshot holds list prices, and the rules beside them."""
    rules = snapshot.policy.prices
    if not rules:
        return snapshot
    known: dict[int, InstanceType] = {}
    for offer in snapshot.offers:
        if id(offer.type) not in known:
            known[id(offer.type)] = priced(rules, offer.type)
    offers = tuple(msgspec.structs.replace(o, type=known[id(o.type)]) for o in snapshot.offers)
    return msgspec.structs.replace(snapshot, offers=offers)


def in_order(snapshot: Snapshot) -> Snapshot:
    """The same picture, listed in the one order that ties are broken by."""
    return msgspec.structs.replace(
        snapshot,
        pods=tuple(sorted(snapshot.pods, key=rest.by_name)),
        nodes=tuple(sorted(snapshot.nodes, key=_by_name)),
        budgets=tuple(sorted(snapshot.budgets, key=rest.by_name)),
        machines=tuple(sorted(snapshot.machines, key=_by_intent)),
        offers=_listed(snapshot.offers),
    )


@remembered
def _listed(offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
    return tuple(
        sorted(
            offers,
            key=lambda o: (o.type.name, o.location, o.market, o.price, not o.available, o.type.gpus),
        )
    )


def _launch(room: Room, reason: str) -> Launch:
    if room.offer is None or room.pool is None:
        raise ValueError(f"room {room.name} is not a new machine")
    return Launch(
        pool=room.pool.name, offer=room.offer, pods=tuple(pod.key for pod in room.pods), reason=reason
    )


def _switch_on(made: Draft) -> list[Launch]:
    """Own machines that got a pod in the end; the places of the others are taken by nobody."""
    rooms = {room.name: room for room in made.placing.sites.coming if room.pods}
    actions = []
    for launch in made.first:
        room = rooms.get(launch.pool)
        if room is None:
            continue
        pods, what = room.pods, words(launch.offer)
        for pod in pods:
            made.told[pod.key] = Explanation(Reason.LAUNCHING, f"{what} is switched on for it")
        sentence = f"{what} is switched on for {len(pods)} pod{'s' * (len(pods) != 1)}"
        actions.append(msgspec.structs.replace(launch, pods=tuple(pod.key for pod in pods), reason=sentence))
    return actions


def _told_of_first(made: Draft, launches: list[Launch]) -> dict[str, Explanation]:
    on = {launch.pool: launch for launch in launches}
    return {
        launch.pool: Explanation(Reason.STARTING, on[launch.pool].reason)
        if launch.pool in on
        else Explanation(Reason.OFF, SENTENCES[Reason.OFF])
        for launch in made.first
    }


def _buy(made: Draft) -> list[Launch]:
    told = made.told
    actions: list[Launch] = []
    said: dict[int, tuple[str, Explanation]] = {}  # by candidate
    for room, candidate in zip(made.packing.rooms, made.packing.chosen, strict=True):
        if id(candidate) not in said:
            said[id(candidate)] = _words(candidate)
        rest, why = said[id(candidate)]
        count = len(room.pods)
        launch = _launch(room, f"{count} pod{'s' * (count != 1)} on {rest}")
        actions.append(launch)
        told.update(dict.fromkeys(launch.pods, why))
    slow: dict[tuple[int, str, str], Explanation] = {}
    for ask in made.left:
        if ask.pod.key not in made.packing.unplaced:
            continue
        limit = made.packing.unplaced[ask.pod.key]
        alike = (ask.kind, ask.pod.namespace, limit.message if limit is not None else "")
        if alike not in slow:
            slow[alike] = _why_unplaced(made, ask)
        told[ask.pod.key] = slow[alike]
    return actions


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


def _refusals_end(snapshot: Snapshot) -> list[float]:
    return [refusal.until for refusal in snapshot.refusals if refusal.until > snapshot.now]


def _about(machine: Machine, called_off: bool) -> Explanation:
    """A machine about which scale-down has nothing to say."""
    if called_off:
        return Explanation(Reason.NEEDED, "its removal is called off: a waiting pod fits it")
    if machine.phase is Phase.TOMBSTONE:
        return Explanation(Reason.UNKNOWN_OUTCOME, "proven never to have been launched; remembered for a day")
    if machine.reason is not None and (machine.failed or machine.phase.leaving):
        return Explanation(machine.reason, machine.note or SENTENCES[machine.reason])
    if machine.phase.leaving:
        code = Reason.DRAINING if machine.phase is Phase.DRAINING else Reason.DELETING
        return Explanation(code, SENTENCES[code])
    if machine.phase.on_the_way:
        for_whom = f"for {', '.join(machine.pods)}" if machine.pods else "for its pool's minimum"
        if is_own(machine) and not machine.pods:
            return Explanation(Reason.STARTING, machine.note or "its Node is Ready, and its GPUs are awaited")
        return Explanation(Reason.STARTING, f"{machine.phase.value}, {for_whom}")
    return Explanation(Reason.IN_USE, "its Node is not there or not Ready; nothing is decided about it")
