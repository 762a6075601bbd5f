"""What is under way: one task for each machine that needs something slow done.

A task may die with the program at any point; the machine's phase in the ledger says where to go on.
Errors of the outside end one attempt, never the task's purpose: it is tried again with a back-off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec.structs import replace

from controller.cloud.protocol import Cloud, CloudError
from controller.cluster.protocol import ClusterError, Writer
from controller.domain import names
from controller.domain.cloudthings import InstanceType
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Happened, Refused, Unknown
from controller.domain.plan import Explanation
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.fleet.launch import Launcher
from controller.fleet.ledger import Ledger, LedgerError
from controller.fleet.life import ordered
from controller.fleet.refusals import Refusals
from controller.fleet.removal import SOFT, CalledOff, Removal

log = logging.getLogger("gpu_autoscaler.fleet")

_FIRST_RETRY = 2.0
_MOST_RETRY = 30.0
_GONE_POLL = 3.0
# A machine whose deletion was proven by id may still be listed for a while.
_LIST_LAG = 300.0


class Listener(Protocol):
    """Who is told what happens to machines (events, metrics, logs)."""

    def launched(self, machine: Machine) -> None: ...
    def refused(self, machine: Machine, refusal: Refused) -> None: ...
    def unknown(self, machine: Machine, message: str) -> None: ...
    def phase_changed(self, before: Machine, after: Machine) -> None: ...
    def removal_called_off(self, machine: Machine, why: Explanation) -> None: ...
    def removed(self, machine: Machine, cost: Any) -> None: ...


class Flights:
    def __init__(
        self,
        *,
        ledger: Ledger,
        launcher: Launcher,
        removal: Removal,
        refusals: Refusals,
        cloud: Cloud,
        writer: Writer,
        listener: Listener,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        wake: Callable[[], None],
        may_act: Callable[[], bool],
    ) -> None:
        self._ledger = ledger
        self._launcher = launcher
        self._removal = removal
        self._refusals = refusals
        self._cloud = cloud
        self._writer = writer
        self._listener = listener
        self._clock = clock
        self._sleep = sleep
        self._wake = wake
        self._may_act = may_act
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._launching: set[str] = set()
        self._called_off: set[str] = set()
        self._closed: dict[str, float] = {}
        self._marked: dict[str, float | None] = {}

    # -- questions ------------------------------------------------------------------------------

    def launching(self, intent: str) -> bool:
        return intent in self._launching

    def closed_lately(self, intent: str) -> bool:
        return self._clock() - self._closed.get(intent, -1e12) < _LIST_LAG

    def tell(self, before: Machine, after: Machine) -> None:
        self._listener.phase_changed(before, after)

    @property
    def idle(self) -> bool:
        return not any(not task.done() for task in self._tasks.values())

    # -- starting things ------------------------------------------------------------------------

    def launch(self, policy: Policy, machine: Machine, kind: InstanceType) -> None:
        self._launching.add(machine.intent)
        self._start(f"launch {machine.name}", self._launch(policy, machine, kind))

    def retire(self, policy: Policy, machine: Machine, reason: Reason, message: str) -> None:
        leaving = replace(machine, reason=reason, note=message)
        self._start(machine.name, self._retire(policy, leaving))

    def follow(self, policy: Policy, machine: Machine) -> None:
        """Whatever this machine's phase calls for, unless it is being done already."""
        if not self._may_act():
            return
        if machine.phase is Phase.DRAINING:
            self._start(machine.name, self._retire(policy, machine))
        elif machine.phase is Phase.DELETING:
            self._start(machine.name, self._delete(policy, machine))
        elif machine.script_id and machine.phase in (Phase.JOINED, Phase.STARTED, Phase.READY):
            self._start(f"script {machine.name}", self._drop_script(machine))

    def mark_idle(self, name: str, since: float | None) -> None:
        key = f"mark {name}"
        if name in self._marked and self._marked[name] == since and key in self._tasks:
            return
        self._marked[name] = since
        self._start(key, self._mark(name, since))

    def call_off(self, name: str) -> None:
        if name in self._tasks and not self._tasks[name].done():
            self._called_off.add(name)

    async def stop(self, patience: float) -> None:
        orders = [task for key, task in self._tasks.items() if key.startswith("launch ") and not task.done()]
        if orders:
            await asyncio.wait(orders, timeout=patience)
        rest = [task for task in self._tasks.values() if not task.done()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _start(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        running = self._tasks.get(key)
        if running is not None and not running.done():
            work.close()
            return
        task = asyncio.get_running_loop().create_task(self._guarded(key, work), name=key)
        self._tasks[key] = task
        task.add_done_callback(
            lambda done: self._tasks.pop(key, None) if self._tasks.get(key) is done else None
        )

    async def _guarded(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (CloudError, ClusterError, LedgerError) as error:
            log.warning("not finished, will be tried again", extra={"task": key, "error": str(error)})
        except Exception:
            log.exception("unexpected error", extra={"task": key})
        finally:
            self._wake()

    # -- launching ------------------------------------------------------------------------------

    async def _launch(self, policy: Policy, machine: Machine, kind: InstanceType) -> None:
        try:
            try:
                await self._ledger.flush()  # the intent is stored before anything is bought
            except LedgerError:
                self._ledger.drop([machine.intent])
                raise
            launched = await self._launcher.launch(policy, machine, kind)
            current = replace(
                self._ledger.machines.get(machine.intent, machine), script_id=launched.script_id
            )
            match launched.outcome:
                case Happened(id=instance_id):
                    after = ordered(current, instance_id, self._clock())
                    self._ledger.put(after)
                    self._refusals.succeeded(f"{machine.instance_type}/{machine.location}/{machine.market}")
                    self._listener.launched(after)
                case Refused() as refusal:
                    self._refuse(machine, refusal)
                    if launched.script_id:
                        self._start(f"script {machine.name}", self._drop_script(current))
                case Unknown(message=message):
                    self._ledger.put(replace(current, reason=Reason.UNKNOWN_OUTCOME, note=message))
                    self._listener.unknown(current, message)
        finally:
            self._launching.discard(machine.intent)
        await self._ledger.flush()

    def _refuse(self, machine: Machine, refusal: Refused) -> None:
        self._ledger.drop([machine.intent])
        if refusal.reason is not Reason.NOT_LEADER:
            offer = f"{machine.instance_type}/{machine.location}/{machine.market}"
            self._refusals.add(offer, refusal.reason, refusal.message, self._clock(), refusal.retry_after)
        self._listener.refused(machine, refusal)

    async def _drop_script(self, machine: Machine) -> None:
        outcome = await self._cloud.delete_script(machine.script_id)
        gone = isinstance(outcome, Happened) or (
            isinstance(outcome, Refused) and outcome.reason is Reason.ALREADY_GONE
        )
        current = self._ledger.machines.get(machine.intent)
        if gone and current is not None and current.script_id == machine.script_id:
            self._ledger.put(replace(current, script_id=""))
            await self._ledger.flush()
        elif not gone:
            await self._sleep(_MOST_RETRY)

    # -- removing -------------------------------------------------------------------------------

    async def _retire(self, policy: Policy, machine: Machine) -> None:
        self._called_off.discard(machine.name)
        try:
            if machine.phase is Phase.READY:
                await self._removal.soften(policy, machine)
                machine = replace(machine, phase=Phase.DRAINING, drain_at=self._clock())
                before = self._ledger.machines[machine.intent]
                self._ledger.put(machine)
                await self._ledger.flush()
                self._listener.phase_changed(before, machine)
            if await self._writer.get_node(machine.name) is not None:
                await self._removal.drain(policy, machine, lambda: machine.name not in self._called_off)
        except CalledOff as stop:
            await self._keep(machine, stop.why)
            return
        machine = replace(self._ledger.machines[machine.intent], phase=Phase.DELETING)
        self._ledger.put(machine)
        await self._ledger.flush()
        await self._delete(policy, machine)

    async def _keep(self, machine: Machine, why: Explanation) -> None:
        await self._removal.restore(machine)
        current = self._ledger.machines.get(machine.intent)
        if current is not None and current.phase in (Phase.DRAINING, Phase.DELETING, Phase.READY):
            self._ledger.put(
                replace(current, phase=Phase.READY, reason=None, note="", drain_at=0.0, gpus_lost_at=0.0)
            )
            await self._ledger.flush()
        self._marked.pop(machine.name, None)
        self._listener.removal_called_off(machine, why)

    async def _delete(self, policy: Policy, machine: Machine) -> None:
        delay = _FIRST_RETRY
        while not machine.delete_at and machine.reason is not Reason.VANISHED:
            if not self._may_act():
                return
            try:
                await self._removal.last_look(policy, machine)
            except CalledOff as stop:
                await self._keep(machine, stop.why)
                return
            why = await self._removal.delete(policy.cluster_id, machine)
            if why is None:
                machine = replace(self._ledger.machines[machine.intent], delete_at=self._clock())
                self._ledger.put(machine)
                await self._ledger.flush()
                break
            log.info("delete is tried again", extra={"machine": machine.name, "why": why.message})
            await self._sleep(delay)
            delay = min(_MOST_RETRY, delay * 2)
            machine = self._ledger.machines.get(machine.intent, machine)
        while not (still := await self._removal.still_there(machine)).nothing:
            if still.instance and not machine.delete_at:
                # It was believed to have vanished and is there after all: it has to be deleted.
                machine = replace(machine, reason=Reason.SURPLUS)
                self._ledger.put(machine)
                return
            await self._sleep(_GONE_POLL)
        if not machine.gone_at:
            machine = replace(self._ledger.machines[machine.intent], gone_at=self._clock())
            self._ledger.put(machine)
            await self._ledger.flush()
        await self._removal.clean_up(machine)
        self._closed[machine.intent] = self._clock()
        cost = self._ledger.close(machine, self._clock())
        await self._ledger.flush()
        self._listener.removed(machine, cost)

    async def _mark(self, name: str, since: float | None) -> None:
        text = (
            None if since is None else datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds")
        )
        await self._writer.annotate(name, {names.NODE_IDLE_SINCE: text})
        if since is None:
            await self._writer.taint(name, remove=(SOFT,))
