"""A machine that was to go off and stays after all: something needs it, or no call to it has any effect."""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.machine import FAILURES
from controller.domain.outcome import Outcome, Unknown
from controller.domain.plan import Explanation
from controller.domain.reason import SENTENCES, Reason
from controller.domain.switching import Power, Switch, Switched, as_machine
from controller.fleet.switching.aftermath import kept
from controller.fleet.switching.ends import ROUNDS, off, pause_after, would_not_go
from controller.fleet.switching.means import Means
from controller.fleet.tasks import NotYet

LATER = 30.0


class Staying:
    def __init__(self, means: Means) -> None:
        self._by = means

    async def keep(self, switch: Switch, why: Explanation) -> None:
        """It stays on. One that is of no use stays tainted, and goes as soon as nothing needs it."""
        record = self._by.ledger.switched.get(switch.name)
        if record is None or record.power is Power.OFF:
            return
        machine = as_machine(record, switch)
        if machine is None or (record.power is Power.FALLING and (record.unsure or record.again)):
            raise NotYet(
                f"{switch.name} may be on its way down and cannot be asked again: {why.message}", LATER
            )
        if record.reason in FAILURES and record.power is not Power.ON:
            if record.reason is Reason.ON_DEADLINE:
                # Its Node never came, and something is held there all the same: it is left as it is.
                after = replace(off(record, self._by.clock()), note=f"{record.note} {why.message}")
                await self._by.put(switch, after)
                return
            raise NotYet(f"{switch.name} is of no use and cannot go yet: {why.message}", LATER)
        if record.power is Power.ON or kept(record, self._by.clock()).power is Power.ON:
            await self._by.removal.restore(machine, self._by.lead)
            self._by.restored(machine.name)  # its mark of being idle went, too
        if record.power is not Power.ON:
            here = self._by.ledger.switched[switch.name]
            await self._by.put(switch, replace(kept(here, self._by.clock()), reason=None, note=""))
        self._by.listener.removal_called_off(machine, why)

    async def stays_on(self, switch: Switch, record: Switched, outcome: Outcome) -> None:
        """No call had any effect: it goes on working, and is switched off at another time."""
        said = getattr(outcome, "message", "") or SENTENCES[Reason.SWITCH_FAILED]
        now, limits = self._by.clock(), self._by.limits
        if record.reason not in FAILURES:
            await self._by.put(switch, would_not_go(self._by.ledger.switched[switch.name], limits, now, said))
            return
        words, until = f"it cannot be switched off: {said}", now + pause_after(record.failures + 1, limits)
        if record.reason is Reason.ON_DEADLINE and await self.will_not_go_again(switch, record, outcome):
            here = self._by.ledger.switched[switch.name]
            after = replace(off(here, self._by.clock()), note=f"{SENTENCES[Reason.ON_DEADLINE]} And {words}")
            await self._by.put(switch, replace(after, refused_until=max(here.refused_until, until)))
            return
        await self._by.change(switch, called_at=0.0, tries=0, refused_at=self._by.clock(), note=words)
        raise NotYet(f"{switch.name}: {words}", max(LATER, until - self._by.clock()))

    async def will_not_go_again(self, switch: Switch, record: Switched, outcome: Outcome) -> bool:
        """Its Node is silent, and its endpoint will not have the call, as many will not of a machine that is off.

        Those that say so with 409 or 5xx may mean a call that is still at work, so they are asked again for long.

        Where that is wrong it costs current, as it did; to call it off for ever would cost the machine.
        """
        answered = isinstance(outcome, Unknown) and outcome.answered and record.again >= ROUNDS
        if getattr(outcome, "reason", None) is not Reason.BAD_REQUEST and not answered:
            return False  # an endpoint that is away, or wants other credentials, says nothing of the machine
        asked = switch.asked and not record.doubted
        told = await self._by.endpoints.ask(switch.name) if asked else ""
        node, here = self._by.node(switch.name), self._by.same_wish(record)
        silent = node is None or not node.ready
        return told != "on" and silent and here is not None and here.again == record.again
