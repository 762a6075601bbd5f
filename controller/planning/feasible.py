"""On which nodes the real scheduler could bind one pod now. No offers, no machines on their way.

The same board as planning uses, over exactly the Nodes that are there: this is what the differential test
compares with kube-scheduler.
"""

from __future__ import annotations

from controller.domain.kube import Node, Pod
from controller.domain.plan import Snapshot
from controller.domain.resources import PODS, total
from controller.planning.board import Board
from controller.planning.census import THERE
from controller.planning.fit import asks, watched_labels, with_place
from controller.planning.room import Room
from controller.planning.sites import CORDONED


def feasible_nodes(snapshot: Snapshot, pod: Pod) -> tuple[str, ...]:
    """Names of the nodes that hold the pod beside the pods that are bound, sorted."""
    bound: dict[str, list[Pod]] = {}
    for other in snapshot.pods:
        if other.node and not other.finished:
            bound.setdefault(other.node, []).append(other)
    nodes = sorted(snapshot.nodes, key=lambda node: node.name)
    rooms = [_room(node, bound.get(node.name, [])) for node in nodes]
    watched = watched_labels((*(p for p in snapshot.pods if p.node), pod))
    (ask,) = asks([pod], frozenset(), watched)
    board = Board(snapshot, rooms, [ask])
    return tuple(rooms[number].name for number in sorted(board.each(ask, board.old, THERE)))


def _room(node: Node, pods: list[Pod]) -> Room:
    used = total(with_place(pod.shape.requests) for pod in pods)
    free = {name: units - used.get(name, 0) for name, units in {PODS: 0, **node.allocatable}.items()}
    return Room(node.name, node.labels, node.taints, free, shut=(CORDONED,) if node.unschedulable else ())
