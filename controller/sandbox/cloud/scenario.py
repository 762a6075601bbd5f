"""A scenario: faults of the wire and events of the cloud, each at its time.

Entries are the rules of `/_sandbox/faults` and the events of `/_sandbox/events`, in one list, each with
`at_s` if it is not for the beginning: machine seconds after the scenario began, like every other time
that `speed` divides. A fault may end (`for_s`), an event may repeat (`every_s`, `times`). All of a
scenario is read before any of it happens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.sandbox.cloud.answers import Refusal
from controller.sandbox.cloud.events import Deed, read_event
from controller.sandbox.cloud.knobs import BadSetting
from controller.sandbox.cloud.reading import Fields
from controller.sandbox.cloud.state import FIRST_PROJECT
from controller.sandbox.fault_rules import Rule
from controller.sandbox.faults import BadRule, parse_rule

if TYPE_CHECKING:
    from controller.sandbox.cloud.world import CloudWorld


@dataclass(frozen=True, slots=True)
class Entry:
    raw: dict[str, Any]
    at_s: float
    every_s: float
    times: int
    for_s: float | None
    project: str
    deed: Deed | None  # of an event
    rule: Rule | None  # of a fault


def read_scenario(raw: Any, at: str = "scenario") -> list[Entry]:
    if isinstance(raw, dict) and len(raw) == 1 and set(raw) <= {"scenario", "faults"}:
        at, raw = next(iter(raw.items()))
    if not isinstance(raw, list):
        raise BadSetting(at, raw, "a list of faults and events")
    return [_entry(f"{at}[{index}]", row) for index, row in enumerate(raw)]


def _entry(at: str, raw: Any) -> Entry:
    fields = Fields(at, raw)
    if ("fault" in raw) == ("event" in raw):
        raise BadSetting(at, raw, "either a fault or an event")
    at_s = fields.seconds("at_s")
    if "fault" in raw:
        for_s = fields.number("for_s")
        try:
            rule = parse_rule(at, {key: raw[key] for key in raw if key not in ("at_s", "for_s")})
        except BadRule as problem:
            raise BadSetting(problem.key, problem.value, problem.expected) from None
        return Entry(dict(raw), at_s, 0.0, 1, for_s, FIRST_PROJECT, None, rule)
    every_s, project = fields.seconds("every_s"), fields.text("project", FIRST_PROJECT)
    times = fields.count("times", 1, least=1) or 1
    if times > 1 and every_s <= 0:
        raise fields.bad("every_s", "a number of machine seconds above 0, because it happens several times")
    return Entry(dict(raw), at_s, every_s, times, None, project, read_event(fields), None)


@dataclass(slots=True)
class Scenario:
    """What is still to come and what has happened, for a world."""

    world: CloudWorld
    entries: list[Entry] = field(default_factory=list)
    done: list[dict[str, Any]] = field(default_factory=list)
    _run: int = 0
    _began: int = 0

    def begin(self, entries: list[Entry]) -> None:
        """Instead of the one before, of which nothing more happens. What it did stays done."""
        self.end()
        self.entries, self.done = entries, []
        self._began = self.world.state.ground.machine
        for entry in entries:
            if entry.at_s > 0:
                self._later(entry.at_s, self._starter(entry))
            else:
                self._start(entry)

    def end(self) -> None:
        self._run += 1
        kept = [rule for rule in self.world.faults.rules if all(rule is not one.rule for one in self.entries)]
        self.world.faults.rules = kept
        self.entries = []

    def shown(self) -> dict[str, Any]:
        passed = (self.world.state.ground.machine - self._began) / 1_000_000
        return {
            "passed_s": round(passed, 6),
            "entries": [entry.raw for entry in self.entries],
            "done": self.done,
        }

    def _later(self, machine_seconds: float, action: Callable[[], None]) -> None:
        run = self._run

        def act() -> None:
            if self._run == run:
                action()

        self.world.state.later(machine_seconds, act)

    def _starter(self, entry: Entry) -> Callable[[], None]:
        return lambda: self._start(entry)

    def _start(self, entry: Entry) -> None:
        if entry.rule is not None:
            self._arm(entry, entry.rule)
        else:
            self._happen(entry, entry.times)

    def _arm(self, entry: Entry, rule: Rule) -> None:
        self.world.faults.rules = [*self.world.faults.rules, rule]
        self._note(entry, {})
        if entry.for_s is not None:
            self._later(entry.for_s, lambda: self._disarm(rule))

    def _disarm(self, rule: Rule) -> None:
        self.world.faults.rules = [one for one in self.world.faults.rules if one is not rule]

    def _happen(self, entry: Entry, left: int) -> None:
        if entry.deed is not None:
            try:
                self._note(entry, entry.deed(self.world, self.world.project(entry.project)))
            except (Refusal, BadSetting) as problem:  # the rest of the scenario goes on
                self._note(entry, {"problem": str(problem)})
        if left > 1:
            self._later(entry.every_s, lambda: self._happen(entry, left - 1))

    def _note(self, entry: Entry, result: dict[str, Any]) -> None:
        passed = (self.world.state.ground.machine - self._began) / 1_000_000
        name = entry.raw.get("event") or entry.raw.get("fault")
        self.done.append({"at_s": round(passed, 6), "what": name, "result": result})
