"""Carrying out one intent, and recording how it ended: it happened, it did not, or nobody knows.

An intent may wait for its turn, and until its order goes out it can be withdrawn. A refusal is certain, so
the same intent may be ordered in another market then; whoever is told of it decides that (`another`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from controller.domain.cloudthings import InstanceType
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Happened, Refused, Unknown
from controller.domain.policy import Policy
from controller.domain.reason import SENTENCES, Reason
from controller.fleet.launch import Launched, Launcher
from controller.fleet.ledger import Ledger, LedgerError
from controller.fleet.life import ordered
from controller.fleet.listener import Listener
from controller.fleet.marks import offer_of
from controller.fleet.refusals import Refusals
from controller.fleet.removal import Removal
from controller.fleet.scripts import ScriptRoom
from controller.fleet.tasks import Tasks

Again = tuple[Machine, InstanceType]
# Waits, and ends early once what it is given says so; or tells why it is not ordered after all.
Turn = Callable[[Callable[[], bool]], Awaitable[Refused | None]]

_OURS = (Reason.NOT_LEADER, Reason.VANISHED, Reason.WITHDRAWN)  # what we refused ourselves
_WITHDRAWN = Refused(Reason.WITHDRAWN, SENTENCES[Reason.WITHDRAWN])
_ANYWHERE = (*_OURS, Reason.LIMIT_SCRIPTS)  # what another market would not help against


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
        self._under_way: dict[str, str] = {}  # intent -> the key of its task
        self._sent: set[str] = set()  # orders that went out, or are about to in this very step
        self._withdrawn: set[str] = set()
        self.another: Callable[[Machine, Refused], Again | None] = lambda machine, refusal: None

    def under_way(self, intent: str) -> bool:
        return self._tasks.running(self._under_way.get(intent, ""))

    def withdraw(self, intent: str) -> bool:
        """Whether the order was not sent yet, and never will be."""
        if not self.under_way(intent) or intent in self._sent:
            return False
        self._withdrawn.add(intent)
        return True

    def begin(self, policy: Policy, machine: Machine, kind: InstanceType, turn: Turn | None = None) -> None:
        key = f"launch {machine.name}"
        if self._tasks.start(key, lambda: self._launch(policy, machine, kind, turn)):
            self._under_way[machine.intent] = key

    async def _launch(
        self, policy: Policy, machine: Machine, kind: InstanceType, turn: Turn | None = None
    ) -> None:
        again: Again | None = (machine, kind)
        try:
            if turn is not None:
                again = await self._waited(machine, kind, turn)
            while again is not None:
                again = await self._try(policy, *again)
        finally:
            self._under_way.pop(machine.intent, None)
            for known in (self._sent, self._withdrawn):
                known.discard(machine.intent)
        await self._ledger.flush()

    async def _waited(self, machine: Machine, kind: InstanceType, turn: Turn) -> Again | None:
        """What is to be ordered now; None: nothing is any more, and that says nothing of the offer."""
        refusal = await turn(lambda: machine.intent in self._withdrawn)
        current = self._ledger.machines.get(machine.intent, machine)
        if refusal is None and machine.intent in self._withdrawn:
            refusal = _WITHDRAWN  # before a script is uploaded for it
        if refusal is None:
            return current, kind
        self._given_up(current, refusal)
        return None

    async def _try(self, policy: Policy, machine: Machine, kind: InstanceType) -> Again | None:
        self._sent.discard(machine.intent)
        try:
            await self._ledger.flush()  # the intent is stored before anything is bought
        except LedgerError:
            self._ledger.drop([machine.intent])
            raise
        launched = await self._launcher.launch(
            policy, machine, kind, self._scripts.uploaded, lambda: self._last_word(machine.intent)
        )
        return self._record(machine, launched)

    def _last_word(self, intent: str) -> Refused | None:
        if intent in self._withdrawn or intent not in self._ledger.machines:  # nobody would know of it
            return _WITHDRAWN
        self._sent.add(intent)
        return None

    def _record(self, machine: Machine, launched: Launched) -> Again | None:
        now = self._clock()
        current = replace(self._ledger.machines.get(machine.intent, machine), script_id=launched.script_id)
        match launched.outcome:
            case Happened(id=instance_id):
                self._ledger.put(_bought(current, instance_id, now))
                self._refusals.accepted(offer_of(machine))
                self._listener.launched(current)
            case Refused() as refusal:
                return self._refused(machine, current, refusal, now)
            case Unknown(message=message):
                if current.phase is Phase.INTENDED:
                    current = replace(current, reason=Reason.UNKNOWN_OUTCOME, note=message)
                self._ledger.put(current)
                self._listener.unknown(current, message)
        return None

    def _refused(self, machine: Machine, current: Machine, refusal: Refused, now: float) -> Again | None:
        if refusal.reason is Reason.LIMIT_SCRIPTS:
            self._scripts.refused()  # says nothing of the offer
        elif refusal.reason not in _OURS:
            self._refusals.add(offer_of(machine), refusal.reason, refusal.message, now, refusal.retry_after)
        if current.script_id:
            self.drop_script(current)
        held = machine.intent in self._ledger.machines
        wanted = held and current.phase is Phase.INTENDED and refusal.reason not in _ANYWHERE
        again = self.another(replace(current, script_id=""), refusal) if wanted else None
        if again is not None and machine.intent not in self._withdrawn:
            self._ledger.put(again[0])
            return again
        self._given_up(current, refusal)
        return None

    def _given_up(self, machine: Machine, refusal: Refused) -> None:
        self._ledger.drop([machine.intent])
        if refusal.reason is not Reason.WITHDRAWN and machine.intent not in self._withdrawn:
            self._listener.refused(machine, refusal)

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
