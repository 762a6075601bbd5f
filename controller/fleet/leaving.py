"""Taking machines away, always in this order, resumable at every step from the record alone.

soft taint → look again → hard taint → a pause → evict → the consistent list, immediately before the
delete → delete with its disks → proven gone → Node object, script, ledger entry. Up to the delete it
can be called off, and then the taints come off again; a refusal always says why; what follows the proof
is in `closing`. The record is read anew after every wait: what others learned meanwhile is never overwritten.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from decimal import Decimal

from msgspec.structs import replace

from controller.domain.cloudthings import Instance
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Happened, Outcome, Refused
from controller.domain.plan import Explanation
from controller.domain.policy import Policy
from controller.domain.reason import SENTENCES, Reason
from controller.fleet.account import Account
from controller.fleet.closing import POLL, Closing, look_up
from controller.fleet.ledger import Ledger
from controller.fleet.life import followed_again
from controller.fleet.listener import Listener
from controller.fleet.marks import carries_marks, intent_of
from controller.fleet.removal import CalledOff, Removal
from controller.fleet.tasks import Grounded, NotYet

log = logging.getLogger("gpu_autoscaler.fleet")

_MOST_POLL = 30.0
_MOST_LEAVING_POLL = 10.0
_MOST_VANISHING_POLL = 5.0  # of one that nobody here asked to go: its pods are planned again after that
# An accepted delete that shows no effect for so long is sent again: a refusal may look like success.
_REPEAT = 60.0
_OTHERWISE = "what is to go at the end of everything was changed meanwhile"
# Why an eviction is refused for now.
_HELD_UP = (Reason.PDB, Reason.RATE_LIMITED, Reason.UNAVAILABLE)


class _Overtaken(Exception):
    """Its drain is pointless: the machine has vanished meanwhile."""


class Leaving:
    def __init__(
        self,
        *,
        ledger: Ledger,
        removal: Removal,
        listener: Listener,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        may_act: Callable[[], bool],
        account: Account,
        closed: Callable[[Machine], None],
        restored: Callable[[str], None],
        wake: Callable[[], None],
    ) -> None:
        """`closed` and `restored` hear of machines that are gone, and by name of those that stay after all."""
        self._ledger = ledger
        self._removal = removal
        self._listener = listener
        self._clock = clock
        self._sleep = sleep
        self._may_act = may_act
        self._account = account
        self._restored = restored
        self._wake = wake
        self._closing = Closing(
            ledger=ledger,
            removal=removal,
            listener=listener,
            clock=clock,
            sleep=sleep,
            check=self._check,
            closed=closed,
        )
        self.policy: Policy | None = None  # as it is now: a removal may take long
        self.called_off: set[str] = set()  # names of machines that are wanted after all
        self._kept: dict[str, Reason] = {}  # why failed machines could not go yet, told once

    @property
    def unproven(self) -> dict[str, str]:
        return self._closing.unproven

    def _lead(self) -> None:
        if not self._may_act():
            raise Grounded

    def _check(self) -> None:
        self._lead()
        if self._account.strange:
            raise NotYet(self._account.doubt, POLL)

    def _wanted_gone(self, policy: Policy, machine: Machine) -> Callable[[], None]:
        """Where nobody can be asked to delete it, it may as well go on working: a waiting pod may need it.

        Nor does it go once somebody has paused that, or wants the end of everything in another way or not at all, unless
        the cloud was asked for its end already. `policy`: with which this step began.
        """
        name = machine.name

        def check() -> None:
            self._lead()
            if self._account.strange:
                raise CalledOff(Explanation(Reason.VANISHED, self._account.doubt))
            if name in self.called_off:
                raise CalledOff(Explanation(Reason.NEEDED, "a waiting pod fits it"))
            now_is = self._ledger.machines.get(machine.intent)
            asked = now_is is not None and now_is.delete_at > 0
            if self.policy is not None and not asked and self._removal.is_paused(self.policy, machine):
                raise CalledOff(Explanation(Reason.PAUSED, "scale-down is paused"))
            if not asked and self._wished_otherwise(policy):
                raise CalledOff(Explanation(Reason.NEEDED, _OTHERWISE))

        return check

    def _wished_otherwise(self, policy: Policy) -> bool:
        """Whether its work may be asked to leave only as people wish it by now, which this step does not know."""
        return bool(policy.retire) and self.policy is not None and self.policy.retire != policy.retire

    def _failed_may_go(self, policy: Policy, machine: Machine) -> Callable[[], None]:
        """It goes in any case, and of its work only what may be evicted by the wish as it stands now. One that was of use
        waits for the end of a pause: whoever repairs it has said so by that."""

        def check() -> None:
            self._check()
            if machine.ready_at and self.policy is not None and self._removal.is_paused(self.policy, machine):
                raise NotYet("scale-down is paused")
            if self._wished_otherwise(policy):
                raise NotYet(_OTHERWISE)

        return check

    def _in(self, intent: str, phase: Phase) -> Machine | None:
        machine = self._ledger.machines.get(intent)
        return machine if machine is not None and machine.phase is phase else None

    async def _move(self, intent: str, phase: Phase, **fields: object) -> Machine:
        before = self._ledger.machines[intent]
        after = self._ledger.change(intent, phase=phase, **fields) or before
        await self._ledger.flush()
        self._listener.phase_changed(before, after)
        return after

    # -- up to the delete -----------------------------------------------------------------------

    async def retire(
        self, policy: Policy, intent: str, reason: Reason, message: str, moving: tuple[str, ...] = ()
    ) -> None:
        machine = self._in(intent, Phase.READY)
        if machine is None:
            return
        try:
            planned = replace(machine, moving=moving)
            await self._removal.soften(policy, planned, self._wanted_gone(policy, machine))
            if self._in(intent, Phase.READY) is None:
                return
            self._wanted_gone(policy, machine)()
        except CalledOff as stop:
            await self._keep(intent, stop.why, moved=bool(moving))
            return
        await self._move(
            intent, Phase.DRAINING, reason=reason, note=message, drain_at=self._clock(), moving=moving
        )
        await self.drain(policy, intent)

    def still_kept(self, policy: Policy, machine: Machine) -> bool:
        """Whether a failed machine cannot go for the same reason as when it was tried last: nothing is to be done."""
        if not machine.failed or machine.name not in self._kept:
            return False
        try:
            self._removal.look_closed(policy, machine)
        except CalledOff as stop:
            return stop.why.code is self._kept[machine.name]
        return False

    async def drain(self, policy: Policy, intent: str) -> None:
        machine = self._in(intent, Phase.DRAINING)
        if machine is None:
            return
        wanted_gone = (
            self._failed_may_go(policy, machine) if machine.failed else self._wanted_gone(policy, machine)
        )
        if machine.failed and machine.name in self._kept:
            self._check()
            machine = await self._move(intent, Phase.DRAINING, drain_at=self._clock())  # its grace begins now

        def check() -> None:
            wanted_gone()
            if self._in(intent, Phase.DRAINING) is None:
                raise _Overtaken

        try:
            await self._removal.drain(policy, machine, check, self._told_why_it_waits(machine))
            check()
        except _Overtaken:
            pass
        except CalledOff as stop:
            await self._keep(intent, stop.why)
            return
        if self._in(intent, Phase.DRAINING) is not None:
            await self._move(intent, Phase.DELETING)
        await self.delete(policy, intent)

    async def restore(self, intent: str) -> None:
        """It went out of sight in its removal, and is followed again."""
        machine = self._ledger.machines.get(intent)
        if machine is None or not machine.awaits_restoring:
            return
        await self._removal.restore(machine, self._check)
        self._restored(machine.name)
        machine = self._ledger.machines.get(intent)
        if machine is not None and machine.awaits_restoring:
            self._ledger.change(intent, drain_at=0.0)
            await self._ledger.flush()

    def _told_why_it_waits(self, machine: Machine) -> Callable[[Refused | None], None]:
        """A drain may wait for long: the record, and so the status, names who holds it up."""
        reason, note = machine.reason, machine.note
        if reason in _HELD_UP:  # resumed: by whom it was held up before
            reason, note = None, ""

        def tell(refusal: Refused | None) -> None:
            why = reason if refusal is None or machine.failed else refusal.reason
            words = note if refusal is None else refusal.message
            if self._in(machine.intent, Phase.DRAINING) is not None:
                self._ledger.change(machine.intent, reason=why, note=words)

        return tell

    async def _keep(self, intent: str, why: Explanation, *, moved: bool = False) -> None:
        """It stays. A failed one stays tainted, and goes as soon as it is idle. Work is not moved again at once."""
        machine = self._ledger.machines.get(intent)
        if machine is None or machine.gone_at or machine.reason is Reason.VANISHED:
            return
        if machine.failed and machine.reason is not Reason.STOPPED:
            await self._move(intent, Phase.DRAINING, drain_at=self._clock())
            if self._kept.get(machine.name) is not why.code:
                self._kept[machine.name] = why.code
                self._listener.removal_called_off(machine, why)
            raise _stays(machine, why)
        await self._removal.restore(machine, self._lead)
        self._restored(machine.name)
        now_is = self._ledger.machines.get(intent)
        if now_is is not None and now_is.phase is machine.phase and now_is.reason is machine.reason:
            surplus = machine.surplus
            await self._move(
                intent,
                Phase.READY,
                reason=Reason.SURPLUS if surplus else None,
                note=SENTENCES[Reason.SURPLUS] if surplus else "",
                moving=(),
                kept_at=self._clock() if moved or machine.moving else machine.kept_at,
                drain_at=0.0,
                delete_at=0.0,
                gpus_lost_at=0.0,
                node_missing_at=0.0,
                stopped_at=0.0,
                faulty_at=0.0,
            )
        self._listener.removal_called_off(machine, why)

    # -- the delete, and what follows -----------------------------------------------------------

    async def delete(self, policy: Policy, intent: str) -> None:
        pause = asks_after = POLL
        while (machine := self._in(intent, Phase.DELETING)) is not None and not machine.gone_at:
            self._check()
            if not machine.instance_id:
                raise NotYet(f"the instance of {machine.name} is not known; the inventory will tell")
            instance, account = await self._looked_up(machine)
            if (machine := self._in(intent, Phase.DELETING)) is None or machine.gone_at:
                continue
            if instance is None:
                self._lead()
                self._ledger.change(intent, gone_at=self._clock(), gone_in=machine.gone_in or account)
                await self._ledger.flush()
                self._wake()  # its Node may go from now on
            elif instance.state == "leaving":
                vanishes = machine.reason is Reason.VANISHED and not machine.delete_at
                await self._sleep(min(asks_after, _MOST_VANISHING_POLL) if vanishes else asks_after)
                asks_after = _longer(asks_after)
            elif machine.reason is Reason.VANISHED and not machine.delete_at:
                await self._back(intent)
                return
            elif machine.delete_at and 0 <= self._clock() - machine.delete_at < _REPEAT:
                await self._sleep(asks_after)
                asks_after = _longer(asks_after)
            else:
                try:
                    why = await self._ask(policy, machine, instance)
                except CalledOff as stop:
                    await self._keep(intent, stop.why)
                    return
                if why:
                    log.info("delete is tried again", extra={"machine": machine.name, "why": why})
                    await self._sleep(pause)
                    pause = min(_MOST_POLL, pause * 2)
        if machine is not None:
            self._kept.pop(machine.name, None)
            await self._closing.close(policy.cluster_id, intent)

    async def _looked_up(self, machine: Machine) -> tuple[Instance | None, str]:
        """From its end on its place in the limits is free, so one answer (a proxy's 404) is not enough, nor two at once; of one
        that vanished the lists, or answers by its id, have told before."""
        instance, account = await look_up(self._ledger, self._removal, machine.instance_id)
        vanished = machine.reason is Reason.VANISHED
        if instance is None and not (vanished and machine.delete_at):
            await self._sleep(POLL)
            if not vanished:
                instance, account = await look_up(self._ledger, self._removal, machine.instance_id)
        return instance, account

    def has_a_ghost(self, machine: Machine) -> bool:
        """It is gone, and its Node keeps its pods from being planned again."""
        known = machine.gone_at > 0 and machine.instance_id != ""
        return known and self._removal.leaves_a_silent_node(machine)

    async def free_node(self, intent: str) -> None:
        await self._closing.free_node(intent)

    async def _back(self, intent: str) -> None:
        before = self._ledger.machines[intent]
        after = followed_again(before, self._clock())
        self._ledger.put(after)
        await self._ledger.flush()
        log.warning("believed to have vanished, and is there", extra={"machine": after.name})
        self._listener.phase_changed(before, after)

    async def _ask(self, policy: Policy, machine: Machine, instance: Instance) -> str:
        """Ask the cloud to delete it; "" when it accepted, else why not (yet)."""
        if not carries_marks(policy.cluster_id, machine, instance):
            raise NotYet(f"instance {instance.id} does not carry the marks of {machine.name}", _MOST_POLL)
        await self._removal.last_look(policy, machine)
        (self._check if machine.failed else self._wanted_gone(policy, machine))()
        outcome = await self._removal.delete(instance, machine.disks)
        if _is_done(outcome):
            self._ledger.change(machine.intent, delete_at=self._clock())
            await self._ledger.flush()
            return ""
        return getattr(outcome, "message", "") or "the cloud did not accept it"

    async def delete_extra(self, policy: Policy, intent: str, extra: Instance, price: Decimal) -> None:
        """A second instance of one intent: nobody needs it, and it may share its Node's name with the first."""
        machine = self._ledger.machines.get(intent)
        if machine is None or not machine.instance_id or machine.instance_id == extra.id:
            return
        if await self._removal.look_up(machine.instance_id) is None:
            return  # it may become the only one
        instance = await self._removal.look_up(extra.id)
        if instance is None or instance.state == "leaving":
            return
        if intent_of(policy.cluster_id, instance) != intent:
            return
        try:
            await self._removal.last_look(policy, machine, drained=False)
        except CalledOff as stop:
            raise NotYet(f"second instance {extra.id} of {machine.name} stays: {stop.why.message}") from stop
        self._check()
        outcome = await self._removal.delete(instance, ())
        if not _is_done(outcome):
            raise NotYet(f"second instance {extra.id} of {machine.name} is not deleted", POLL)
        now = self._clock()
        self._ledger.book(price, instance.created_at, now)
        log.warning("surplus instance deleted", extra={"machine": machine.name, "instance": extra.id})
        await self._ledger.flush()
        await self._sleep(_MOST_POLL)  # lists lag behind


def _stays(machine: Machine, why: Explanation) -> NotYet:
    return NotYet(f"{machine.name} failed and cannot go yet: {why.message}", _MOST_POLL)


def _longer(pause: float) -> float:
    """A machine that leaves costs nothing any more, and a minute of its leaving need not be twenty questions."""
    return min(_MOST_LEAVING_POLL, pause * 1.25)


def _is_done(outcome: Outcome) -> bool:
    return isinstance(outcome, Happened) or (
        isinstance(outcome, Refused) and outcome.reason is Reason.ALREADY_GONE
    )
