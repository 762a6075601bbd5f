"""What is under way with switched machines: one task for each that is to be switched, or drained.

A call is written down before it is made. It is repeated, with the same key, until it is acknowledged or certainly
refused; what the machine makes of it is seen on its Node. Before every call that switches a machine off stands the
one consistent list of the pods there, also before each repetition.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from controller.cloud.protocol import Endpoints
from controller.cluster.protocol import ClusterError, Writer
from controller.domain import names
from controller.domain.kube import Node
from controller.domain.machine import FAILURES, Machine
from controller.domain.outcome import Happened, Outcome, Refused
from controller.domain.plan import Explanation
from controller.domain.policy import Deadlines, Policy
from controller.domain.reason import SENTENCES, Reason
from controller.domain.switching import Power, Switch, Switched, as_machine
from controller.fleet.ledger import Ledger
from controller.fleet.listener import Listener
from controller.fleet.removal import HARD, SOFT, CalledOff, Removal
from controller.fleet.switching.life import off, pause_after
from controller.fleet.tasks import Grounded, NotYet, Tasks

log = logging.getLogger("gpu_autoscaler.fleet")

_AGAIN = (Reason.UNAVAILABLE, Reason.RATE_LIMITED)  # certainly without effect, and worth another try
_LATER = 30.0
_WATCH_LAG = 10.0  # a taint that was written is not seen at once


class Turning:
    def __init__(
        self,
        *,
        ledger: Ledger,
        endpoints: Endpoints,
        removal: Removal,
        writer: Writer,
        listener: Listener,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        wake: Callable[[], None],
        may_act: Callable[[], bool],
        may_spend: Callable[[], bool],
        rng: random.Random,
        limits: Deadlines,
        restored: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._ledger = ledger
        self._endpoints = endpoints
        self._removal = removal
        self._writer = writer
        self._listener = listener
        self._clock = clock
        self._sleep = sleep
        self._may_act = may_act
        self._may_spend = may_spend
        self._rng = rng
        self._limits = limits
        self._restored = restored
        self._tasks = Tasks(clock, wake)
        self._called_off: set[str] = set()
        self._tainted: dict[str, tuple[bool, float]] = {}  # by machine: put or lifted last, and when

    @property
    def idle(self) -> bool:
        return self._tasks.idle

    async def ask(self, name: str) -> str:
        return await self._endpoints.ask(name)

    # -- starting things ------------------------------------------------------------------------

    def change(self, endpoints: Endpoints, limits: Deadlines) -> None:
        """Other settings are in force; what is under way asks the new ones next."""
        self._endpoints = endpoints
        self._limits = limits

    def follow(self, policy: Policy, switch: Switch, record: Switched) -> None:
        if not self._may_act():
            return
        name = switch.name
        if record.power is Power.RISING and self._to_call(switch, record):
            self._tasks.start(name, lambda: self._switch_on(switch))
        elif record.power is Power.DRAINING:
            self._leave(name, lambda: self._drain(policy, switch))
        elif record.power is Power.FALLING and not record.acked_at and record.tries < switch.tries:
            self._leave(name, lambda: self._switch_off(policy, switch))
        elif record.power is Power.OFF and record.node_goes:
            self._tasks.start(name, lambda: self._delete_node(policy, switch))

    @staticmethod
    def _to_call(switch: Switch, record: Switched) -> bool:
        return (
            bool(record.call)
            and not record.acked_at
            and not record.node_ready_at
            and record.tries < switch.tries
        )

    def _leave(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await work()
            finally:
                self._called_off.discard(name)

        self._tasks.start(name, run)

    def retire(self, policy: Policy, switch: Switch, reason: Reason, message: str) -> None:
        self._leave(switch.name, lambda: self._retire(policy, switch, reason, message))

    def call_off(self, name: str) -> None:
        if self._tasks.running(name):
            self._called_off.add(name)

    def running(self, name: str) -> bool:
        return self._tasks.running(name)

    @staticmethod
    def marked(node: Node | None) -> bool:
        """Whether a removal has left anything on the Node."""
        return node is not None and (
            node.has_taint(HARD.key, HARD.effect)
            or node.has_taint(SOFT.key, SOFT.effect)
            or names.NODE_DRAIN_SINCE in node.annotations
        )

    def taint(self, name: str, node: Node, wanted: bool) -> None:
        """Put the hard taint on its Node, or take ours off, unless a task is at work there."""
        written, at = self._tainted.get(name, (None, 0.0))
        if written is wanted and 0 <= self._clock() - at < _WATCH_LAG:
            return
        if not self._may_act() or self._tasks.running(name):
            return
        if wanted and not node.has_taint(HARD.key, HARD.effect):
            self._tasks.start(f"taint {name}", lambda: self._put(name))
        elif not wanted and self.marked(node):
            self._tasks.start(f"taint {name}", lambda: self._lift(name))

    async def _put(self, name: str) -> None:
        await self._writer.taint(name, add=(HARD,))
        self._tainted[name] = (True, self._clock())

    async def _lift(self, name: str) -> None:
        await self._writer.taint(name, remove=(SOFT, HARD))
        await self._writer.annotate(name, {names.NODE_DRAIN_SINCE: None})
        self._tainted[name] = (False, self._clock())

    async def stop(self, patience: float) -> None:
        await self._tasks.stop("", patience)

    # -- small steps ----------------------------------------------------------------------------

    def _in(self, name: str, power: Power) -> Switched | None:
        record = self._ledger.switched.get(name)
        return record if record is not None and record.power is power else None

    def _lead(self) -> None:
        if not self._may_act():
            raise Grounded

    def _wanted_off(self, name: str) -> Callable[[], None]:
        def check() -> None:
            self._lead()
            if name in self._called_off:
                raise CalledOff(Explanation(Reason.NEEDED, "a waiting pod fits it"))

        return check

    async def _change(self, switch: Switch, **fields: object) -> Switched:
        before = self._ledger.switched[switch.name]
        after = self._ledger.change_switched(switch.name, **fields)
        await self._ledger.flush()
        if after.power is not before.power:
            self._listener.switched(switch, before, after)
        return after

    def _new_call(self) -> str:
        return "".join(self._rng.choice(names.INTENT_ALPHABET) for _ in range(names.INTENT_LENGTH))

    def _machine(self, switch: Switch) -> Machine:
        machine = as_machine(self._ledger.switched[switch.name], switch)
        if machine is None:
            raise Grounded
        return machine

    # -- on -------------------------------------------------------------------------------------

    async def _switch_on(self, switch: Switch) -> None:
        name, pause = switch.name, switch.retry_first
        await self._ledger.flush()  # the wish is stored before anything is switched
        while True:
            told = await self._endpoints.ask(name) if switch.asked else ""
            record = self._in(name, Power.RISING)
            if record is None or not self._to_call(switch, record):
                return
            if told == "on":
                await self._change(switch, acked_at=self._clock())  # it is on its way already
                return
            if not self._may_spend():
                raise Grounded
            call, sure, now = record.call, not record.unsure, self._clock()
            # Written first: after a crash nobody could say whether it was made.
            await self._change(switch, tries=record.tries + 1, called_at=now, rose_at=now, unsure=True)
            if not self._may_spend():
                raise Grounded
            outcome = await self._endpoints.switch(name, True, f"{record.call_id}-on")
            here = self._ledger.switched.get(name)
            if here is None or here.call != call or here.power is not Power.RISING:
                return
            if isinstance(outcome, Happened):
                await self._change(switch, acked_at=self._clock())
                self._listener.acknowledged(switch, here, True)
                return
            sure = sure and isinstance(outcome, Refused)
            if sure:  # it had no effect: as if it had not been made
                await self._change(switch, unsure=False, called_at=0.0, rose_at=record.rose_at)
            self._listener.not_acknowledged(switch, here, True, outcome)
            final = isinstance(outcome, Refused) and outcome.reason not in _AGAIN
            if sure and (final or here.tries >= switch.tries):
                await self._give_up(switch, here, outcome)
                return
            if here.tries >= switch.tries:
                return  # it may have had an effect: what the Node shows decides, and at last the deadline
            await self._sleep(max(pause, getattr(outcome, "retry_after", None) or 0.0))
            pause = min(switch.retry_most, pause * 2)

    async def _give_up(self, switch: Switch, record: Switched, outcome: Outcome) -> None:
        """No call had any effect: others may take its pods."""
        failures = record.failures + 1
        until = self._clock() + pause_after(failures, self._limits)
        words = getattr(outcome, "message", "") or SENTENCES[Reason.SWITCH_FAILED]
        await self._change(
            switch,
            power=Power.OFF,
            call="",
            pods=(),
            tries=0,
            called_at=0.0,
            rose_at=0.0,
            unsure=False,
            failures=failures,
            refused_until=until,
            reason=Reason.SWITCH_FAILED,
            note=words,
        )

    # -- off ------------------------------------------------------------------------------------

    async def _retire(self, policy: Policy, switch: Switch, reason: Reason, message: str) -> None:
        check = self._wanted_off(switch.name)
        if self._in(switch.name, Power.ON) is None:
            return
        try:
            await self._removal.soften(policy, self._machine(switch), check)
            check()
        except CalledOff as stop:
            await self._keep(switch, stop.why)
            return
        if self._in(switch.name, Power.ON) is None:
            return
        await self._change(
            switch, power=Power.DRAINING, drain_at=self._clock(), reason=reason, note=message, again=0
        )
        await self._drain(policy, switch)

    async def _drain(self, policy: Policy, switch: Switch) -> None:
        record = self._in(switch.name, Power.DRAINING)
        if record is None:
            return
        failed = record.reason in FAILURES
        check = self._lead if failed else self._wanted_off(switch.name)
        try:
            await self._removal.drain(policy, self._machine(switch), check, lambda _refusal: None)
            check()
        except CalledOff as stop:
            await self._keep(switch, stop.why)
            return
        if self._in(switch.name, Power.DRAINING) is None:
            return
        now = self._clock()
        await self._change(
            switch, power=Power.FALLING, call=self._new_call(), again=0, wanted_at=now, called_at=0.0, acked_at=0.0,
            tries=0, unsure=False, down_at=0.0, pods=(),
        )  # fmt: skip
        await self._switch_off(policy, switch)

    async def _keep(self, switch: Switch, why: Explanation) -> None:
        """It stays on. One that is of no use stays tainted, and goes as soon as nothing needs it."""
        record = self._ledger.switched.get(switch.name)
        if record is None:
            return
        machine = as_machine(record, switch)
        if machine is None or (record.power is Power.FALLING and (record.unsure or record.again)):
            raise NotYet(
                f"{switch.name} may be on its way down and cannot be asked again: {why.message}", _LATER
            )
        if record.reason in FAILURES and record.power is not Power.ON:
            if record.reason is Reason.ON_DEADLINE:
                # Its Node never came, and something is held there all the same: it is left as it is.
                await self._change(
                    switch,
                    **_fields(replace(off(record, self._clock()), note=f"{record.note} {why.message}")),
                )
                return
            raise NotYet(f"{switch.name} is of no use and cannot go yet: {why.message}", _LATER)
        await self._removal.restore(machine, self._lead)
        self._restored(machine.name)  # its mark of being idle went, too
        if record.power is not Power.ON:
            await self._change(
                switch,
                power=Power.ON,
                reason=None,
                note="",
                drain_at=0.0,
                called_at=0.0,
                tries=0,
                down_at=0.0,
            )
        self._listener.removal_called_off(machine, why)

    async def _switch_off(self, policy: Policy, switch: Switch) -> None:
        name, pause = switch.name, switch.retry_first
        while (record := self._in(name, Power.FALLING)) is not None and not record.acked_at:
            if record.tries >= switch.tries:
                return  # what its Node shows decides, and at last the deadline
            if not record.call:
                record = await self._change(switch, call=self._new_call())
            failed = record.reason in FAILURES
            check = self._lead if failed or record.unsure else self._wanted_off(name)
            sure, now = not record.unsure, self._clock()
            # Written first, and the list is read last: nothing slow stands between it and the call.
            await self._change(switch, tries=record.tries + 1, called_at=now, unsure=True)
            try:
                check()
                await self._removal.last_look(policy, self._machine(switch))
                check()
                if not self._may_spend():
                    raise Grounded
            except CalledOff as stop:
                self._not_called(record)
                await self._keep(switch, stop.why)
                return
            except (ClusterError, Grounded):
                self._not_called(record)
                raise
            here = self._in(name, Power.FALLING)
            if here is None or here.call != record.call:
                return
            outcome = await self._endpoints.switch(name, False, f"{record.call_id}-off")
            here = self._in(name, Power.FALLING)
            if here is None or here.call != record.call:
                return
            if isinstance(outcome, Happened):
                await self._change(switch, acked_at=self._clock())
                self._listener.acknowledged(switch, here, False)
                return
            sure = sure and isinstance(outcome, Refused)
            if sure:
                await self._change(switch, unsure=False, called_at=0.0)
            self._listener.not_acknowledged(switch, here, False, outcome)
            final = isinstance(outcome, Refused) and outcome.reason not in _AGAIN
            if sure and (final or here.tries >= switch.tries):
                await self._stays_on(switch, here, outcome)
                return
            await self._sleep(max(pause, getattr(outcome, "retry_after", None) or 0.0))
            pause = min(switch.retry_most, pause * 2)

    def _not_called(self, before: Switched) -> None:
        """The call that was written down last was not made."""
        here = self._in(before.name, Power.FALLING)
        if here is not None and here.call == before.call:
            self._ledger.change_switched(
                before.name, tries=before.tries, called_at=before.called_at, unsure=before.unsure
            )

    async def _stays_on(self, switch: Switch, record: Switched, outcome: Outcome) -> None:
        """No call had any effect: it goes on working, and is switched off at another time."""
        failures = record.failures + 1
        until = self._clock() + pause_after(failures, self._limits)
        words = getattr(outcome, "message", "") or SENTENCES[Reason.SWITCH_FAILED]
        if record.reason in FAILURES:
            await self._change(switch, called_at=0.0, tries=0, note=f"it cannot be switched off: {words}")
            raise NotYet(f"{switch.name} cannot be switched off: {words}", max(_LATER, until - self._clock()))
        await self._change(
            switch, power=Power.ON, drain_at=0.0, called_at=0.0, tries=0, down_at=0.0, failures=failures,
            refused_until=until, reason=Reason.SWITCH_FAILED, note=f"it cannot be switched off: {words}",
        )  # fmt: skip

    async def _delete_node(self, policy: Policy, switch: Switch) -> None:
        """It is off, and its Node object is to go with it: by its UID, and never one that is Ready again."""
        self._lead()
        node = await self._writer.get_node(switch.name)
        if node is not None and not node.ready:
            pods = await self._writer.list_pods_on(switch.name)
            busy = next((p for p in pods if not (p.finished or p.shape.is_daemon or p.shape.mirror)), None)
            if busy is not None and busy.deleting_at is None:
                raise NotYet(f"Node {switch.name} is kept: pod {busy.key} is bound to it", _LATER)
            self._lead()
            await self._writer.delete_node(node.name, node.uid)
        if self._in(switch.name, Power.OFF) is not None:
            await self._change(switch, node_goes=False)


def _fields(record: Switched) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__struct_fields__ if name != "name"}
