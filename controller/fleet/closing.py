"""What follows when an instance is gone: its Node, disks, script and ledger entry.

The Node of one that is silent goes apart from the rest, since its pods are not planned again as long as it stands: what
permits that is the proof of the machine's end, two answers by its id, and no list of disks is waited for.

An attached disk whose machine's Node is Ready is in use, whatever is said of the machine: it stays until one of the
two says otherwise. One list that lacks a disk proves nothing where nobody asked for its end: it may be empty once.

A machine is gone where it was. To another account its disks are unknown, which looks as if they were gone; so
that there is none counts only in the account that proved the machine's end, or in one that has shown one of
them: ids are unique, so it is the same account by another client. Where that account does not answer any more,
the entry goes after a long time, and what nobody saw go is told.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from controller.domain.cloudthings import Instance, Volumes
from controller.domain.machine import Machine
from controller.fleet.account import BELIEVED_AFTER
from controller.fleet.ledger import Ledger
from controller.fleet.listener import Listener
from controller.fleet.removal import LOOSE, Removal
from controller.fleet.tasks import NotYet

log = logging.getLogger("gpu_autoscaler.fleet")

POLL = 3.0
_LISTS = 2
_MOST_POLL = 30.0


async def look_up(ledger: Ledger, removal: Removal, instance_id: str) -> tuple[Instance | None, str]:
    """The instance by its id, and the account that was asked. Raises NotYet when nobody can say which one was."""
    account = ledger.account
    instance = await removal.look_up(instance_id)
    if instance is None and ledger.account != account:
        raise NotYet("the account changed on the way", POLL)
    return instance, account


class Closing:
    def __init__(
        self,
        *,
        ledger: Ledger,
        removal: Removal,
        listener: Listener,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        check: Callable[[], None],
        closed: Callable[[Machine], None],
    ) -> None:
        self._ledger = ledger
        self._removal = removal
        self._listener = listener
        self._clock = clock
        self._sleep = sleep
        self._check = check
        self._closed = closed
        self._elsewhere: dict[str, float] = {}  # by intent: since when another account answers
        self._forgotten: dict[str, str] = {}  # by machine: disks that nobody saw go
        self._refused: dict[str, str] = {}  # by machine: a disk of it that may not be deleted

    @property
    def unproven(self) -> dict[str, str]:
        """By machine: what another account may have, or the cloud does not give up, as far as this process knows."""
        waiting = [m for m in self._ledger.machines.values() if m.intent in self._elsewhere]
        return {m.name: _words(m) for m in waiting} | self._refused | self._forgotten

    async def free_node(self, intent: str) -> None:
        """Delete the Node of one that is gone, which is not Ready: the second answer is asked for here, and the first was
        what made it gone. One that is Ready again is left for `close` to judge.
        """
        machine = self._ledger.machines.get(intent)
        if machine is None or not machine.gone_at:
            return
        asked = await self._look_again(machine)
        if asked is None:
            return  # only lists can tell, and those of its disks, too
        if machine.gone_in not in ("", asked):
            raise NotYet(_words(machine), _MOST_POLL)
        await self._removal.delete_silent_node(machine, lambda: self._still_gone(intent))

    async def close(self, cluster_id: str, intent: str) -> None:
        pause, asked, missing = POLL, None, 0
        while (machine := self._ledger.machines.get(intent)) is not None:
            if not missing:
                asked = await self._look_again(machine)
            disks = await self._removal.disks_left(cluster_id, machine)
            if asked not in (None, disks.account):
                raise NotYet("the account changed on the way", POLL)
            proven = self._counts(machine, disks)
            if missing and disks.listed:  # what hid its disks may have hidden the machine, too
                asked = await self._look_again(machine)
                if asked not in (None, disks.account):
                    raise NotYet("the account changed on the way", POLL)
            missing = missing + 1 if not disks.listed else 0
            pause = POLL if missing == 1 else pause  # only to be seen once more
            if missing and (missing >= _LISTS or machine.delete_at or not machine.disks):
                break
            if any(volume.status not in LOOSE for volume in disks.listed) and not machine.delete_at:
                await self._removal.look_at_node(machine)
            refused = ""
            for volume in disks.listed:
                self._still_gone(intent)
                if why := await self._removal.delete_disk(volume):
                    refused = f"{machine.name} is gone, and its disk {volume.id} is not deleted: {why}"
            if refused:
                self._refused[machine.name] = refused
            await self._sleep(pause)
            pause = min(_MOST_POLL, pause * 1.5)
        if machine is None:
            return
        self._refused.pop(machine.name, None)
        self._still_gone(intent)
        await self._removal.delete_node(machine, lambda: self._still_gone(intent))
        if machine.script_id:
            self._still_gone(intent)
            await self._removal.delete_script(machine.script_id)
        self._still_gone(intent)
        if intent not in self._ledger.machines:
            return
        cost = self._ledger.close(self._ledger.machines[intent], self._clock())
        self._elsewhere.pop(intent, None)
        if not proven:
            self._forgotten[machine.name] = why = f"{_words(machine)}; it is forgotten: look for them there"
            log.warning(why, extra={"machine": machine.name, "disks": ", ".join(machine.disks)})
        self._closed(machine)
        self._listener.removed(machine, cost)
        await self._ledger.flush()

    def _still_gone(self, intent: str) -> None:
        """A list may show it meanwhile, and then it is followed again."""
        self._check()
        machine = self._ledger.machines.get(intent)
        if machine is not None and not machine.gone_at:
            raise NotYet(f"{machine.name} was believed to be gone and is there", POLL)

    async def _look_again(self, machine: Machine) -> str | None:
        """The account that was asked once more; None where there is no id to ask for.

        One answer that did not know it (a proxy's 404) must not leave a machine that nobody deletes; and what hid
        a vanished one may be over, and its Node be Ready all the while. Nor do the disks of one that is there go, so
        as long as there are any it is asked for.
        """
        if not machine.instance_id:
            return None
        instance, account = await look_up(self._ledger, self._removal, machine.instance_id)
        if instance is None:
            return account
        self._check()
        self._ledger.change(machine.intent, gone_at=0.0)
        await self._ledger.flush()
        raise NotYet(f"{machine.name} was believed to be gone and is there", POLL)

    def _counts(self, machine: Machine, disks: Volumes) -> bool:
        """Whether it proves anything that this list lacks a disk of the machine. Raises NotYet: perhaps later."""
        if machine.gone_in not in ("", disks.account):
            if not any(volume.id in machine.disks for volume in disks.listed):
                now = self._clock()
                since = self._elsewhere.setdefault(machine.intent, now)
                if not 0 <= now - since < BELIEVED_AFTER:
                    if since <= now:
                        return False
                    self._elsewhere[machine.intent] = now  # a clock that jumped back begins anew
                raise NotYet(_words(machine), _MOST_POLL)
            self._ledger.change(machine.intent, gone_in=disks.account)
        self._elsewhere.pop(machine.intent, None)
        return True


def _words(machine: Machine) -> str:
    which = f" ({', '.join(machine.disks)})" if machine.disks else ""
    return f"{machine.name} is gone, and its disks{which} are in another account than the one that answers"
