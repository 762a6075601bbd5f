"""The verbs of a driver that decides itself when a machine is switched: on, off, never mind.

What spares the hardware and its people holds for it, too: shortest times on and off, switches a day, pauses, machines
that somebody switched by hand. A wish is stored before anybody hears that it is granted, and is followed from the
record then, as every other is. Whoever asks may hang up: a wish to switch on that is not stored by then never was one,
and one to switch off goes on.
"""

from __future__ import annotations

import asyncio
import logging

from msgspec.structs import replace

from controller.cluster.protocol import ClusterError
from controller.domain.kube import Node
from controller.domain.plan import Explanation
from controller.domain.reason import SENTENCES, Reason
from controller.domain.switching import Power, Switch, Switched
from controller.fleet.ledger import LedgerError
from controller.fleet.removal import CalledOff
from controller.fleet.switching.board import Switchboard
from controller.fleet.switching.ends import withdrawn
from controller.fleet.switching.waits import hindrance, paused, stays
from controller.fleet.tasks import Grounded

log = logging.getLogger("gpu_autoscaler.fleet")


class Lever:
    def __init__(self, board: Switchboard) -> None:
        self.board = board
        self._by = board.turning.means
        self._leaving: dict[str, asyncio.Task[Explanation | None]] = {}

    def _node(self, name: str) -> Node | None:
        return self.board.node(name)

    # -- on -------------------------------------------------------------------------------------

    async def on(self, name: str) -> Explanation | None:
        """None once the wish is stored; the call follows. Check and record are one step without a wait."""
        board, ledger = self.board, self._by.ledger
        switch, before = board.switch(name), ledger.switched.get(name)
        if switch is None or before is None:
            return Explanation(Reason.UNAVAILABLE, f"{name} was not looked at yet")
        if (why := self._not_on(switch, before)) is not None:
            return why
        after = board.wish(before, ())
        try:
            await ledger.flush()
        except LedgerError as error:
            self._as_if_not_asked(before, after)
            return Explanation(Reason.UNAVAILABLE, str(error))
        except BaseException:
            self._as_if_not_asked(before, after)
            raise
        board.begin(switch, before, ledger.switched.get(name, after))
        return None

    def _not_on(self, switch: Switch, record: Switched) -> Explanation | None:
        if not self._by.may_act():
            return Explanation(Reason.NOT_LEADER, SENTENCES[Reason.NOT_LEADER])
        if paused(self.board.policy, switch, None, "scale-up"):
            return Explanation(Reason.PAUSED, f"switching {switch.name} on is paused")
        why = hindrance(switch, record, self._node(switch.name), self._by.clock())
        return Explanation(why.reason, f"{switch.name}: {why.message}") if why is not None else None

    def _as_if_not_asked(self, before: Switched, after: Switched) -> None:
        """Unless somebody was called for it already: the main loop stores, and acts, too."""
        here = self._by.ledger.switched.get(after.name)
        if here is not None and (here.power, here.call) == (after.power, after.call) and not _called(here):
            self._by.ledger.put_switched(before)

    # -- off ------------------------------------------------------------------------------------

    async def off(self, name: str) -> Explanation | None:
        """None once it is stored that it goes, or where it does not run; else why it stays on.

        Never from under work: the list of its pods is read before anything is written, and before every call.
        """
        task = self._leaving.get(name)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._guarded(name), name=f"off {name}")
            self._leaving[name] = task
            task.add_done_callback(lambda _: self._leaving.pop(name, None))
        return await asyncio.shield(task)

    async def outcome(self, name: str, patience: float) -> Explanation | None:
        """What became of it, waited for that long: why it stays on after all, or None."""
        try:
            async with asyncio.timeout(patience):
                await self.board.turning.ended(name)
        except TimeoutError:
            return None  # it is stored, and repeated with its key until its Node is silent
        record = self._by.ledger.switched.get(name)
        stayed = record is not None and (
            record.power is Power.ON or (record.power is Power.RISING and not record.call)
        )
        if record is None or not stayed:
            return None
        return Explanation(
            record.reason or Reason.IN_USE, record.note or "something there needs it after all"
        )

    async def never_mind(self, name: str) -> None:
        """It is wanted no more, if its Node did not come yet."""
        record = self._by.ledger.switched.get(name)
        if record is None or record.power is not Power.RISING or self._node(name) is not None:
            return
        if (why := await self.off(name)) is not None:
            log.info("it goes on being switched on", extra={"machine": name, "why": why.message})

    async def _guarded(self, name: str) -> Explanation | None:
        try:
            return await self._off(name)
        except CalledOff as stop:
            return stop.why
        except (ClusterError, LedgerError) as error:
            return Explanation(Reason.UNAVAILABLE, str(error))
        except Grounded:
            return Explanation(Reason.NOT_LEADER, SENTENCES[Reason.NOT_LEADER])

    async def _off(self, name: str) -> Explanation | None:
        board, by = self.board, self._by
        switch, record = board.switch(name), by.ledger.switched.get(name)
        if switch is None:
            return Explanation(
                Reason.SWITCH_FAILED, f"{name} is not in the settings any more: nobody says how"
            )
        if record is None or record.power not in (Power.RISING, Power.ON):
            return None
        by.lead()
        if record.unheard:
            await self._store(record, withdrawn(record, by.clock()))
            return None
        if (why := self._not_off(switch, record)) is not None:
            return why
        await by.removal.look_at_work(board.policy, by.machine(switch))
        by.lead()
        here = by.ledger.switched.get(name)
        if here is None or here.power not in (Power.RISING, Power.ON):
            return None
        after = replace(
            here, power=Power.FALLING, call=by.new_call(), again=0, wanted_at=by.clock(), called_at=0.0, acked_at=0.0,
            tries=0, unsure=False, down_at=0.0, drain_at=0.0, pods=(), reason=Reason.DISMISSED,
            note=SENTENCES[Reason.DISMISSED],
        )  # fmt: skip
        await self._store(here, after)
        board.begin(switch, here, by.ledger.switched.get(name, after))
        return None

    async def _store(self, before: Switched, after: Switched) -> None:
        self._by.ledger.put_switched(after)
        try:
            await self._by.ledger.flush()
        except LedgerError:
            self._as_if_not_asked(before, after)
            raise

    def _not_off(self, switch: Switch, record: Switched) -> Explanation | None:
        """One that never became of use goes whatever holds one that works."""
        node = self._node(switch.name)
        if record.power is Power.RISING and (node is None or not node.ready):
            return None
        if paused(self.board.policy, switch, node, "scale-down"):
            return Explanation(Reason.PAUSED, f"switching {switch.name} off is paused")
        why = next(iter(stays(switch, record, self._by.clock())), None)
        return Explanation(why.reason, f"{switch.name}: {why.message}") if why is not None else None


def _called(record: Switched) -> bool:
    return bool(record.called_at or record.unsure or record.acked_at)
