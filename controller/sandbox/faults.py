"""Faults by rule: which request meets which misfortune between the client and a world's core.

Pure: this module decides, the carrier (`shell`) or an in-memory transport carries it out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from controller.sandbox.fault_rules import FAULTS, Rule, without_version
from controller.sandbox.wire import Request, Response

__all__ = [
    "CONTROL_PATH",
    "FAULTS",
    "BadRule",
    "Faults",
    "Rule",
    "parse_rule",
    "parse_rules",
    "without_version",
]
CONTROL_PATH = "/_sandbox/faults"


class BadRule(ValueError):
    """A rule that cannot be taken, naming the key, the value and what was expected."""

    def __init__(self, key: str, value: Any, expected: str) -> None:
        super().__init__(f"{key}: got {json.dumps(value, default=str)}, expected {expected}")
        self.key, self.value, self.expected = key, value, expected


class Faults:
    """The rules in force, in order: every matching rule counts, the first that is due hits."""

    def __init__(self, rules: list[Rule] | None = None, rng: random.Random | None = None) -> None:
        self.rules: list[Rule] = rules or []
        self._rng = rng or random.Random(0)

    def replace(self, value: Any) -> None:
        """Take a new list (or `{"faults": [...]}`) as a whole; a bad rule changes nothing."""
        self.rules = parse_rules(value)

    def choose(self, request: Request) -> Rule | None:
        """The rule that hits this request. Later rules count it too, but only one of them is spent."""
        chosen: Rule | None = None
        for rule in self.rules:
            if rule.matches(request):
                rule.matched += 1
                if chosen is None and rule.due and (rule.share >= 1 or self._rng.random() < rule.share):
                    chosen = rule
        if chosen is not None:
            chosen.fired += 1
        return chosen

    def shown(self) -> dict[str, Any]:
        return {"faults": [rule.shown() for rule in self.rules]}

    def handle(self, request: Request) -> Response | None:
        """Answer `/_sandbox/faults` (with or without `/v1`); None for any other path."""
        if without_version(request.path).rstrip("/") != CONTROL_PATH:
            return None
        try:
            if request.method == "PUT":
                self.replace(_decoded(request))
            elif request.method == "DELETE":
                self.rules = []
            elif request.method != "GET":
                return Response.of_json(405, {"code": "invalid_request", "message": "use GET, PUT or DELETE"})
        except BadRule as problem:
            return Response.of_json(400, {"code": "invalid_request", "message": str(problem)})
        return Response.of_json(200, self.shown())


def _decoded(request: Request) -> Any:
    try:
        return request.json()
    except (ValueError, RecursionError):
        raise BadRule("body", request.body[:80].decode(errors="replace"), "JSON") from None


def parse_rules(value: Any) -> list[Rule]:
    if isinstance(value, dict) and set(value) == {"faults"}:
        value = value["faults"]
    if not isinstance(value, list):
        raise BadRule("faults", value, 'a list of rules, or {"faults": [...]}')
    return [parse_rule(f"faults[{index}]", raw) for index, raw in enumerate(value)]


KEYS = (
    "method", "path", "contains", "nth", "times", "share", "fault", "seconds", "status", "body", "headers",
    "rows", "count",
)  # fmt: skip


def parse_rule(at: str, raw: Any) -> Rule:
    if not isinstance(raw, dict):
        raise BadRule(at, raw, "an object")
    for key in raw:
        if key not in KEYS and key not in ("matched", "fired"):  # what GET shows may be put back
            raise BadRule(f"{at}.{key}", raw[key], "no such key; known are " + ", ".join(KEYS))
    fault = raw.get("fault")
    if fault not in FAULTS:
        raise BadRule(f"{at}.fault", fault, "one of " + ", ".join(FAULTS))
    headers, rows = raw.get("headers") or {}, raw.get("rows") or []
    if not isinstance(headers, dict) or not all(isinstance(v, str) for v in headers.values()):
        raise BadRule(f"{at}.headers", headers, "an object of strings")
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
        raise BadRule(f"{at}.rows", rows, "a list of ids, hostnames or names")
    seconds, share = raw.get("seconds"), raw.get("share")
    if seconds is not None and (_is_not_number(seconds) or seconds < 0):
        raise BadRule(f"{at}.seconds", seconds, "a number of seconds, 0 or more")
    if fault in ("delay_answer", "drip") and seconds is None:
        raise BadRule(f"{at}.seconds", None, f"a number of seconds, because the fault is {fault}")
    if share is not None and (_is_not_number(share) or not 0 <= share <= 1):
        raise BadRule(f"{at}.share", share, "a number from 0 to 1")
    return Rule(
        fault=str(fault),
        method=_text(at, raw, "method", "*").upper(),
        path=_text(at, raw, "path", "*"),
        contains=_text(at, raw, "contains", "") if raw.get("contains") else "",
        nth=_integer(at, raw, "nth", 1, low=1),
        times=_integer(at, raw, "times", 1, low=0),
        share=1.0 if share is None else float(share),
        seconds=None if seconds is None else float(seconds),
        status=_integer(at, raw, "status", 500, low=200, high=599),
        body=raw.get("body", ""),
        headers=headers,
        rows=rows,
        count=_integer(at, raw, "count", 1, low=1),
    )


def _is_not_number(value: Any) -> bool:
    return isinstance(value, bool) or not isinstance(value, (int, float))


def _text(at: str, raw: Mapping[str, Any], key: str, default: str) -> str:
    value = raw.get(key)
    if value is None:
        return default
    if not isinstance(value, str) or not value:
        raise BadRule(f"{at}.{key}", value, "a text that is not empty")
    return "*" if key == "method" and value.lower() == "any" else value


def _integer(
    at: str, raw: Mapping[str, Any], key: str, default: int, *, low: int, high: int | None = None
) -> int:
    value = raw.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < low or (high and value > high):
        raise BadRule(f"{at}.{key}", value, f"an integer from {low}" + (f" to {high}" if high else ""))
    return value
