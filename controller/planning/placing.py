"""Placing waiting pods on what exists: the machine bought for them, Ready nodes, GPUs that are freed soon,
machines on their way, machines whose removal can still be called off.

Promises come first, so that a packing done once is not undone by the order of later pods. Whether a
promised pod had better go to a Ready node or stay with its machine depends on who else waits: where
the one leaves somebody without a place, the other is tried. Last, promises are forgotten: where the
scheduler gave a large pod's machine to small ones, these leave machines on their way that have room for others.
Who must be near a pod that gets its place later is asked again then, as the scheduler would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.domain import names
from controller.domain.plan import Explanation, Snapshot
from controller.domain.reason import Reason
from controller.planning.board import Board
from controller.planning.census import COMING, THERE
from controller.planning.fit import Ask
from controller.planning.gangs import Gang
from controller.planning.looks import Looks
from controller.planning.room import Room
from controller.planning.sites import Sites

# Promised pods go to Ready nodes where they can, or stay with their machines; or nothing is promised.
_GO, _STAY, _FORGET = range(3)


@dataclass(slots=True)
class Placing:
    sites: Sites
    left: list[Ask] = field(default_factory=list)  # what no existing room takes
    told: dict[str, Explanation] = field(default_factory=dict)
    needed: dict[str, str] = field(default_factory=dict)  # rooms that a pod needs, with one such pod
    wakes: list[float] = field(default_factory=list)
    order: list[tuple[Ask, int]] = field(default_factory=list)  # who was seated when, and where


def board_of(
    snapshot: Snapshot, sites: Sites, demand: Sequence[Ask], offers: Looks | None = None, buyable: int = 0
) -> Board:
    """Rooms in the order in which they are filled. Nodes that take no pods still count those that they hold."""
    rooms = [*sites.ready, *sites.coming, *sites.draining, *sites.shut]
    known = {room.name for room in rooms}
    others = [node for node in snapshot.nodes if node.name not in known]
    rooms += [Room(node.name, node.labels, node.taints, {}) for node in others]
    nodes = {node.name for node in snapshot.nodes}
    there = sum(1 << number for number, room in enumerate(rooms) if room.name in nodes)
    return Board(snapshot, rooms, demand, offers=offers, buyable=buyable, there=there)


def place(demand: Sequence[Ask], sites: Sites, declared: frozenset[str], board: Board) -> Placing:
    promised = {key for room in sites.coming if room.machine for key in room.machine.pods}
    found = _place(demand, sites, declared, board, _GO)
    if any(ask.pod.key in promised for ask in demand):
        for way in (_STAY, _FORGET):
            if found.left:
                found = _better(found, way, demand, sites, declared, board)
    for ask, number in found.order:
        board.rooms[number].pods.append(ask.pod)
    for number, room in enumerate(board.rooms):
        room.free = board.free[number]
    return found


def _better(
    found: Placing, way: int, demand: Sequence[Ask], sites: Sites, declared: frozenset[str], board: Board
) -> Placing:
    """What this way comes to, where it leaves fewer without a place, or as many that are less urgent or smaller.

    The board is as what is returned says.
    """
    _take_back(found, board)
    other = _place(demand, sites, declared, board, way)
    fewer = _wanted(other.left) < _wanted(found.left)
    if fewer and way == _FORGET:  # nobody loses a place for it, who may need a larger machine
        fewer = {ask.pod.key for ask in other.left} < {ask.pod.key for ask in found.left}
    if fewer:
        return other
    _take_back(other, board)
    for ask, number in found.order:
        board.put(ask, number)
    return found


def _wanted(left: Sequence[Ask]) -> tuple[int, list[int], int]:
    """How many pods something would have to be bought for, how urgently, and for how many GPUs."""
    urgent = sorted((ask.pod.shape.priority for ask in left), reverse=True)
    return len(left), urgent, sum(ask.scarce[1] for ask in left)


def _take_back(found: Placing, board: Board) -> None:
    for ask, number in reversed(found.order):
        board.take(ask, number)


def _place(demand: Sequence[Ask], sites: Sites, declared: frozenset[str], board: Board, way: int) -> Placing:
    found = Placing(sites)
    ready = (1 << len(sites.ready)) - 1
    coming = ((1 << len(sites.coming)) - 1) << len(sites.ready)
    draining = ((1 << len(sites.draining)) - 1) << (len(sites.ready) + len(sites.coming))
    shut = ((1 << len(sites.shut)) - 1) << (len(sites.ready) + len(sites.coming) + len(sites.draining))
    arrived = _promises(board, range(len(sites.ready)))
    own = _promises(board, range(len(sites.ready), len(sites.ready) + len(sites.coming)))
    if way == _FORGET:
        own = {}
    seats = _Seats(found, board, declared, own, arrived, way == _STAY, ready, coming, draining, shut)
    rest: Sequence[Ask] = demand
    if arrived:
        rest = [ask for ask in rest if not seats.goes_home(ask)]
    if own:
        rest = [ask for ask in rest if not seats.keeps_promise(ask)]
    if not (ready or coming or draining or shut):
        found.left += rest
        return found
    seats.each(rest)
    return found


def _promises(board: Board, numbers: Sequence[int]) -> dict[str, list[int]]:
    """By pod: the rooms that were bought for it."""
    found: dict[str, list[int]] = {}
    for number in numbers:
        machine = board.rooms[number].machine
        for key in machine.pods if machine else ():
            found.setdefault(key, []).append(number)
    return found


@dataclass(slots=True)
class _Seats:
    found: Placing
    board: Board
    declared: frozenset[str]
    own: Mapping[str, Sequence[int]]
    arrived: Mapping[str, Sequence[int]]
    stay: bool
    ready: int
    coming: int
    draining: int
    shut: int
    missed: dict[int, int] = field(
        default_factory=dict
    )  # by kind: how many were seated when one got no place

    def goes_home(self, ask: Ask) -> bool:
        """The machine bought for it is ready and the scheduler has not bound anybody to its place yet.

        Were the place given to a pod that may not buy, this one would buy a second machine.
        """
        for number in self.arrived.get(ask.pod.key, ()):
            machine = self.board.rooms[number].machine
            if machine is None or ask.pod.created > machine.intended_at:
                continue
            board, room = self.board, self.board.rooms[number]
            if board.first(ask, 1 << number, THERE) is not None:
                self._sit(ask, number, Reason.FITS_NOW)
                return True
            if board.soon and board.first(ask, 1 << number, THERE, later=True) is not None:
                self._sit(ask, number, room.soon_reason)
                if room.soon_until is not None:
                    self.found.wakes.append(room.soon_until)
                return True
        return False

    def keeps_promise(self, ask: Ask) -> bool:
        mine = next((n for n in self.own.get(ask.pod.key, ()) if self._promised(ask, n)), None)
        if mine is None:
            return False
        now = None if self.stay else self.board.first(ask, self.ready, THERE)
        if now is not None:
            self._sit(ask, now, Reason.FITS_NOW)
        else:
            self._sit(ask, mine, Reason.ON_THE_WAY)
        return True

    def _promised(self, ask: Ask, number: int) -> bool:
        room = self.board.rooms[number]
        if room.machine is None or ask.pod.created > room.machine.intended_at:
            # A later pod of the same name was promised nothing.
            return self.board.first(ask, 1 << number, COMING) is not None
        return room.keeps_promise(ask, self.declared, self.board.free[number])

    def each(self, asks: Sequence[Ask], *, apart: bool = False) -> None:
        """In turn; then again those to whom the places of others may have opened one.

        `apart`: each by itself, whatever gang it belongs to.
        """
        left, order = self.found.left, self.found.order
        since, seated = len(left), -1
        self._in_turn(asks, apart)
        while len(order) > seated and any(map(self._minds_others, left[since:])):
            seated = len(order)
            waiting = left[since:]
            del left[since:]
            self._in_turn(waiting, apart, again=True)

    def _in_turn(self, asks: Sequence[Ask], apart: bool, *, again: bool = False) -> None:
        left = self.found.left
        at = 0
        while at < len(asks):
            ask, gang = asks[at], asks[at].gang
            if gang is None or apart or not gang.one_location:
                if again and not self._worth_asking(ask):
                    left.append(ask)
                else:
                    self.anywhere(ask)
                at += 1
                continue
            end = at
            while end < len(asks) and asks[end].gang is gang:
                end += 1
            if again and not any(map(self._minds_others, asks[at:end])):
                left += asks[at:end]
            else:
                self.gang(asks[at:end], gang)
            at = end

    def _worth_asking(self, ask: Ask) -> bool:
        """Not where nobody got a place since one like it got none."""
        return self._minds_others(ask) and self.missed.get(ask.kind) != len(self.found.order)

    def _minds_others(self, ask: Ask) -> bool:
        """Whether a place may be open to it because of others that got theirs."""
        profile = self.board.profiles[ask.profile]
        return bool(profile.affinity or profile.spreads)

    def anywhere(self, ask: Ask) -> None:
        board, there = self.board, self.ready | self.shut
        if (number := board.first(ask, there, THERE)) is not None:
            self._sit(ask, number, Reason.FITS_NOW)
            if self.shut >> number & 1 and (until := board.rooms[number].soon_until) is not None:
                self.found.wakes.append(until)
        elif board.soon and (number := board.first(ask, there, THERE, later=True)) is not None:
            room = board.rooms[number]
            self._sit(ask, number, room.soon_reason)
            if room.soon_until is not None:
                self.found.wakes.append(room.soon_until)
        elif self.coming and (number := board.first(ask, self.coming, COMING)) is not None:
            new = board.rooms[number].offer is not None
            self._sit(ask, number, Reason.LAUNCHING if new else Reason.ON_THE_WAY)
        elif self.draining and (number := board.first(ask, self.draining, THERE)) is not None:
            self._sit(ask, number, Reason.FITS_NOW)
        else:
            self.found.left.append(ask)
            self.missed[ask.kind] = len(self.found.order)

    def gang(self, asks: Sequence[Ask], gang: Gang) -> None:
        """One that must be in one location: whole, unless some of it are in one already."""
        looks = self.board.looks
        by = looks.by(names.LABEL_ZONE)
        by = {
            **by,
            "": looks.everywhere & ~looks.having(names.LABEL_ZONE),
        }  # those that tell none, as at home
        every = (self.ready, self.coming, self.draining, self.shut)
        for zone in [gang.location] if gang.location is not None else sorted(by):
            here = by.get(zone, 0)
            mark, told, left = len(self.found.order), dict(self.found.told), len(self.found.left)
            needed, wakes = dict(self.found.needed), len(self.found.wakes)
            self.ready, self.coming, self.draining, self.shut = (bits & here for bits in every)
            self.missed.clear()  # which is about all locations
            self.each(asks, apart=True)
            self.ready, self.coming, self.draining, self.shut = every
            self.missed.clear()
            if len(self.found.left) == left or gang.location is not None:
                return
            while len(self.found.order) > mark:
                self.board.take(*self.found.order.pop())
            self.found.told, self.found.needed = told, needed
            del self.found.left[left:], self.found.wakes[wakes:]
        self.found.left += asks

    def _sit(self, ask: Ask, number: int, reason: Reason) -> None:
        found, room = self.found, self.board.rooms[number]
        self.board.put(ask, number)
        found.order.append((ask, number))
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
            return f"pods that are terminating on {where} make room for it soon"
        case _ if room.shut:
            return f"{where} is cordoned or not Ready, which the pod tolerates: the scheduler will place it there"
        case _:
            return f"{where} has room for it; the scheduler will place it there"
