"""Placing waiting pods on what exists: the machine bought for them, Ready nodes, GPUs that are freed soon,
machines on their way, machines whose removal can still be called off.

Promises come first, so that a packing done once is not undone by the order of later pods. Whether a
promised pod had better go to a Ready node or stay with its machine depends on who else waits: where
the one leaves somebody without a place, the other is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from controller.domain.plan import Explanation
from controller.domain.reason import Reason
from controller.planning.fit import Ask
from controller.planning.room import Line, Room
from controller.planning.sites import Sites


@dataclass(slots=True)
class Placing:
    sites: Sites
    left: list[Ask] = field(default_factory=list)  # what no existing room takes
    told: dict[str, Explanation] = field(default_factory=dict)
    needed: dict[str, str] = field(default_factory=dict)  # rooms that a pod needs, with one such pod
    wakes: list[float] = field(default_factory=list)


def place(demand: Sequence[Ask], sites: Sites, declared: frozenset[str]) -> Placing:
    promised = {key for room in sites.coming if room.machine for key in room.machine.pods}
    if not any(ask.pod.key in promised for ask in demand):
        return _place(demand, sites, declared, stay=False)
    other = sites.copy()
    first = _place(demand, sites, declared, stay=False)
    if not first.left:
        return first
    second = _place(demand, other, declared, stay=True)
    return second if len(second.left) < len(first.left) else first


def _place(demand: Sequence[Ask], sites: Sites, declared: frozenset[str], *, stay: bool) -> Placing:
    found = Placing(sites)
    ready = Line(sites.ready)
    own: dict[str, list[Room]] = {}
    for expected in sites.coming:
        for key in expected.machine.pods if expected.machine else ():
            own.setdefault(key, []).append(expected)
    rest: list[Ask] = []
    room: Room | None
    for ask in demand:
        mine = next((r for r in own.get(ask.pod.key, ()) if r.keeps_promise(ask, declared)), None)
        now = ready.first(ask) if mine is not None and not stay else None
        if now is not None:
            _put(found, ask, now, Reason.FITS_NOW)
        elif mine is not None:
            _put(found, ask, mine, Reason.ON_THE_WAY)
        else:
            rest.append(ask)
    soon, coming, draining = Line(sites.ready, later=True), Line(sites.coming), Line(sites.draining)
    for ask in rest:
        if (room := ready.first(ask)) is not None:
            _put(found, ask, room, Reason.FITS_NOW)
        elif (room := soon.first(ask)) is not None:
            _put(found, ask, room, room.soon_reason)
            if room.soon_until is not None:
                found.wakes.append(room.soon_until)
        elif (room := coming.first(ask)) is not None:
            _put(found, ask, room, Reason.LAUNCHING if room.offer is not None else Reason.ON_THE_WAY)
        elif (room := draining.first(ask)) is not None:
            _put(found, ask, room, Reason.FITS_NOW)
        else:
            found.left.append(ask)
    return found


def _put(found: Placing, ask: Ask, room: Room, reason: Reason) -> None:
    room.put(ask)
    found.needed.setdefault(room.name, ask.pod.key)
    found.told[ask.pod.key] = Explanation(reason, _words(reason, room))


def _words(reason: Reason, room: Room) -> str:
    where = f"machine {room.name}" if room.machine else f"node {room.name}"
    match reason:
        case Reason.LAUNCHING if room.pool is not None and room.offer is not None:
            return (
                f"pool {room.pool.name} launches {room.offer.type.name} in {room.offer.location} for its "
                "minimum, and it has room for the pod"
            )
        case Reason.ON_THE_WAY if room.soon is not None:
            return f"{where} has joined, and has room for it as soon as its GPUs are usable (again)"
        case Reason.ON_THE_WAY:
            return f"{where} is on its way and has room for it"
        case Reason.GPUS_FREED_SOON:
            return f"pods that are terminating on {where} free its GPUs soon"
        case _:
            return f"{where} has room for it; the scheduler will place it there"
