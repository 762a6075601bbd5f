"""Labels, taints and provider IDs on Nodes of machines that stay: written when they are missing, and not again while the
watch lags.

A driver that knows Nodes by their provider IDs takes one without any for somebody else's, and its machine for one that
never registered. Kubelets whose startup script we did not write may set none.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.cluster.protocol import Writer
from controller.domain import names
from controller.domain.kube import Node, Taint
from controller.domain.machine import Machine, Phase
from controller.domain.policy import Policy
from controller.fleet.dressing import awaits_identity, lacks
from controller.fleet.removal import CLOSED, HARD, UNSEEN
from controller.fleet.tasks import Tasks

# What was written is not seen at once: the watch lags behind.
_WATCH_LAG = 10.0
_HERE = (Phase.JOINED, Phase.STARTED, Phase.READY)


class NodeMarks:
    def __init__(
        self,
        writer: Writer,
        tasks: Tasks,
        clock: Callable[[], float],
        may_act: Callable[[], bool],
        *,
        closing: Taint = HARD,
        driven: bool = False,
    ) -> None:
        """`closing` keeps pods off; `driven`: by somebody who knows machines by marks of their Nodes."""
        self._closing = closing
        self._shut = CLOSED if driven else closing  # of one that works on, and takes nothing new
        self._driven = driven
        self._writer = writer
        self._tasks = tasks
        self._clock = clock
        self._may_act = may_act
        self._dressed: dict[str, float] = {}  # Nodes, by UID, and when they got what they lacked
        self._closed_off: dict[str, tuple[float, set[Taint]]] = {}  # Nodes, by UID: when, and by what

    def forget(self, node_uid: str) -> None:
        self._dressed.pop(node_uid, None)
        self._closed_off.pop(node_uid, None)

    def dress(self, policy: Policy, machine: Machine, node: Node) -> None:
        """Labels and taints that its own script left out, and the provider ID."""
        labels, taints = lacks(policy, machine, node)
        nameless = self._driven and machine.phase in _HERE and not (node.provider_id or awaits_identity(node))
        if not (labels or taints or nameless) or not self._may_act():
            return
        at = self._dressed.get(node.uid, float("-inf"))
        if 0 <= self._clock() - at < _WATCH_LAG:
            return

        async def run() -> None:
            if not self._may_act():
                return
            if nameless:
                await self._writer.identify(machine.name, names.provider_id(machine.name), labels)
            else:
                await self._writer.label(machine.name, labels)
            if taints:
                await self._writer.taint(machine.name, add=taints)
            self._dressed[node.uid] = self._clock()

        self._tasks.start(f"dress {machine.name}", run)

    def close_off(self, machine: Machine, node: Node, *, shut: bool, may_go: bool) -> None:
        """No new pods on a ready machine, or again; one that is being removed has its own taints.

        `shut`: nothing more is to run there; `may_go`: nobody knows whether it is being deleted.
        """
        wanted = {taint for taint, due in ((self._shut, shut), (self._closing, may_go)) if due}
        # Those of the other driver, too: nobody else would take them off after a change.
        there = {taint for taint in (CLOSED, UNSEEN, HARD) if node.has_taint(taint.key, taint.effect)}
        if machine.phase is not Phase.READY or machine.awaits_restoring or wanted == there:
            return
        if not self._may_act() or self._tasks.running(machine.name):
            return
        at, known = self._closed_off.get(node.uid, (float("-inf"), there))
        if known == wanted and 0 <= self._clock() - at < _WATCH_LAG:
            return

        async def run() -> None:
            if not self._may_act():
                return
            await self._writer.taint(machine.name, add=(*(wanted - there),), remove=(*(there - wanted),))
            self._closed_off[node.uid] = (self._clock(), wanted)

        self._tasks.start(f"close off {machine.name}", run)
