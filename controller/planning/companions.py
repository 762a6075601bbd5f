"""Members of gangs that ask for nothing that could be bought, a driver say: without a place for them no gang starts.

Nothing is bought for them, and nobody knows what else would make room, so each must fit what is there or on its way, or
a machine that its gang is to get. Labels, taints and amounts are asked; rules about other pods are left to the scheduler.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

from controller.domain.kube import Pod
from controller.planning.fit import Ask, asks
from controller.planning.gangs import Gang
from controller.planning.room import Line, Room
from controller.planning.sites import Sites
from controller.planning.workshop import Packing


class Companions:
    """Seats them, on what the pods of the plan leave: on nodes of others, then where their gang is, then on any of ours."""

    def __init__(
        self, gangs: Collection[Gang], sites: Sites, packing: Packing, declared: frozenset[str]
    ) -> None:
        self.needed: dict[str, str] = {}  # machines of ours that one of them needs, with that one
        pods = [pod for gang in gangs for pod in gang.beside]
        self._asks = {ask.pod.key: ask for ask in asks(pods, declared)}
        called_back = (room for room in sites.draining if room.pods)  # others go on leaving
        every = chain(sites.ready, sites.shut, sites.coming, called_back)
        rooms = [room.copy() for room in every] if pods else []
        theirs = [room for room in rooms if room.machine is None and room.offer is None]
        ours = [room for room in rooms if room.machine is not None or room.offer is not None]
        self._theirs = (Line(theirs), Line(theirs, later=True))
        self._ours = (Line(ours), Line(ours, later=True))
        self._new: dict[str, list[int]] = {}  # by gang: the machines that it is to get
        self._rooms: dict[int, Room] = {}
        self._packing = packing
        for ask, number in packing.order if pods else ():
            if ask.gang is not None and ask.gang.beside:
                self._new.setdefault(ask.gang.key, []).append(number)

    def lacking(self, gang: Gang) -> list[Pod]:
        """Those of the gang that find no place; the largest choose first."""
        of_gang = [self._asks[pod.key] for pod in gang.beside]
        of_gang.sort(key=lambda ask: (-ask.needs.get("cpu", 0), -ask.needs.get("memory", 0), ask.pod.key))
        new = [self._room(number) for number in sorted(set(self._new.get(gang.key, ())))]
        return [ask.pod for ask in of_gang if not self._seat(ask, new)]

    def _seat(self, ask: Ask, new: list[Room]) -> bool:
        room = _first(ask, self._theirs) or next((room for room in new if room.holds(ask)), None)
        if room is None and (room := _first(ask, self._ours)) is not None:
            self.needed.setdefault(room.name, ask.pod.key)
        if room is not None:
            room.put(ask)
        return room is not None

    def _room(self, number: int) -> Room:
        room = self._rooms.get(number)
        if room is None:
            room = self._rooms[number] = self._packing.rooms[number].copy()
            for ask in self._packing.inside[number]:
                room.put(ask)
        return room


def _first(ask: Ask, lines: tuple[Line, Line]) -> Room | None:
    now, later = lines
    return now.first(ask) or later.first(ask)
