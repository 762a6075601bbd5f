"""Rooms: everything that could hold a pod — nodes that are there, machines on their way, and new ones.

A room has a present and a future: what fits now, and what will fit once terminating pods have gone, a
lost device plug-in is back, or a young Node's taints have been taken off. Which nodes and machines
there are, and what they hold, is told by `sites`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.domain.cloudthings import Offer
from controller.domain.kube import Pod, Taint
from controller.domain.machine import Machine
from controller.domain.plan import Launch, Snapshot
from controller.domain.policy import Pool
from controller.domain.reason import Reason
from controller.domain.resources import PODS, Resources, is_accelerator, subtract
from controller.planning import operators, own, predict
from controller.planning.fit import Ask, admitted, enough, with_place

# No node and no label can have this value, so no pod can ask for the name of a machine that is not there yet.
UNNAMED = "<new machine>"


@dataclass(slots=True)
class Room:
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    free: dict[str, int]
    machine: Machine | None = None
    offer: Offer | None = None  # of a new machine
    pool: Pool | None = None
    soon: dict[str, int] | None = None  # what is free before a new machine could boot, if that is more
    soon_taints: tuple[Taint, ...] = ()
    soon_reason: Reason = Reason.GPUS_FREED_SOON
    soon_until: float | None = None  # when that is no longer believed
    pods: list[Pod] = field(default_factory=list)
    shut: tuple[Taint, ...] = ()  # what a pod must tolerate beside the taints: it is cordoned, or not Ready

    def holds(self, ask: Ask, *, later: bool = False) -> bool:
        shape = ask.pod.shape
        if later:
            return (
                self.soon is not None
                and enough(ask.needs, self.soon)
                and admitted(shape, self.name, self.labels, self.soon_taints + self.shut)
            )
        taints = self.taints + self.shut
        return enough(ask.needs, self.free) and admitted(shape, self.name, self.labels, taints)

    def keeps_promise(self, ask: Ask, declared: frozenset[str], free: Resources) -> bool:
        """Whether the machine on its way that was bought for this pod still has its place.

        Only the GPUs are asked: a label or a figure that is predicted otherwise by now is no reason to
        buy a second machine before the first one could show itself.
        """
        counted = {n: u for n, u in ask.needs.items() if n == PODS or is_accelerator(n, declared)}
        return enough(counted, free)

    def put(self, ask: Ask) -> None:
        self.free = subtract(self.free, ask.needs)
        if self.soon is not None:
            self.soon = subtract(self.soon, ask.needs)
        self.pods.append(ask.pod)

    def copy(self) -> Room:
        return Room(
            self.name,
            self.labels,
            self.taints,
            self.free,
            self.machine,
            self.offer,
            self.pool,
            self.soon,
            self.soon_taints,
            self.soon_reason,
            self.soon_until,
            list(self.pods),
            self.shut,
        )


class Line:
    """Rooms in order, and the first of them that holds a pod.

    Rooms only ever fill up, so a room that did not hold a kind of pod never will, and one with too few
    GPUs left for some pod never has enough again: each search goes on where the last one like it ended.
    Rooms may be added at the end.
    """

    def __init__(self, rooms: Sequence[Room], *, later: bool = False) -> None:
        self._rooms = rooms
        self._later = later
        self._tried: dict[int, int] = {}  # by kind
        self._spent: dict[tuple[str, int], int] = {}  # by GPUs

    def first(self, ask: Ask) -> Room | None:
        rooms, later, (name, units) = self._rooms, self._later, ask.scarce
        at = max(self._tried.get(ask.kind, 0), self._spent.get(ask.scarce, 0))
        unbroken = at == self._spent.get(ask.scarce, 0)
        for number in range(at, len(rooms)):
            room = rooms[number]
            free = room.soon if later else room.free
            if free is not None and units <= free.get(name, 0):
                unbroken = False
                if room.holds(ask, later=later):
                    self._tried[ask.kind] = number
                    return room
            elif unbroken:
                self._spent[ask.scarce] = number + 1
        self._tried[ask.kind] = len(rooms)
        return None


def new_room(
    snapshot: Snapshot,
    pool: Pool,
    offer: Offer,
    shown: Mapping[str, str] | None = None,
    there: Resources | None = None,
) -> Room:
    """`there`: what a machine of the type has, if that was worked out already."""
    if own.is_own(offer):
        node = next((node for node in snapshot.nodes if node.name == pool.name), None)
        on_it = [pod for pod in snapshot.pods if pod.node == pool.name and not pod.finished]
        labels, taints, free = own.figures(snapshot, pool, offer, node, on_it)
        return Room(pool.name, labels, taints, free, offer=offer, pool=pool)
    labels = predict.labels_of(pool, offer, UNNAMED, snapshot.policy.gpu_labels, shown)
    taints = predict.taints_of(pool)
    if there is None:
        there = predict.allocatable_of(snapshot.policy, pool, offer.type, snapshot.observed)
    perhaps = operators.perhaps(labels, shown)
    free = subtract(there, predict.daemon_overhead(snapshot.daemonsets, UNNAMED, labels, taints, perhaps))
    return Room(UNNAMED, labels, taints, free, offer=offer, pool=pool)


def has_room_when_empty(ask: Ask, room: Room, daemons: Resources, allocatable: Resources) -> bool:
    """Whether the pod would fit this room if nothing but its daemons ran there."""
    free = subtract({PODS: predict.MAX_PODS, **allocatable}, daemons)
    return enough(ask.needs, free) and admitted(ask.pod.shape, room.name, room.labels, room.taints)


def launch(room: Room, reason: str) -> Launch:
    if room.offer is None or room.pool is None:
        raise ValueError(f"room {room.name} is not a new machine")
    return Launch(
        pool=room.pool.name, offer=room.offer, pods=tuple(pod.key for pod in room.pods), reason=reason
    )


def how_many(pod: Pod, room: Room) -> int:
    """Such pods such a machine takes; one that has rules about others has it for itself."""
    shape = pod.shape
    needs = {name: units for name, units in with_place(shape.requests).items() if units}
    if not enough(needs, room.free) or not admitted(shape, room.name, room.labels, room.taints):
        return 0
    if shape.anti_affinity or shape.spreads or shape.host_ports:
        return 1
    return max(1, min(room.free.get(name, 0) // units for name, units in needs.items()))
