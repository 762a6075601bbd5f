"""Ready nodes that pods would be bound to which are no demand yet, and wait for nothing but time.

A machine that goes a second before such a pod is looked at, is old enough, or has its siblings, would be bought again for
it. What they wait for ends by itself, and so does what is kept for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.domain.kube import Pod
from controller.domain.plan import Snapshot
from controller.planning.board import THERE
from controller.planning.elsewhere import ready_board
from controller.planning.room import Room


def kept_for(snapshot: Snapshot, rooms: Sequence[Room], early: Sequence[Pod]) -> dict[str, Pod]:
    """By node, a pod that takes a place on it after all who are planned there, in the order in which rooms are filled."""
    board, asking = ready_board(snapshot, rooms, early)
    ready, found = (1 << len(rooms)) - 1, dict[str, Pod]()
    for ask in asking:
        number = board.first(ask, ready, THERE)
        if number is not None:
            board.put(ask, number)
            found.setdefault(board.rooms[number].name, ask.pod)
    return found
