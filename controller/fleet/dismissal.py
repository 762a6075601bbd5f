"""Deleting a machine for a driver that has drained it already, and that waits for the answer.

It may hang up while the cloud still thinks, ask twice, or ask for what was never ordered; so the work is a
task of its own that everybody who asks waits for. The last look at the pods is taken here too: whoever
drained may have left work behind. What follows once the cloud has accepted is done as for every machine.
Whoever hears of no acceptance lets pods in again, and the machine may go all the same: until that is known it
takes none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from controller.cloud.protocol import CloudError
from controller.cluster.protocol import ClusterError
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Happened, Refused, Unknown
from controller.domain.plan import Explanation
from controller.domain.policy import Policy
from controller.domain.reason import SENTENCES, Reason
from controller.fleet.account import Account
from controller.fleet.ledger import Ledger, LedgerError
from controller.fleet.listener import Listener
from controller.fleet.marks import carries_marks
from controller.fleet.removal import CalledOff, Removal

log = logging.getLogger("gpu_autoscaler.fleet")

_OVER = (Phase.DELETING, Phase.TOMBSTONE)


class Dismissal:
    def __init__(
        self,
        *,
        ledger: Ledger,
        removal: Removal,
        listener: Listener,
        clock: Callable[[], float],
        may_act: Callable[[], bool],
        account: Account,
        withdraw: Callable[[str], bool],
        wake: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._removal = removal
        self._listener = listener
        self._clock = clock
        self._may_act = may_act
        self._account = account
        self._withdraw = withdraw
        self._wake = wake
        self._tasks: dict[str, asyncio.Task[Explanation | None]] = {}
        self._doubts: dict[str, float] = {}  # intents: since when nobody can say whether it goes

    async def dismiss(self, policy: Policy, intent: str) -> Explanation | None:
        """None once the cloud has accepted it, or there is nothing to delete; else why the machine stays."""
        task = self._tasks.get(intent)
        if task is None:
            task = asyncio.get_running_loop().create_task(
                self._guarded(policy, intent), name=f"away {intent}"
            )
            self._tasks[intent] = task
            task.add_done_callback(lambda _: self._tasks.pop(intent, None))
        return await asyncio.shield(task)

    async def given_up(self, intent: str) -> None:
        """Nobody waits for the answer any more, and it may come to pass."""
        machine = self._ledger.machines.get(intent)
        if machine is not None and machine.phase not in _OVER and intent in self._tasks:
            await self._doubt(machine)

    def in_doubt(self, intent: str, lasting: float) -> bool:
        """Whether an end may yet come of what was asked: while it is under way, and so long after that."""
        since = self._doubts.get(intent)
        if since is None or (intent not in self._tasks and not 0 <= self._clock() - since < lasting):
            self._doubts.pop(intent, None)
            return False
        return True

    async def _doubt(self, machine: Machine) -> None:
        self._doubts[machine.intent] = self._clock()
        try:
            await self._removal.close(machine)
        except ClusterError as error:  # the main loop does it, too
            log.warning("pods may come yet", extra={"machine": machine.name, "error": error.message})

    async def stop(self, patience: float) -> None:
        tasks = [task for task in self._tasks.values() if not task.done()]
        if tasks and patience > 0:
            await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _guarded(self, policy: Policy, intent: str) -> Explanation | None:
        try:
            return await self._dismiss(policy, intent)
        except CalledOff as stop:
            return stop.why
        except CloudError as error:
            return Explanation(error.reason, error.message)
        except (ClusterError, LedgerError) as error:
            return Explanation(Reason.UNAVAILABLE, str(error))
        finally:
            self._wake()

    def _objection(self) -> Explanation | None:
        if not self._may_act():
            return Explanation(Reason.NOT_LEADER, SENTENCES[Reason.NOT_LEADER])
        return Explanation(Reason.VANISHED, self._account.doubt) if self._account.strange else None

    async def _dismiss(self, policy: Policy, intent: str) -> Explanation | None:
        machine = self._ledger.machines.get(intent)
        if machine is None or machine.phase in _OVER:
            return None  # it is gone, or on its way out and followed until it is
        if (objection := self._objection()) is not None:
            return objection
        if machine.phase is Phase.INTENDED:
            return await self._not_ordered(machine)
        instance = await self._removal.look_up(machine.instance_id) if machine.instance_id else None
        if instance is None or instance.state == "leaving":
            await self._leaves(intent)
            return None
        if not carries_marks(policy.cluster_id, machine, instance):
            words = f"instance {instance.id} does not carry the marks of {machine.name}"
            return Explanation(Reason.IDENTITY_CLASH, words)
        await self._removal.look_at_work(policy, machine)
        if (objection := self._objection()) is not None:
            return objection
        machine = self._ledger.machines.get(intent, machine)
        outcome = await self._removal.delete(instance, machine.disks)
        match outcome:
            case Refused(reason=Reason.NOT_ALLOWED_YET) if not machine.joined_at:
                await self._leaves(
                    intent, asked=False
                )  # nothing runs there, and it is asked for until it goes
            case Refused() if outcome.reason is not Reason.ALREADY_GONE:
                self._doubts.pop(intent, None)
                return Explanation(outcome.reason, outcome.message)
            case Unknown():
                await self._doubt(machine)
                return Explanation(Reason.UNAVAILABLE, outcome.message)
            case Happened() | Refused():
                await self._leaves(intent)
        return None

    async def _not_ordered(self, machine: Machine) -> Explanation | None:
        """No call of the cloud for what it does not know; an order that may be there is deleted when it shows."""
        if self._withdraw(machine.intent):
            self._ledger.drop([machine.intent])
            await self._store()
            return None
        await self._leaves(machine.intent, asked=False)
        return None

    async def _leaves(self, intent: str, *, asked: bool = True) -> None:
        before = self._ledger.machines.get(intent)
        if before is None or before.phase in _OVER:
            return
        self._doubts.pop(intent, None)
        after = self._ledger.change(
            intent,
            phase=Phase.DELETING,
            reason=before.reason if before.failed else Reason.DISMISSED,
            note=before.note if before.failed else SENTENCES[Reason.DISMISSED],
            delete_at=self._clock() if asked else 0.0,
        )
        await self._store()
        if after is not None:
            self._listener.phase_changed(before, after)

    async def _store(self) -> None:
        """It is done, whether it can be written down now or only later: the cloud shows it too."""
        try:
            await self._ledger.flush()
        except LedgerError as error:
            log.warning("a removal is not written down yet", extra={"error": str(error)})


__all__ = ["Dismissal"]
