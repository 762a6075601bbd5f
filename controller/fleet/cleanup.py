"""Removing what a survey found, and proving it: a thing is gone when the cloud no longer shows it anywhere.

Works in rounds like any reconciler: look at the account, ask for whatever is still there and was not
asked for lately, look again. So a refusal while provisioning, a lost answer and a list that lags are
all the same: another round. What is refused is asked for ever more seldom, and holds nothing else up; only
missing rights are final. Ownership is read again right before each delete.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from decimal import Decimal

import msgspec

from controller.cloud.protocol import Cloud, CloudError
from controller.domain.cloudthings import Instance
from controller.domain.outcome import Happened, Outcome, Refused
from controller.domain.reason import Reason
from controller.fleet import ownership
from controller.fleet.orphans import DISK, MACHINE, SCRIPT, TRASH, Account, Found, doubtful

_REPEAT = 60.0  # an accepted delete without effect for so long is sent again
_FIRST_PAUSE, _MOST_PAUSE = 2.0, 60.0  # after a refusal
_ROUND, _MOST_ROUND = 2.0, 10.0
_LISTS = 2  # one list without a disk or a script proves nothing

LastLook = Callable[[str], Awaitable[str]]  # by hostname: why the machine must stay, or ""


async def read(cloud: Cloud) -> Account:
    """The whole account. Raises CloudError when any part of it cannot be read, or is cut short."""
    inventory = await cloud.inventory()
    if not inventory.complete:
        raise CloudError(Reason.UNAVAILABLE, "the cloud's list of machines is not complete; try again")
    cloud.trust(inventory.account)  # with credentials of another project everything would be gone
    disks = await cloud.volumes()
    account = Account(inventory=inventory, volumes=disks.listed, scripts=await cloud.scripts(""))
    asked = {machine: await cloud.instance(machine) for machine in doubtful(account)}
    # A list may be empty once; what the cloud knows by its id is there.
    there = tuple(one for one in asked.values() if one is not None and one.state != "gone")
    inventory = msgspec.structs.replace(inventory, instances=(*inventory.instances, *there))
    return msgspec.structs.replace(account, inventory=inventory, asked=asked)


class Result(msgspec.Struct, frozen=True):
    found: Found
    gone: bool
    message: str = ""  # why it is not gone


class _Task:
    def __init__(self, found: Found) -> None:
        self.found = found
        self.disks: tuple[str, ...] = ()  # that were named when the delete was sent
        self.asked_at: float | None = None  # when a delete was accepted last
        self.refused_at: float | None = None  # or refused
        self.pause = 0.0  # after the refusal
        self.gone = False
        self.missing = 0  # lists in a row without it
        self.message = ""
        self.given_up = False

    def refused(self, now: float, least: float) -> None:
        self.refused_at = now
        self.pause = max(least, min(_MOST_PAUSE, self.pause * 2 or _FIRST_PAUSE))

    def pausing(self, now: float) -> bool:
        accepted = self.asked_at is not None and now - self.asked_at < _REPEAT
        return accepted or (self.refused_at is not None and now - self.refused_at < self.pause)


class Cleanup:
    def __init__(
        self,
        cloud: Cloud,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        last_look: LastLook,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._cloud = cloud
        self._clock = clock
        self._sleep = sleep
        self._last_look = last_look
        self._tell = tell

    async def remove(self, found: Iterable[Found], patience: float) -> list[Result]:
        """Everything that `removes`, until it is proven to be gone or the patience (seconds) is over."""
        tasks = [_Task(each) for each in found if each.removes]
        end, pause = self._clock() + patience, _ROUND
        while tasks:
            try:
                await self._round(tasks)
            except CloudError as error:
                for task in tasks:
                    task.message = task.message or error.message
                pause = max(pause, min(error.retry_after or 0.0, 60.0))
            waiting = [task for task in tasks if not task.gone and not task.given_up]
            if not waiting or self._clock() + pause > end:
                break
            await self._sleep(pause)
            pause = min(_MOST_ROUND, pause * 1.5)
        return [Result(task.found, task.gone, "" if task.gone else task.message) for task in tasks]

    async def _round(self, tasks: list[_Task]) -> None:
        for task in tuple(tasks):
            if self._stays_with(task, tasks):
                task.given_up, task.message = True, "left alone: its machine stays"
            if not task.gone and not task.given_up and not task.missing and self._is_due(task, tasks):
                await self._ask(task)
            known = {other.found.id for other in tasks}
            tasks += [_Task(_disk_of(task.found, disk)) for disk in task.disks if disk not in known]
        there = await self._there()
        for task in tasks:
            if not task.gone and await self._is_gone(task, there):
                task.gone, task.given_up = True, False
                self._tell(f"gone: {task.found.kind} {task.found.name} ({task.found.id})")

    @staticmethod
    def _stays_with(task: _Task, tasks: Collection[_Task]) -> bool:
        machine = task.found.machine
        return bool(machine) and any(o.given_up and not o.gone for o in tasks if o.found.id == machine)

    def _is_due(self, task: _Task, tasks: Collection[_Task]) -> bool:
        if task.pausing(self._clock()):
            return False
        machine = task.found.machine
        # A disk goes with its machine; by itself only if it is still there when the machine is gone.
        return not machine or any(other.gone for other in tasks if other.found.id == machine)

    async def _ask(self, task: _Task) -> None:
        found = task.found
        try:
            outcome = await (self._delete_machine(task) if found.kind == MACHINE else self._delete(task))
        except CloudError as error:
            task.message = error.message
            task.refused(self._clock(), min(_MOST_PAUSE, error.retry_after or 0.0))
            return
        if outcome is None:
            return
        if isinstance(outcome, Happened):
            task.asked_at, task.message = self._clock(), "the cloud accepted the delete; it is still shown"
            self._tell(f"deleting: {found.kind} {found.name} ({found.id})")
            return
        task.message = outcome.message
        refusal = outcome if isinstance(outcome, Refused) else None
        if refusal is not None and refusal.reason is Reason.ALREADY_GONE:
            task.asked_at = self._clock()
            return
        task.given_up = refusal is not None and refusal.reason is Reason.UNAUTHORISED
        task.refused(self._clock(), min(_MOST_PAUSE, (refusal.retry_after if refusal else None) or 0.0))

    async def _delete(self, task: _Task) -> Outcome | None:
        found = task.found
        if found.may_be_in_use and (busy := await self._last_look(found.name)):
            self._leave(task, busy)
            return None
        if found.kind == SCRIPT:
            return await self._cloud.delete_script(found.id)
        return await self._cloud.delete_volume(found.id)

    async def _delete_machine(self, task: _Task) -> Outcome | None:
        found = task.found
        instance = await self._cloud.instance(found.id)
        if instance is None or instance.state in ("gone", "leaving"):
            return None
        if not _still_ours(instance, found):
            self._leave(task, "its marks have changed since it was listed")
            return None
        busy = await self._last_look(found.name)
        if busy:
            self._leave(task, busy)
            return None
        attached = {*instance.disks, *instance.volume_ids}
        # A machine that was only just ordered had no disk yet when it was listed.
        task.disks = tuple(d for d in dict.fromkeys((*found.disks, *instance.disks)) if d in attached)
        return await self._cloud.delete(found.id, task.disks)

    def _leave(self, task: _Task, why: str) -> None:
        task.given_up, task.message = True, f"left alone: {why}"

    async def _there(self) -> dict[str, frozenset[str]]:
        inventory = await self._cloud.inventory()
        if not inventory.complete:
            raise CloudError(Reason.UNAVAILABLE, "the cloud's list of machines is not complete")
        volumes = frozenset(volume.id for volume in (await self._cloud.volumes()).listed)
        return {
            MACHINE: frozenset(one.id for one in inventory.instances if one.state != "gone"),
            DISK: volumes,
            TRASH: volumes,
            SCRIPT: frozenset(script.id for script in await self._cloud.scripts("")),
        }

    async def _is_gone(self, task: _Task, there: dict[str, frozenset[str]]) -> bool:
        found = task.found
        task.missing = 0 if found.id in there[found.kind] else task.missing + 1
        if found.kind != MACHINE or not task.missing:
            return task.missing >= _LISTS
        instance = await self._cloud.instance(found.id)  # a list may lack a machine that lives
        return instance is None or instance.state == "gone"


def _disk_of(machine: Found, disk: str) -> Found:
    return msgspec.structs.replace(
        machine,
        kind=DISK,
        id=disk,
        marks=(f"system disk of machine {machine.id}",),
        price_per_hour=Decimal(0),
        cost_so_far=Decimal(0),
        machine=machine.id,
        disks=(),
        why="deleted with its machine",
    )


def _still_ours(instance: Instance, found: Found) -> bool:
    claim = ownership.of_instance(instance, (found.cluster_id,))
    return (
        claim is not None
        and claim.proven
        and (claim.cluster_id, claim.intent)
        == (
            found.cluster_id,
            found.intent,
        )
    )
