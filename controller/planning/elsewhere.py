"""Whether the pods that a machine's removal would evict find a place on other nodes. Pure.

Nobody buys machines for pods without GPUs: one that is evicted and fits nowhere would wait for ever. So each is asked
about as the scheduler would ask, with volumes, ports and rules about other pods, and whatever leaves with the machine
counts as gone. Pods of machines that are being drained already have the first claim on what is free elsewhere, and a
machine that is to take them in does not go in the same breath.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from controller.domain.kube import Pod
from controller.domain.machine import Phase
from controller.domain.plan import Snapshot
from controller.planning.board import THERE, Board
from controller.planning.fit import Ask, asks, watched_labels
from controller.planning.placing import board_of
from controller.planning.room import Room
from controller.planning.sites import Sites


def moves(pod: Pod) -> bool:
    """Whether a removal evicts it, so that its owner makes another one."""
    return not (pod.finished or pod.shape.is_daemon or pod.shape.mirror or pod.deleting_at is not None)


class Elsewhere:
    """Places on Ready nodes, taken one machine after the other."""

    def __init__(
        self,
        snapshot: Snapshot,
        rooms: Sequence[Room],
        bound: Mapping[str, Sequence[Pod]],
        going: Collection[str],
    ) -> None:
        """`rooms` are the Ready nodes with whoever is planned there, `going` the machines that may go."""
        draining = [m.name for m in snapshot.machines if m.phase is Phase.DRAINING]
        # Who is terminating there is as good as gone.
        there = {
            name: [_next(pod) for pod in bound.get(name, ()) if not pod.finished and pod.deleting_at is None]
            for name in (*draining, *going)
        }
        self._asks: dict[
            str, list[Ask]
        ] = {}  # who is on each of these, or comes there by the removal of another
        if not any(_needs_a_place(pod) for pods in there.values() for pod in pods):
            return
        staying = tuple(pod for pod in snapshot.pods if pod.node not in there)
        every = [pod for pods in there.values() for pod in pods]
        self._board, asking = ready_board(replace(snapshot, pods=staying), rooms, every)
        each = iter(asking)
        self._asks = {name: [next(each) for _ in pods] for name, pods in there.items()}
        self._number = {room.name: number for number, room in enumerate(self._board.rooms)}
        self._nodes = self._board.there
        self._open, self._gone = (1 << len(rooms)) - 1, 0
        for name, found in self._asks.items():
            for ask in found if name in self._number else ():  # their amounts are not free in its room
                self._board.seat(self._board.profiles[ask.profile], self._number[name])
        for name in draining:
            self.leave(name)

    def leave(self, machine: str) -> Pod | None:
        """A pod of this machine that no other node has a place for; None: all have, and their places are taken."""
        if not self._asks:
            return None
        home = self._number.get(machine, -1)  # -1: its Node is gone already
        here, without = self._asks.get(machine, []), 1 << home if home >= 0 else 0
        for ask in here if without else ():
            self._board.take(ask, home)
        taken: list[tuple[Ask, int]] = []
        # Those that must be near others come first: beside one that leaves with them they may find no place. Where that
        # is the one they must be near, they wait for it, as they would in the scheduler's queue.
        waiting = [ask for ask in here if _needs_a_place(ask.pod)]
        waiting.sort(key=lambda ask: not ask.pod.shape.affinity)
        while waiting:
            again: list[Ask] = []
            for ask in waiting:
                number = self._place(ask, without)
                if number is None:
                    again.append(ask)
                    continue
                self._board.put(ask, number)
                taken.append((ask, number))
            if len(again) == len(waiting):
                for each, at in reversed(taken):
                    self._board.take(each, at)
                for each in here if without else ():
                    self._board.put(each, home)
                return again[0].pod
            waiting = again
        self._open &= ~without
        self._gone |= without
        for ask, number in taken:
            self._asks.setdefault(self._board.rooms[number].name, []).append(ask)
        return None

    def _place(self, ask: Ask, without: int) -> int | None:
        """A node that takes the pod, once the Nodes that leave are gone: until then they may be domains to spread over, which
        is for minutes, and no reason to pay for a machine for ever."""
        self._board.there = self._nodes & ~(self._gone | without)
        return self._board.first(ask, self._open & ~without, THERE)


def ready_board(snapshot: Snapshot, rooms: Sequence[Room], pods: Sequence[Pod]) -> tuple[Board, list[Ask]]:
    """The Ready nodes with whoever runs or is planned there, and these pods, to be asked about as they are now."""
    planned = (replace(pod, node=room.name) for room in rooms for pod in room.pods)
    picture = replace(snapshot, pods=(*snapshot.pods, *planned))
    watched = watched_labels((*(pod for pod in picture.pods if pod.node), *pods))
    asking = asks(pods, snapshot.policy.wanted_resources, watched)
    now = [room.copy() for room in rooms]
    for room in now:
        room.soon = None
    return board_of(picture, Sites(now, [], [], []), asking), asking


def _needs_a_place(pod: Pod) -> bool:
    """Not one that nobody makes again: somebody said that it may be lost."""
    return moves(pod) and bool(pod.shape.owner_kind)


def _next(pod: Pod) -> Pod:
    """The one that its owner makes: a volume that was made for the pod alone is made anew for that one."""
    kept = tuple(volume for volume in pod.shape.volumes if not volume.ephemeral)
    if len(kept) == len(pod.shape.volumes):
        return pod
    return replace(pod, shape=replace(pod.shape, volumes=kept))
