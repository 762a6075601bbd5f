"""Switching a machine on: one call for one wish, repeated with its key until it is acknowledged or certainly refused.

It is written down before it is made: after a crash nobody could say whether it was.
"""

from __future__ import annotations

from controller.domain.outcome import Happened, Outcome, Refused
from controller.domain.reason import SENTENCES, Reason
from controller.domain.switching import Power, Switch, Switched
from controller.fleet.ledger import LedgerError
from controller.fleet.switching.ends import given_up
from controller.fleet.switching.means import AGAIN, Means
from controller.fleet.tasks import Grounded, NotYet


class Rising:
    def __init__(self, means: Means) -> None:
        self._by = means
        self.held: set[str] = set()  # nobody may switch these on now

    def is_to_call(self, switch: Switch, record: Switched) -> bool:
        if not record.call or record.acked_at or record.node_ready_at or switch.name in self.held:
            return False
        # A call that may have had an effect is followed to its end; nobody is called once more for pods that are gone.
        return record.unheard or (record.tries < switch.tries and not self._pointless(switch, record))

    async def switch_on(self, switch: Switch) -> None:
        name, pause = switch.name, switch.retry_first
        await self._by.ledger.flush()  # the wish is stored before anything is switched
        while True:
            told = await self._by.endpoints.ask(name) if switch.asked else ""
            send = await self._by.endpoints.prepare(name, True)
            record = self._by.record_in(name, Power.RISING)
            if record is None or not self.is_to_call(switch, record):
                return
            if record.unheard and self._pointless(switch, record):
                raise NotYet(f"nothing waits for {name} any more: the next plan withdraws it")
            if told == "on" and not record.doubted:
                await self._by.change(switch, acked_at=self._by.clock())  # it is on its way already
                return
            if not self._by.may_spend():
                raise Grounded
            call, sure, now = record.call, not record.unsure, self._by.clock()
            try:
                # Written first: after a crash nobody could say whether it was made.
                await self._by.change(switch, tries=record.tries + 1, called_at=now, rose_at=now, unsure=True)
                if not self._by.may_spend():
                    raise Grounded
            except (LedgerError, Grounded):
                self._not_made(record)
                raise
            here = self._by.record_in(name, Power.RISING)
            if here is None or here.call != call:
                return  # nobody would ever call it off again
            if not here.unsure:
                continue  # who led before wrote what came of its own call: nobody knows of this one
            if self._pointless(switch, here) or name in self.held:  # that became so while it was written down
                self._not_made(record)
                return
            outcome = await send(f"{record.call_id}-on")
            here = self._by.ledger.switched.get(name)
            if here is None or here.call != call or here.power is not Power.RISING:
                return
            if isinstance(outcome, Happened):
                await self._by.change(switch, acked_at=self._by.clock())
                self._by.listener.acknowledged(switch, here, True)
                return
            sure = sure and isinstance(outcome, Refused)
            if sure:  # it had no effect: as if it had not been made
                await self._by.change(switch, unsure=False, called_at=0.0, rose_at=record.rose_at)
                known = self._by.record_in(name, Power.RISING)
                if known is None or known.call != call:
                    return  # it was withdrawn meanwhile
                here = known
            self._by.listener.not_acknowledged(switch, here, True, outcome)
            final = isinstance(outcome, Refused) and outcome.reason not in AGAIN
            if sure and (final or here.tries >= switch.tries):
                await self._give_up(switch, here, outcome)
                return
            if here.tries >= switch.tries:
                return  # it may have had an effect: what the Node shows decides, and at last the deadline
            await self._by.sleep(max(pause, getattr(outcome, "retry_after", None) or 0.0))
            pause = min(switch.retry_most, pause * 2)

    def _pointless(self, switch: Switch, record: Switched) -> bool:
        """None of the pods that it is switched on for waits any more.

        Whether those that do need it beside whatever else has become free is asked in every plan, and not here.
        """
        for_pods = bool(record.pods) and not switch.keep_on
        return for_pods and not any(pod.key in record.pods for pod in self._by.waiting())

    def _not_made(self, before: Switched) -> None:
        """The call that was to be written down was not made, and counts as none."""
        here = self._by.record_in(before.name, Power.RISING)
        if here is not None and here.call == before.call:
            self._by.ledger.change_switched(
                before.name,
                tries=before.tries,
                called_at=before.called_at,
                rose_at=before.rose_at,
                unsure=before.unsure,
            )

    async def _give_up(self, switch: Switch, record: Switched, outcome: Outcome) -> None:
        """No call had any effect."""
        words = getattr(outcome, "message", "") or SENTENCES[Reason.SWITCH_FAILED]
        await self._by.put(switch, given_up(record, self._by.limits, self._by.clock(), words))
