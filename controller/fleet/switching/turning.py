"""What is under way with switched machines: one task for each that is to be switched, or drained, and their taints.

How a machine is switched on stands in `rising`, how it leaves in `falling`; what it makes of a call is seen on its Node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from controller.cloud.protocol import Endpoints
from controller.domain import names
from controller.domain.kube import Node, Taint
from controller.domain.policy import Deadlines, Policy
from controller.domain.reason import Reason
from controller.domain.switching import Power, Switch, Switched
from controller.fleet.removal import HARD, SOFT, UNSEEN
from controller.fleet.switching.falling import Falling
from controller.fleet.switching.means import Means
from controller.fleet.switching.rising import Rising
from controller.fleet.tasks import Tasks

_WATCH_LAG = 10.0  # a taint that was written is not seen at once
_OURS = (SOFT, HARD, UNSEEN)


class Turning:
    def __init__(self, means: Means, wake: Callable[[], None]) -> None:
        self._by = self.means = means
        self._rising = Rising(means)
        self._falling = Falling(means)
        self._tasks = Tasks(means.clock, wake)
        self._tainted: dict[str, tuple[bool, float]] = {}  # by machine: put or lifted last, and when
        self._dressed: dict[str, float] = {}  # Nodes, by UID, and when they got what they lacked

    @property
    def idle(self) -> bool:
        return self._tasks.idle

    async def ask(self, name: str) -> str:
        return await self._by.endpoints.ask(name)

    # -- starting things ------------------------------------------------------------------------

    def change(self, endpoints: Endpoints | None, limits: Deadlines) -> None:
        """Other settings are in force; what is under way asks the new ones next. None: the endpoints are the same."""
        self._by.endpoints = endpoints or self._by.endpoints
        self._by.limits = limits

    def follow(self, policy: Policy, switch: Switch, record: Switched) -> None:
        if not self._by.may_act():
            return
        name = switch.name
        if record.power is Power.RISING and self._rising.is_to_call(switch, record):
            self._tasks.start(name, lambda: self._rising.switch_on(switch))
        elif record.power is Power.DRAINING:
            self._leave(name, lambda: self._falling.drain(policy, switch))
        elif record.power is Power.FALLING and self._falling.is_to_call(switch, record):
            self._leave(name, lambda: self._falling.switch_off(policy, switch))
        elif record.power is Power.OFF and record.node_goes:
            self._tasks.start(name, lambda: self._falling.delete_node(policy, switch))

    def _leave(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await work()
            finally:
                self._falling.unmark(name)

        if self._tasks.start(name, run):  # a mark of before was not for this one
            self._falling.unmark(name)

    def retire(self, policy: Policy, switch: Switch, reason: Reason, message: str) -> None:
        self._leave(switch.name, lambda: self._falling.retire(policy, switch, reason, message))

    def call_off(self, name: str, why: str) -> None:
        """Whatever takes it away ends before its next step, if no call was made."""
        if self._tasks.running(name):
            self._falling.called_off.setdefault(name, why)

    def hold(self, name: str, held: bool) -> None:
        """Whether somebody has paused switching it on, or cordoned its Node: no call is made, nor repeated."""
        (self._rising.held.add if held else self._rising.held.discard)(name)

    def pause(self, name: str) -> None:
        """The same where somebody has paused it: then also what is of no use waits."""
        if self._tasks.running(name):
            self._falling.paused.add(name)
        self.call_off(name, f"switching {name} off is paused")

    def running(self, name: str) -> bool:
        return self._tasks.running(name)

    async def ended(self, name: str) -> None:
        """Whatever is under way with the machine; somebody else may end it, too."""
        await self._tasks.ended(name)

    @staticmethod
    def marked(node: Node | None) -> bool:
        """Whether a removal has left anything on the Node."""
        return node is not None and (
            any(node.has_taint(taint.key, taint.effect) for taint in _OURS)
            or names.NODE_DRAIN_SINCE in node.annotations
        )

    def taint(self, name: str, node: Node, wanted: bool, *, meanwhile: bool = False) -> None:
        """Put the hard taint on its Node, or take ours off, unless a task is at work there.

        `meanwhile`: also then. A Node may register while its machine, which never showed it, is being switched off.
        """
        written, at = self._tainted.get(name, (None, 0.0))
        if written is wanted and 0 <= self._by.clock() - at < _WATCH_LAG:
            return
        if not self._by.may_act() or (self._tasks.running(name) and not meanwhile):
            return
        closing = self._by.closing
        if wanted and not node.has_taint(closing.key, closing.effect):
            self._tasks.start(f"taint {name}", lambda: self._put(name))
        elif not wanted and self.marked(node):
            self._tasks.start(f"taint {name}", lambda: self._lift(name))

    async def _put(self, name: str) -> None:
        await self._by.writer.taint(name, add=(self._by.closing,))
        self._tainted[name] = (True, self._by.clock())

    async def _lift(self, name: str) -> None:
        await self._by.writer.taint(name, remove=_OURS)
        await self._by.writer.annotate(name, {names.NODE_DRAIN_SINCE: None})
        self._tainted[name] = (False, self._by.clock())

    def dress(
        self,
        node: Node,
        labels: Mapping[str, str],
        provider_id: str,
        add: tuple[Taint, ...] = (),
        remove: tuple[Taint, ...] = (),
    ) -> None:
        """Give its Node what it lacks for a driver that knows machines by these."""
        if not (labels or provider_id or add or remove) or not self._by.may_act():
            return
        at = self._dressed.get(node.uid, float("-inf"))
        if 0 <= self._by.clock() - at < _WATCH_LAG:
            return

        async def run() -> None:
            if provider_id:
                await self._by.writer.identify(node.name, provider_id, labels)
            elif labels:
                await self._by.writer.label(node.name, labels)
            if add or remove:
                await self._by.writer.taint(node.name, add=add, remove=remove)
            self._dressed = {
                uid: when for uid, when in self._dressed.items() if self._by.clock() - when < _WATCH_LAG
            } | {node.uid: self._by.clock()}

        self._tasks.start(f"dress {node.name}", run)

    async def stop(self, patience: float) -> None:
        await self._tasks.stop("", patience)
