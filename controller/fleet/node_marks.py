"""Labels and taints on Nodes of machines that stay: written when they are missing, and not again while the watch lags."""

from __future__ import annotations

from collections.abc import Callable

from controller.cluster.protocol import Writer
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.policy import Policy
from controller.fleet.dressing import lacks
from controller.fleet.removal import HARD
from controller.fleet.tasks import Tasks

# What was written is not seen at once: the watch lags behind.
_WATCH_LAG = 10.0


class NodeMarks:
    def __init__(
        self, writer: Writer, tasks: Tasks, clock: Callable[[], float], may_act: Callable[[], bool]
    ) -> None:
        self._writer = writer
        self._tasks = tasks
        self._clock = clock
        self._may_act = may_act
        self._dressed: dict[str, float] = {}  # Nodes, by UID, and when they got what they lacked
        self._closed_off: dict[str, tuple[float, bool]] = {}  # Nodes, by UID: when, and whether they were

    def forget(self, node_uid: str) -> None:
        self._dressed.pop(node_uid, None)
        self._closed_off.pop(node_uid, None)

    def dress(self, policy: Policy, machine: Machine, node: Node) -> None:
        """Labels and taints that its own script left out."""
        labels, taints = lacks(policy, machine, node)
        if not (labels or taints) or not self._may_act():
            return
        at = self._dressed.get(node.uid, float("-inf"))
        if 0 <= self._clock() - at < _WATCH_LAG:
            return

        async def run() -> None:
            if not self._may_act():
                return
            await self._writer.label(machine.name, labels)
            if taints:
                await self._writer.taint(machine.name, add=taints)
            self._dressed[node.uid] = self._clock()

        self._tasks.start(f"dress {machine.name}", run)

    def close_off(self, machine: Machine, node: Node, *, wanted: bool) -> None:
        """No new pods on a ready machine, or again; one that is being removed has its own taints."""
        tainted = node.has_taint(HARD.key, HARD.effect)
        if machine.phase is not Phase.READY or machine.awaits_restoring or wanted is tainted:
            return
        if not self._may_act() or self._tasks.running(machine.name):
            return
        at, known = self._closed_off.get(node.uid, (float("-inf"), not wanted))
        if known is wanted and 0 <= self._clock() - at < _WATCH_LAG:
            return

        async def run() -> None:
            if not self._may_act():
                return
            await self._writer.taint(
                machine.name, add=(HARD,) if wanted else (), remove=() if wanted else (HARD,)
            )
            self._closed_off[node.uid] = (self._clock(), wanted)

        self._tasks.start(f"close off {machine.name}", run)
