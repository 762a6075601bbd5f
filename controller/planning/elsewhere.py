"""Whether the pods that a machine's removal would evict find a place on other nodes. Pure.

Nobody buys machines for pods without GPUs: one that is evicted and fits nowhere would wait for ever. Pods
of machines that are being drained already have the first claim on what is free elsewhere, and a machine
that is to take them in does not go in the same breath.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.domain.kube import Pod
from controller.domain.machine import Machine, Phase
from controller.planning.fit import asks
from controller.planning.room import Room


def moves(pod: Pod) -> bool:
    """Whether a removal evicts it, so that its owner makes another one."""
    return not (pod.finished or pod.shape.is_daemon or pod.shape.mirror or pod.deleting_at is not None)


class Elsewhere:
    """Places on Ready nodes, taken one machine after the other."""

    def __init__(
        self, rooms: Sequence[Room], machines: Sequence[Machine], bound: Mapping[str, Sequence[Pod]]
    ) -> None:
        self._rooms = {room.name: room.copy() for room in rooms}
        self._bound = bound
        self._coming: dict[str, list[Pod]] = {}  # pods that other machines' removal brings here
        for machine in machines:
            if machine.phase is Phase.DRAINING:
                self.leave(machine.name)

    def leave(self, machine: str) -> Pod | None:
        """A pod of this machine that no other node has room for; None: all have, and their places are taken."""
        here = [pod for pod in self._bound.get(machine, ()) if moves(pod) and pod.shape.owner_kind]
        pods = here + self._coming.get(machine, [])
        rooms = {name: room for name, room in self._rooms.items() if name != machine}
        taken: list[tuple[Pod, str]] = []
        for ask in asks(pods, frozenset()):
            room = next((room for room in rooms.values() if room.holds(ask)), None)
            if room is None:
                return ask.pod
            rooms[room.name] = room.copy()
            rooms[room.name].put(ask)
            taken.append((ask.pod, room.name))
        self._rooms = rooms
        for pod, name in taken:
            self._coming.setdefault(name, []).append(pod)
        return None
