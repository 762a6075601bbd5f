"""Who is told what happens to machines (events, metrics, logs)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from controller.domain.machine import Machine
from controller.domain.outcome import Outcome, Refused
from controller.domain.plan import Explanation
from controller.domain.switching import Switch, Switched


class Listener(Protocol):
    def launched(self, machine: Machine) -> None: ...
    def refused(self, machine: Machine, refusal: Refused) -> None: ...
    def unknown(self, machine: Machine, message: str) -> None: ...
    def phase_changed(self, before: Machine, after: Machine) -> None: ...
    def removal_called_off(self, machine: Machine, why: Explanation) -> None: ...
    def removed(self, machine: Machine, cost: Any) -> None: ...
    def switched(self, switch: Switch, before: Switched, after: Switched) -> None: ...
    def acknowledged(self, switch: Switch, record: Switched, on: bool) -> None: ...
    def not_acknowledged(self, switch: Switch, record: Switched, on: bool, outcome: Outcome) -> None: ...


class Several:
    """One after the other hears the same."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = tuple(listeners)

    def launched(self, machine: Machine) -> None:
        for each in self._listeners:
            each.launched(machine)

    def refused(self, machine: Machine, refusal: Refused) -> None:
        for each in self._listeners:
            each.refused(machine, refusal)

    def unknown(self, machine: Machine, message: str) -> None:
        for each in self._listeners:
            each.unknown(machine, message)

    def phase_changed(self, before: Machine, after: Machine) -> None:
        for each in self._listeners:
            each.phase_changed(before, after)

    def removal_called_off(self, machine: Machine, why: Explanation) -> None:
        for each in self._listeners:
            each.removal_called_off(machine, why)

    def removed(self, machine: Machine, cost: Any) -> None:
        for each in self._listeners:
            each.removed(machine, cost)

    def switched(self, switch: Switch, before: Switched, after: Switched) -> None:
        for each in self._listeners:
            each.switched(switch, before, after)

    def acknowledged(self, switch: Switch, record: Switched, on: bool) -> None:
        for each in self._listeners:
            each.acknowledged(switch, record, on)

    def not_acknowledged(self, switch: Switch, record: Switched, on: bool, outcome: Outcome) -> None:
        for each in self._listeners:
            each.not_acknowledged(switch, record, on, outcome)
