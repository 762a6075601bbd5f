"""Switching a machine off: tainted, drained, called, and kept on wherever something needs it after all.

Before every call stands the one consistent list of the pods there, also before each repetition. A machine that may be on
its way down already is not taken for one that stays on.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.cluster.protocol import ClusterError
from controller.domain.kube import Pod
from controller.domain.machine import FAILURES
from controller.domain.outcome import Happened, Refused
from controller.domain.plan import Explanation
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.domain.switching import Fall, Power, Switch, Switched
from controller.fleet.ledger import LedgerError
from controller.fleet.removal import CalledOff
from controller.fleet.switching.aftermath import answered, called, dated, prolonged
from controller.fleet.switching.ends import USELESS
from controller.fleet.switching.means import AGAIN, Means
from controller.fleet.switching.seeing import SPEAKS
from controller.fleet.switching.staying import LATER, Staying
from controller.fleet.switching.waits import paused
from controller.fleet.tasks import Grounded, NotYet


class Falling:
    def __init__(self, means: Means) -> None:
        self._by = means
        self._staying = Staying(means)
        self.called_off: dict[str, str] = {}  # machines that stay on after all, and why
        self.paused: set[str] = set()  # since what is under way with them began

    def unmark(self, name: str) -> None:
        self.called_off.pop(name, None)
        self.paused.discard(name)

    def _wanted_off(self, name: str) -> Callable[[], None]:
        def check() -> None:
            self._by.lead()
            if why := self.called_off.get(name):
                raise CalledOff(Explanation(Reason.NEEDED, why))

        return check

    def _wanted_off_whatever_waits(self, policy: Policy, switch: Switch) -> Callable[[], None]:
        """One that is of no use, or may be on its way down already: only who works on it can ask for time."""

        def check() -> None:
            self._by.lead()
            said = paused(policy, switch, self._by.node(switch.name), "scale-down")
            if said or switch.name in self.paused:
                raise NotYet(f"switching {switch.name} off is paused", LATER)

        return check

    async def retire(self, policy: Policy, switch: Switch, reason: Reason, message: str) -> None:
        check = self._wanted_off(switch.name)
        if self._by.record_in(switch.name, Power.ON) is None:
            return
        try:
            await self._by.removal.soften(policy, self._by.machine(switch), check)
            check()
        except CalledOff as stop:
            await self._staying.keep(switch, stop.why)
            return
        if self._by.record_in(switch.name, Power.ON) is None:
            return
        await self._by.change(
            switch, power=Power.DRAINING, drain_at=self._by.clock(), reason=reason, note=message, again=0
        )
        await self.drain(policy, switch)

    async def drain(self, policy: Policy, switch: Switch) -> None:
        record = self._by.record_in(switch.name, Power.DRAINING)
        if record is None:
            return
        failed = record.reason in FAILURES
        wanted = self._wanted_off_whatever_waits(policy, switch) if failed else self._wanted_off(switch.name)
        if failed and self._by.clock() > policy.deadlines.drained_by(record.drain_at):
            wanted()
            await self._by.change(
                switch, drain_at=self._by.clock()
            )  # it was kept for long: the pods get their time

        def check() -> None:
            wanted()
            if self._by.record_in(switch.name, Power.DRAINING) is None:
                raise Grounded  # it has left the settings: nobody is evicted for it any more

        try:
            await self._by.removal.drain(policy, self._by.machine(switch), check, lambda _refusal: None)
            check()
        except CalledOff as stop:
            await self._staying.keep(switch, stop.why)
            return
        now = self._by.clock()
        await self._by.change(
            switch, power=Power.FALLING, call=self._by.new_call(), again=0, wanted_at=now, called_at=0.0, acked_at=0.0,
            tries=0, unsure=False, down_at=0.0, pods=(),
        )  # fmt: skip
        await self.switch_off(policy, switch)

    def is_to_call(self, switch: Switch, record: Switched) -> bool:
        waits = record.called_at or record.unsure  # for what a call may have done
        return not record.acked_at and (record.tries < switch.tries or not waits)

    async def switch_off(self, policy: Policy, switch: Switch) -> None:
        name, pause = switch.name, switch.retry_first
        while (record := self._by.record_in(name, Power.FALLING)) is not None and not record.acked_at:
            if record.tries >= switch.tries:
                if record.called_at or record.unsure:
                    return  # what its Node shows decides, and at last the deadline
                # All were refused, and what was to follow was not written down any more, or fewer are allowed now.
                record = await self._by.change(switch, tries=0)
            if self._in_other_hands(switch, record):
                raise NotYet(f"{name} has fallen silent by itself: somebody may be at work on it", LATER)
            if not record.call:
                record = await self._by.change(switch, call=self._by.new_call())
            if not record.drain_at:
                await self._close(name)
            send = await self._by.endpoints.prepare(name, False)
            here = self._by.same_wish(record)
            if here is None:
                return
            record, calls_before = here, dated(here, self._by.clock()).fall
            try:
                await self._last_look(policy, switch, record, calls_before)
            except CalledOff as stop:
                self._not_called(record)
                await self._staying.keep(switch, stop.why)
                return
            except (ClusterError, LedgerError, Grounded, NotYet):
                self._not_called(record)
                raise
            here = self._by.same_wish(record)
            if here is None:
                return
            if here.again != record.again or not here.unsure:
                continue  # also where who led before wrote what came of its own call: nobody knows of this one
            self._may_act_from_now_on(switch, called_at=self._by.clock())
            outcome = await send(f"{record.call_id}-off")
            self._may_act_from_now_on(switch)  # it may have been read, or begun, in the last moment
            here = self._by.same_wish(record)
            if here is None:
                return
            if here.again != record.again:
                continue  # it took so long that it was given up: an answer to that call says nothing of the next
            if isinstance(outcome, Happened):
                spent = answered(here, calls_before)
                await self._by.change(switch, acked_at=self._by.clock(), fall=spent)
                self._by.listener.acknowledged(switch, here, False)
                return
            refused = isinstance(outcome, Refused)
            # No call of before can have an effect any more, whether or not it was answered.
            sure = refused and (not record.unsure or calls_before is None)
            if sure:
                await self._by.change(switch, unsure=False, called_at=0.0, fall=calls_before)
            elif refused:
                await self._by.change(switch, fall=calls_before)
            self._by.listener.not_acknowledged(switch, here, False, outcome)
            if not sure and await self._staying.will_not_go_again(switch, here, outcome):
                # An earlier call may have acted: no refusal is ever sure, and it would be called off for ever.
                await self._by.change(switch, acked_at=self._by.clock())
                return
            here = self._by.same_wish(record)
            if here is None:
                return  # somebody else has ended it while that was written down
            if here.again != record.again:
                continue
            final = isinstance(outcome, Refused) and outcome.reason not in AGAIN
            if sure and (final or here.tries >= switch.tries):
                await self._staying.stays_on(switch, here, outcome)
                return
            await self._by.sleep(max(pause, getattr(outcome, "retry_after", None) or 0.0))
            pause = min(switch.retry_most, pause * 2)

    def _in_other_hands(self, switch: Switch, record: Switched) -> bool:
        """It would not go, and has fallen silent since: whoever restarts it is not called off."""
        silent = record.down_at and self._by.clock() < record.down_at + switch.on_within
        return bool(record.refused_at and silent) and record.reason is not Reason.ON_DEADLINE

    def _may_act_from_now_on(self, switch: Switch, **fields: object) -> None:
        """What a call may do counts from here: its record, and the look at the pods, may have taken long."""
        now, record = self._by.clock(), self._by.ledger.switched.get(switch.name)
        if record is None or (record.fall is None and not fields):
            return  # what it did is proven already
        until = now + switch.off_within
        fall = record.fall or called(None, now, until, self._by.node(switch.name))
        self._by.ledger.change_switched(switch.name, fall=prolonged(fall, now, until), **fields)

    async def _last_look(
        self, policy: Policy, switch: Switch, record: Switched, calls_before: Fall | None
    ) -> None:
        """A call is prepared and written down first, and the list is read last: nothing stands between it and the call."""
        name, now = switch.name, self._by.clock()
        goes = record.reason in FAILURES or record.unsure
        check = self._wanted_off_whatever_waits(policy, switch) if goes else self._wanted_off(name)
        check()
        fall = called(calls_before, now, now + switch.off_within, self._by.node(name))
        await self._by.change(switch, tries=record.tries + 1, called_at=now, unsure=True, fall=fall)
        check()
        drained_by_others = not record.drain_at and record.reason not in USELESS
        # One that is going is stopped by work only, whatever else settles there.
        if record.again or drained_by_others:
            await self._by.removal.look_at_work(policy, self._by.machine(switch))
        else:
            await self._by.removal.last_look(policy, self._by.machine(switch))
        check()
        if not self._by.may_spend():
            raise Grounded

    async def _close(self, name: str) -> None:
        """It was not drained, as no Node was there. One that has come since takes no pod while the machine goes down."""
        self._by.lead()
        try:
            await self._by.writer.taint(name, add=(self._by.closing,))
        except ClusterError as error:
            if error.kind != "not_found":
                raise

    def _not_called(self, before: Switched) -> None:
        """The call that was written down last was not made."""
        if self._by.same_wish(before) is not None:
            self._by.ledger.change_switched(
                before.name,
                tries=before.tries,
                called_at=before.called_at,
                unsure=before.unsure,
                fall=before.fall,
            )

    async def delete_node(self, policy: Policy, switch: Switch) -> None:
        """It is off, and its Node object is to go with it: by its UID, and never one that is Ready again.

        Nor one whose kubelet speaks: it ends within a minute, or somebody starts it, and it would register no more.
        """
        self._by.lead()
        node = await self._by.writer.get_node(switch.name)
        if node is not None and not node.ready:
            if node.has_taint(*SPEAKS):
                raise NotYet(f"Node {switch.name} is kept: its kubelet still speaks, or does again", LATER)
            pods = await self._by.writer.list_pods_on(switch.name)
            busy = next((pod for pod in pods if _stays(pod)), None)
            if busy is not None:
                raise NotYet(f"Node {switch.name} is kept: pod {busy.key} is bound to it", LATER)
            here = self._by.record_in(switch.name, Power.OFF)
            if here is None or not here.node_goes:
                return  # it is switched on meanwhile
            self._by.lead()
            await self._by.writer.delete_node(node.name, node.uid)
        if self._by.record_in(switch.name, Power.OFF) is not None:
            await self._by.change(switch, node_goes=False)


def _stays(pod: Pod) -> bool:
    return not (pod.finished or pod.shape.is_daemon or pod.shape.mirror) and pod.deleting_at is None
