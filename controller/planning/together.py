"""Gangs among the demand: complete ones are planned as one, the others wait and say for what.

A gang that lacks pods is waited for a few seconds. After that, a system that starts nothing before all
are there gets no machine, since it would idle; where the owner makes the rest only once the first pods
run, what is there is planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal

import msgspec

from controller.domain import names
from controller.domain.kube import NodeTerm, Pod, PodShape, Requirement
from controller.domain.machine import Machine
from controller.domain.money import in_words
from controller.domain.plan import Explanation, Launch, Snapshot
from controller.domain.reason import Reason
from controller.planning.choice import Candidate
from controller.planning.fit import Ask, asks
from controller.planning.gangs import Gang, Members, located
from controller.planning.own import is_own
from controller.planning.quota import blocked
from controller.planning.room import Room, how_many

_PLACED = frozenset({Reason.LAUNCHING, Reason.ON_THE_WAY, Reason.FITS_NOW, Reason.GPUS_FREED_SOON})


def assemble(
    snapshot: Snapshot,
    members: Mapping[str, Members],
    demand: Collection[Pod],
    told: dict[str, Explanation],
    gangs: dict[str, Gang],
    wakes: list[float],
) -> None:
    """Tell the members of gangs that are not planned now, and measure those that are."""
    asking = {pod.key for pod in demand}
    nodes = {node.name: node for node in snapshot.nodes}
    bought = {machine.name: machine.location for machine in snapshot.machines}
    for gang in members.values():
        waiting = [pod for pod in gang.pods if pod.key in asking]
        if not waiting:
            continue
        why = _not_now(snapshot, gang, waiting, told, wakes)
        if why is not None:
            told |= {pod.key: why for pod in waiting}
            continue
        others = _others(gang, waiting, told)
        planned = Gang(
            key=gang.key,
            name=gang.name,
            size=gang.size,
            needed=min(len(waiting), max(0, gang.size - others))
            if gang.strict and gang.size
            else len(waiting),
            one_location=gang.one_location,
            location=located(gang, nodes, bought) if gang.one_location else None,
        )
        gangs |= {pod.key: planned for pod in waiting}


def _others(gang: Members, waiting: Collection[Pod], told: Mapping[str, Explanation]) -> int:
    """Members that run, are being placed, or ask for nothing that we could buy."""
    out = {pod.key for pod in waiting} | {pod.key for pod in _held(gang, told)}
    return sum(pod.key not in out for pod in gang.there)


def _held(gang: Members, told: Mapping[str, Explanation]) -> list[Pod]:
    """Waiting members that are no demand now; one with a place by preemption is as good as placed."""
    return [pod for pod in gang.there if pod.key in told and not pod.node and not pod.nominated]


def _not_now(
    snapshot: Snapshot,
    gang: Members,
    waiting: Collection[Pod],
    told: Mapping[str, Explanation],
    wakes: list[float],
) -> Explanation | None:
    if gang.problem:
        return Explanation(Reason.GANG_INCOMPLETE, f"nothing is bought by guess: {gang.problem}")
    if gang.quota:
        return blocked(f"{gang.name}: {gang.quota}")
    held = _held(gang, told)
    if any(told[pod.key].code is Reason.TOO_YOUNG for pod in held):
        return Explanation(
            Reason.WAITS_FOR_SIBLINGS, f"a pod of {gang.name} asked to grow older; they are planned together"
        )
    there = len(waiting) + _others(gang, waiting, told)
    if there >= gang.size:
        return None
    until = gang.first + snapshot.policy.deadlines.job_wait
    if snapshot.now < until and not held:
        wakes.append(until)
        return Explanation(
            Reason.WAITS_FOR_SIBLINGS,
            f"pods of {gang.name} are still being created; they are planned together",
        )
    if not gang.strict:
        return None
    for pod in held:
        if told[pod.key].code is Reason.QUOTA_BLOCKED:
            return told[pod.key]
    words = f"{there} of the {gang.size} pods that {gang.name} needs are there, so nothing is bought for it"
    if held:
        first = min(held, key=lambda pod: pod.key)
        return Explanation(
            Reason.GANG_INCOMPLETE,
            f"{words}; {len(held)} more must not be bought for: {told[first.key].message}",
        )
    if any(pod.gated for pod in gang.pods):
        words += "; others are held back by scheduling gates"
    return Explanation(Reason.GANG_INCOMPLETE, words)


def in_one_location(
    demand: Sequence[Pod],
    gangs: Mapping[str, Gang],
    options: Sequence[Candidate],
    machines: Sequence[Machine],
    rooms: Sequence[Room],
    template: Callable[[Candidate], Room],
    in_vain: Mapping[str, Collection[str]] = {},
) -> tuple[list[Pod], dict[str, tuple[str, bool]]]:
    """The same pods, those of gangs that must be in one location bound to it; and by gang the location that it was
    free to have for its price, with whether there is another one to try. `template`: what a machine will look
    like; `in_vain`: by gang, locations in which it did not come together.

    That is where members run or have a machine on its way; else where what is there holds all of them, be it
    that the machines bought for them are ready and the scheduler has not seen it yet; else where every one of
    them could have a machine now, at the least price. What then is refused there is known at the next look.
    """
    bound: dict[str, str] = {}
    free: dict[str, tuple[str, bool]] = {}
    shapes: dict[tuple[int, str], PodShape] = {}
    members: dict[str, list[Pod]] = {}
    for pod in demand:
        gang = gangs.get(pod.key)
        if gang is not None and gang.one_location:
            members.setdefault(gang.key, []).append(pod)
    shown = {room.machine.name: _zone(room) for room in rooms if room.machine is not None}
    for key, pods in members.items():
        keys = {pod.key for pod in pods}
        known = gangs[pods[0].key].location
        if known is None:
            promised = {
                shown.get(m.name, m.location) for m in machines if m.phase.on_the_way and keys & set(m.pods)
            }
            known = promised.pop() if len(promised) == 1 else None
        if known is None:
            known = _place_there(pods, rooms)
        if known is None and (places := _cheapest_first(pods, options, template)):
            left = [place for place in places if place not in in_vain.get(key, ())]
            known = (left or places)[0]
            free[key] = (known, len(left) > 1)
        if known is not None:
            bound[key] = known
    found = []
    for pod in demand:
        gang = gangs.get(pod.key)
        place = bound.get(gang.key) if gang is not None else None
        if place is not None:
            mark = (id(pod.shape), place)
            if mark not in shapes:
                shapes[mark] = _only_in(pod.shape, place)
            pod = msgspec.structs.replace(pod, shape=shapes[mark])
        found.append(pod)
    return found, free


def placed(gangs: Mapping[str, Gang], location: Mapping[str, tuple[str, bool]]) -> Mapping[str, Gang]:
    """The same gangs with the locations that were found for them: what is free there is used before more is bought."""
    if not location:
        return gangs
    there = {
        gang.key: msgspec.structs.replace(gang, location=location[gang.key][0])
        for gang in gangs.values()
        if gang.key in location
    }
    return {pod: there.get(gang.key, gang) for pod, gang in gangs.items()}


def _place_there(pods: Sequence[Pod], rooms: Sequence[Room]) -> str | None:
    """The first location in which rooms that exist hold all of them. Those that tell none, as at home, are one: "".

    First those where machines were bought for them, as the rest may be somebody else's. Of pods with rules about
    each other it is asked whether each has a room for itself.
    """
    by_place: dict[str, list[Room]] = {}
    for room in rooms:
        by_place.setdefault(_zone(room), []).append(room)
    wanted, keys = asks(pods, frozenset()), {pod.key for pod in pods}

    def bought(place: str) -> int:
        return sum(
            1 for room in by_place[place] if room.machine is not None and keys & set(room.machine.pods)
        )

    for place in sorted(by_place, key=lambda place: (-bought(place), place)):
        here = [room.copy() for room in by_place[place]]
        for ask in wanted:
            fitting = (room for room in here if room.holds(ask) or room.holds(ask, later=True))
            if (seat := next(fitting, None)) is None:
                break
            seat.put(ask)
            if _rules(ask.pod.shape):
                here = [other for other in here if other is not seat]
        else:
            return place
    return None


def _zone(room: Room) -> str:
    return room.labels.get(names.LABEL_ZONE, "")


def _rules(shape: PodShape) -> bool:
    return bool(shape.affinity or shape.anti_affinity or shape.spreads or shape.host_ports)


def _cheapest_first(
    pods: Sequence[Pod], options: Sequence[Candidate], template: Callable[[Candidate], Room]
) -> list[str]:
    """The locations where every one of them could have a machine now, the least price first; if there is none,
    the one that comes closest. Pods that are alike share machines; others are paid for by themselves."""
    wanted = asks(pods, frozenset())
    kinds = Counter(ask.kind for ask in wanted)
    of_kind = {ask.kind: ask.pod for ask in wanted}
    prices: dict[str, tuple[bool, Decimal, int]] = {}
    by_place: dict[str, list[Candidate]] = {}
    for c in options:  # as their Nodes will tell: of a machine of one's own the settings may tell nothing
        by_place.setdefault(_zone(template(c)), []).append(c)
    for place, here in by_place.items():
        whole, total, rank = True, Decimal(0), min(c.location_rank for c in here)
        for kind, count in kinds.items():
            fitting = [(c, many) for c in here if (many := how_many(of_kind[kind], template(c)))]
            free = [(c, many) for c, many in fitting if c.hindrance is None]
            # A machine of one's own is there once.
            whole = whole and (
                sum(many for _, many in free) >= count or not all(is_own(c.offer) for c, _ in free)
            )
            total += min((-(-count // many) * c.price for c, many in free or fitting), default=Decimal(10**9))
        prices[place] = (not whole, total, rank)
    places = sorted(prices, key=lambda place: (*prices[place], place))
    return [place for place in places if not prices[place][0]] or places[:1]


def _only_in(shape: PodShape, place: str) -> PodShape:
    here = Requirement(names.LABEL_ZONE, *(("In", (place,)) if place else ("DoesNotExist", ())))
    terms = shape.required_terms if shape.required_terms is not None else (NodeTerm(),)
    if shape.required_terms is not None:  # an empty term selects nothing, and must not begin to
        terms = tuple(term for term in terms if term.labels or term.fields)
    return msgspec.structs.replace(
        shape,
        required_terms=tuple(msgspec.structs.replace(term, labels=(*term.labels, here)) for term in terms),
    )


def possible(
    left: Sequence[Ask], demand: Sequence[Pod], gangs: Mapping[str, Gang], told: dict[str, Explanation]
) -> list[Ask]:
    """Drop gangs of which too few can still get a place, because something else speaks against a member."""
    if not gangs:
        return list(left)
    waiting = {ask.pod.key for ask in left}
    lost: dict[str, list[str]] = {}
    members: dict[str, int] = {}
    for pod in demand:
        if pod.key in gangs:
            key = gangs[pod.key].key
            members[key] = members.get(key, 0) + 1
            if pod.key not in waiting and pod.key in told and told[pod.key].code not in _PLACED:
                lost.setdefault(key, []).append(pod.key)
    kept = []
    for ask in left:
        gang = gangs.get(ask.pod.key)
        bad = lost.get(gang.key, []) if gang is not None else []
        if gang is not None and bad and members[gang.key] - len(bad) < gang.needed:
            told[ask.pod.key] = told[bad[0]]  # `tell` says the rest
        else:
            kept.append(ask)
    return kept


def tell(
    demand: Sequence[Pod],
    gangs: Mapping[str, Gang],
    launches: Sequence[Launch],
    told: dict[str, Explanation],
) -> None:
    """Say of each gang what it costs as a whole, or what keeps it from being complete."""
    if not gangs:
        return
    waiting: dict[str, list[str]] = {}
    for pod in demand:
        if pod.key in gangs:
            waiting.setdefault(gangs[pod.key].key, []).append(pod.key)
    bought_for: dict[str, list[Launch]] = {}
    for launch in launches:
        for key in {gangs[pod].key for pod in launch.pods if pod in gangs}:
            bought_for.setdefault(key, []).append(launch)
    for pods in waiting.values():
        gang = gangs[pods[0]]
        if machines := bought_for.get(gang.key):
            price = sum((launch.offer.price for launch in machines), Decimal(0))
            words = f"{gang.name} as a whole gets {len(machines)} machine{'s' * (len(machines) != 1)}"
            for key in pods:
                if told[key].code is Reason.LAUNCHING:
                    message = f"{told[key].message}; {words} for {in_words(price)} an hour"
                    told[key] = Explanation(Reason.LAUNCHING, message)
        missing = [key for key in pods if told[key].code not in _PLACED]
        placed = len(pods) - len(missing)
        why = told[missing[0]] if missing else None
        if why is not None and why.code is not Reason.PAUSED and placed < gang.needed:
            many = f"{gang.needed} more pods" if gang.needed != 1 else "one more pod"
            for key in missing:
                told[key] = Explanation(
                    Reason.GANG_INCOMPLETE,
                    f"{gang.name} needs a place for {many} at once, so nothing is bought for it: {why.message}",
                )
