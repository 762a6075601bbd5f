"""Machines that were asked for and never came to be: cluster-autoscaler has to see each of them once.

It learns of a failed creation only from a listed instance that is "creating" with an error code, then backs
its group off and asks for the deletion of what never existed. Until then the placeholder counts, or the
target would stand for nothing; when nobody collects it, it goes by itself. Kept in memory: after a restart
the target is smaller by what had failed, and what is listed agrees with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from controller.domain.cloudthings import SWITCHED
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Outcome, Refused
from controller.domain.plan import Explanation
from controller.domain.reason import SENTENCES, Reason
from controller.domain.switching import Power, Switch, Switched

OUT_OF_RESOURCES, OTHER = 1, 99  # classes, as cluster-autoscaler counts them

_SCARCE = frozenset(
    {
        Reason.NO_CAPACITY,
        Reason.QUOTA,
        Reason.NO_FUNDS,
        Reason.LIMIT_GPUS,
        Reason.LIMIT_MACHINES,
        Reason.LIMIT_PRICE,
        Reason.LIMIT_BUDGET,
        Reason.LIMIT_SCRIPTS,
    }
)
_LONGEST = 300  # characters of a message: it is copied into events and a ConfigMap
NOT_ORDERED = "not_ordered"  # the order was never heard of again


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    machine: Machine | None = None  # None: it is switched
    wish: str = ""  # tells tries with one machine from each other
    code: str
    message: str
    kind: int
    at: float


def never_came(record: Switched) -> bool:
    """It is being switched off again, because it never showed itself."""
    return record.power is Power.FALLING and record.reason is Reason.ON_DEADLINE


def failed_on_the_way(machine: Machine) -> bool:
    """It is being taken away again and never registered."""
    return machine.phase is Phase.DELETING and machine.failed and not machine.joined_at


class Failures:
    """Also a listener of the fleet."""

    def __init__(self, clock: Callable[[], float], keep: float) -> None:
        self._clock = clock
        self._keep = keep
        self._by_name: dict[str, Failure] = {}
        self._collected: dict[str, float] = {}
        self.version = 0

    def all(self) -> tuple[Failure, ...]:
        return tuple(self._by_name.values())

    def get(self, name: str) -> Failure | None:
        return self._by_name.get(name)

    def collect(self, name: str) -> bool:
        """It was seen, and counts no more."""
        found = self._by_name.pop(name, None)
        self._collected[found.wish or name if found is not None else name] = self._clock()
        if found is None:
            return False
        self.version += 1
        return True

    def look(self, machines: Iterable[Machine], switched: Iterable[Switched] = ()) -> None:
        """What the records tell: those that failed before this process began, and those that are back."""
        now = self._clock()
        for record in switched:
            if never_came(record):
                self._add_switched(record.name, record.call, Reason.ON_DEADLINE, record.note)
            elif record.power in (Power.RISING, Power.ON):
                self._forget(record.name)
        for machine in machines:
            if machine.market == SWITCHED:
                continue
            if failed_on_the_way(machine):
                self._add(machine, machine.reason or Reason.LAUNCH_FAILED, machine.note)
            elif not machine.phase.leaving and machine.phase is not Phase.TOMBSTONE:
                self._forget(machine.name)
        for name, failure in list(self._by_name.items()):
            if not 0 <= now - failure.at < self._keep:
                self.collect(name)
        for name, at in list(self._collected.items()):
            if not 0 <= now - at < 86400:
                del self._collected[name]

    def _forget(self, name: str) -> None:
        self._collected.pop(name, None)
        if self._by_name.pop(name, None) is not None:
            self.version += 1

    def _add(self, machine: Machine, reason: Reason, message: str, code: str = "") -> None:
        if machine.name in self._by_name or machine.name in self._collected:
            return
        self._by_name[machine.name] = Failure(
            name=machine.name,
            machine=machine,
            code=code or reason.value,
            message=(message or SENTENCES[reason])[:_LONGEST],
            kind=OUT_OF_RESOURCES if reason in _SCARCE else OTHER,
            at=self._clock(),
        )
        self.version += 1

    def _add_switched(self, name: str, call: str, reason: Reason, message: str) -> None:
        """The same machine is tried again under the same name, each time by another call."""
        wish = f"{name} {call}"
        if name in self._by_name or wish in self._collected:
            return
        self._by_name[name] = Failure(
            name=name,
            wish=wish,
            code=reason.value,
            message=(message or SENTENCES[reason])[:_LONGEST],
            kind=OTHER,
            at=self._clock(),
        )
        self.version += 1

    # -- what the fleet tells -------------------------------------------------------------------

    def refused(self, machine: Machine, refusal: Refused) -> None:
        if machine.phase is Phase.INTENDED:  # else nobody wants it any more
            self._add(machine, refusal.reason, refusal.message)

    def phase_changed(self, before: Machine, after: Machine) -> None:
        if after.phase is Phase.TOMBSTONE and before.phase is not Phase.TOMBSTONE:
            self._add(after, Reason.UNKNOWN_OUTCOME, "the order did not reach the cloud", NOT_ORDERED)
        elif failed_on_the_way(after) and before.phase.on_the_way:
            self._add(after, after.reason or Reason.LAUNCH_FAILED, after.note)

    def launched(self, machine: Machine) -> None: ...
    def unknown(self, machine: Machine, message: str) -> None: ...
    def removal_called_off(self, machine: Machine, why: Explanation) -> None: ...
    def removed(self, machine: Machine, cost: Any) -> None: ...
    def switched(self, switch: Switch, before: Switched, after: Switched) -> None:
        if before.power is not Power.RISING or not before.call:
            return
        if after.reason is Reason.SWITCH_FAILED and after.power is Power.OFF:
            self._add_switched(switch.name, before.call, Reason.SWITCH_FAILED, after.note)

    def acknowledged(self, switch: Switch, record: Switched, on: bool) -> None: ...
    def not_acknowledged(self, switch: Switch, record: Switched, on: bool, outcome: Outcome) -> None: ...
