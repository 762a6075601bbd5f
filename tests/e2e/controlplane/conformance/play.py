"""Runs a probe on one side, and compares what both said."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tests.e2e.controlplane.conformance.normal import Symbols, differences
from tests.e2e.controlplane.conformance.probe import MISSING, Changed, Probe, Step, at
from tests.e2e.controlplane.conformance.side import WITHIN, Answer, Side, Watched

_NAMED = re.compile(r"<([a-z_]+)>")
PAUSE = 0.05


@dataclass(frozen=True)
class Difference:
    probe: str
    step: str
    field: str
    real: Any
    sandbox: Any

    def __str__(self) -> str:
        return (
            f"{self.step}\n    {self.field}\n      API server: {self.real}\n      sandbox:    {self.sandbox}"
        )


def filled(value: Any, known: dict[str, Any]) -> Any:
    """A value with its angle brackets filled in; a text that is nothing else takes the value's type."""
    if isinstance(value, Changed):
        return merged(known[value.kept], filled(value.patch, known))
    if isinstance(value, dict):
        return {filled(key, known): filled(each, known) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [filled(each, known) for each in value]
    if not isinstance(value, str):
        return value
    whole = _NAMED.fullmatch(value)
    if whole and whole[1] in known:
        return known[whole[1]]
    return _NAMED.sub(lambda found: str(known.get(found[1], found[0])), value)


def merged(target: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return change
    made = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key), value)
    return made


def picked(step: Step, answer: Any) -> Any:
    """What is compared of an answer: all of it where it has not the expected shape."""
    try:
        return step.pick(answer) if step.pick else answer
    except (KeyError, IndexError, TypeError, AttributeError):
        return answer


Seen = tuple[str, Any]  # what was asked, and the answer in symbols


class Run:
    """One probe on one side."""

    def __init__(self, side: Side, namespace: str, tag: str, extra: dict[str, Any]) -> None:
        self._side = side
        self._known: dict[str, Any] = {"ns": namespace, "tag": tag, **extra}
        self._watches: dict[str, Watched | Answer] = {}
        self._symbols = Symbols()
        self.left: list[str] = []  # paths of what was created outside of the namespace

    def play(self, steps: Iterable[Step]) -> list[Seen]:
        try:
            return [shown for step in steps if (shown := self._step(step)) is not None]
        finally:
            for each in self._watches.values():
                if isinstance(each, Watched):
                    each.close()

    def _step(self, step: Step) -> Seen | None:
        if step.told:
            return f"told {step.told}", self._symbols.of(self._heard(step))
        path, headers = filled(step.path, self._known), dict(filled(dict(step.headers), self._known))
        if step.watch:
            self._watches[step.watch] = self._side.watch(path, headers)
            return None
        body = filled(step.body, self._known)
        if isinstance(begun := at(body, "metadata.generateName"), str) and begun != MISSING:
            self._symbols.begun(begun)
        if body is not None and step.kind:
            headers.setdefault("Content-Type", step.kind)
        answer = self._ask(step, path, body, headers)
        self._note(step, path, answer)
        shown = picked(step, answer.body)
        self._symbols.learn(answer.body)
        seen = self._symbols.of({"code": answer.code, "headers": dict(answer.headers), "body": shown})
        return None if step.quiet else (f"{step.method} {step.path}", seen)

    def _ask(self, step: Step, path: str, body: Any, headers: dict[str, str]) -> Answer:
        end = time.monotonic() + (step.within or WITHIN)
        while True:
            answer = self._side.ask(step.method, path, body, headers)
            wanted = {place: filled(value, self._known) for place, value in step.until.items()}
            if all(at(replace(answer).__dict__, place) == value for place, value in wanted.items()):
                return answer
            if time.monotonic() > end:
                return answer  # the comparison tells what is missing
            time.sleep(PAUSE)

    def _heard(self, step: Step) -> Any:
        held = self._watches[step.told]
        if isinstance(held, Answer):
            return {"code": held.code, "headers": dict(held.headers), "body": held.body}
        events = held.events(step.events)
        return {"events": picked(step, events)}

    def _note(self, step: Step, path: str, answer: Answer) -> None:
        for name, place in step.keep.items():
            self._known[name] = at(answer.body, place)
        if step.method == "POST" and answer.code == 201 and "/namespaces/" not in path:
            name = at(answer.body, "metadata.name")
            if "dryRun" not in path and isinstance(name, str):
                self.left.append(f"{path.partition('?')[0]}/{name}")


def compared(probe: Probe, real: list[Seen], sandbox: list[Seen]) -> list[Difference]:
    found: list[Difference] = []
    for number, ((what, one), (_, other)) in enumerate(zip(real, sandbox, strict=True), 1):
        for field, left, right in differences(one, other):
            found.append(Difference(probe.name, f"{number}. {what}", field, left, right))
    return found
