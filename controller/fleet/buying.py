"""Carrying out one intent, and recording how it ended: it happened, it did not, or nobody knows."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from controller.domain.cloudthings import InstanceType
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Happened, Refused, Unknown
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.fleet.launch import Launched, Launcher
from controller.fleet.ledger import Ledger, LedgerError
from controller.fleet.life import ordered
from controller.fleet.listener import Listener
from controller.fleet.marks import offer_of
from controller.fleet.refusals import Refusals
from controller.fleet.removal import Removal
from controller.fleet.scripts import ScriptRoom
from controller.fleet.tasks import Tasks


class Buying:
    def __init__(
        self,
        *,
        ledger: Ledger,
        launcher: Launcher,
        removal: Removal,
        refusals: Refusals,
        scripts: ScriptRoom,
        listener: Listener,
        tasks: Tasks,
        clock: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._launcher = launcher
        self._removal = removal
        self._refusals = refusals
        self._scripts = scripts
        self._listener = listener
        self._tasks = tasks
        self._clock = clock
        self._under_way: set[str] = set()

    def under_way(self, intent: str) -> bool:
        return intent in self._under_way

    def begin(self, policy: Policy, machine: Machine, kind: InstanceType) -> None:
        self._under_way.add(machine.intent)
        if not self._tasks.start(f"launch {machine.name}", lambda: self._launch(policy, machine, kind)):
            self._under_way.discard(machine.intent)

    async def _launch(self, policy: Policy, machine: Machine, kind: InstanceType) -> None:
        try:
            try:
                await self._ledger.flush()  # the intent is stored before anything is bought
            except LedgerError:
                self._ledger.drop([machine.intent])
                raise
            launched = await self._launcher.launch(policy, machine, kind, self._scripts.uploaded)
            self._record(machine, launched)
        finally:
            self._under_way.discard(machine.intent)
        await self._ledger.flush()

    def _record(self, machine: Machine, launched: Launched) -> None:
        now = self._clock()
        current = replace(self._ledger.machines.get(machine.intent, machine), script_id=launched.script_id)
        match launched.outcome:
            case Happened(id=instance_id):
                self._ledger.put(_bought(current, instance_id, now))
                self._refusals.accepted(offer_of(machine))
                self._listener.launched(current)
            case Refused() as refusal:
                self._ledger.drop([machine.intent])
                if refusal.reason is Reason.LIMIT_SCRIPTS:
                    self._scripts.refused()  # says nothing of the offer
                elif refusal.reason not in (Reason.NOT_LEADER, Reason.VANISHED):  # what we refused ourselves
                    self._refusals.add(
                        offer_of(machine), refusal.reason, refusal.message, now, refusal.retry_after
                    )
                if launched.script_id:
                    self.drop_script(current)
                self._listener.refused(machine, refusal)
            case Unknown(message=message):
                if current.phase is Phase.INTENDED:
                    current = replace(current, reason=Reason.UNKNOWN_OUTCOME, note=message)
                self._ledger.put(current)
                self._listener.unknown(current, message)

    def drop_script(self, machine: Machine) -> None:
        """Once it has run, or was never needed. One that is left by accident is found by the sweep."""
        self._tasks.start(
            f"script {machine.name}", lambda: self._drop_script(machine.intent, machine.script_id)
        )

    async def _drop_script(self, intent: str, script_id: str) -> None:
        await self._removal.delete_script(script_id)
        self._scripts.removed(script_id)
        current = self._ledger.machines.get(intent)
        if current is not None and current.script_id == script_id:
            self._ledger.change(intent, script_id="")
            await self._ledger.flush()


def _bought(current: Machine, instance_id: str, now: float) -> Machine:
    """The record after the order was accepted; the inventory may have told it before the answer did."""
    if current.phase is Phase.INTENDED:
        return ordered(current, instance_id, now)
    if current.phase is Phase.TOMBSTONE:
        return replace(ordered(current, instance_id, now), surplus=True, reason=Reason.SURPLUS, gone_at=0.0)
    return replace(current, instance_id=current.instance_id or instance_id)
