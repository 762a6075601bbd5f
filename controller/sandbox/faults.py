"""Faults by rule: which request meets which misfortune between the client and a world's core.

Pure: this module decides, the carrier (`shell`) or an in-memory transport carries it out. A rule says
what it matches (method, path with `*`, the nth such request, how many) and the fault; `/v1` in front
of a path is ignored on both sides, because Verda's base URL carries it and a rule's author forgets it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.sandbox.wire import Request, Response

CONTROL_PATH = "/_sandbox/faults"

# fault -> does the core see (and commit) the request?
FAULTS: Mapping[str, bool] = {
    "delay_answer": True,  # answered after `seconds`
    "lose_before": False,  # the connection is cut before the core sees the request
    "lose_after": True,  # committed, then the connection is cut without an answer
    "hang": False,  # open without an answer until the client leaves or `seconds` have passed
    "answer": False,  # `status` and `body` instead of the core
    "answer_after": True,  # committed, but answered with `status` and `body`
    "quoted": True,  # the core's body as one JSON string
    "newline": True,  # the core's body followed by a newline
}


class BadRule(ValueError):
    """A rule that cannot be taken, naming the key, the value and what was expected."""

    def __init__(self, key: str, value: Any, expected: str) -> None:
        super().__init__(f"{key}: got {json.dumps(value, default=str)}, expected {expected}")


def without_version(path: str) -> str:
    """The path without any leading `/v1`."""
    while path == "/v1" or path.startswith("/v1/"):
        path = path[3:]
    return path or "/"


@dataclass(slots=True)
class Rule:
    fault: str
    method: str = "*"
    path: str = "*"
    nth: int = 1
    times: int = 1  # 0 = for ever
    seconds: float | None = None
    status: int = 500
    body: Any = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    matched: int = 0
    fired: int = 0

    @property
    def commits(self) -> bool:
        """Whether the core sees the request."""
        return FAULTS[self.fault]

    @property
    def cuts(self) -> bool:
        """Whether the connection ends without an answer."""
        return self.fault in ("lose_before", "lose_after", "hang")

    def matches(self, request: Request) -> bool:
        if self.method not in ("*", request.method):
            return False
        return any(
            _pattern(wanted).fullmatch(actual)
            for wanted in {self.path, without_version(self.path)}
            for actual in {request.path, without_version(request.path)}
        )

    @property
    def due(self) -> bool:
        """Whether the request just counted is one that the fault hits."""
        return self.matched >= self.nth and (self.times == 0 or self.fired < self.times)

    def answer(self, of_core: Response | None) -> Response:
        """What the client gets, for the faults that answer at all."""
        if self.fault in ("answer", "answer_after"):
            if isinstance(self.body, str):
                return Response(
                    self.status, self.body.encode(), {"Content-Type": "text/plain", **self.headers}
                )
            return Response.of_json(self.status, self.body, self.headers)
        response = of_core or Response(500)
        if response.stream is None and self.fault == "quoted":
            return Response(response.status, json.dumps(response.body.decode()).encode(), response.headers)
        if response.stream is None and self.fault == "newline":
            return Response(response.status, response.body + b"\n", response.headers)
        return response

    def shown(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "path": self.path,
            "nth": self.nth,
            "times": self.times,
            "fault": self.fault,
            "seconds": self.seconds,
            "status": self.status,
            "body": self.body,
            "headers": dict(self.headers),
            "matched": self.matched,
            "fired": self.fired,
        }


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in path.split("*")), re.DOTALL)


class Faults:
    """The rules in force, in order: every matching rule counts, the first that is due hits."""

    def __init__(self, rules: list[Rule] | None = None) -> None:
        self.rules: list[Rule] = rules or []

    def replace(self, value: Any) -> None:
        """Take a new list (or `{"faults": [...]}`) as a whole; a bad rule changes nothing."""
        self.rules = parse_rules(value)

    def choose(self, request: Request) -> Rule | None:
        """The rule that hits this request. Later rules count it too, but only one of them is spent."""
        chosen: Rule | None = None
        for rule in self.rules:
            if rule.matches(request):
                rule.matched += 1
                if chosen is None and rule.due:
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
    except ValueError:
        raise BadRule("body", request.body[:80].decode(errors="replace"), "JSON") from None


def parse_rules(value: Any) -> list[Rule]:
    if isinstance(value, dict) and set(value) == {"faults"}:
        value = value["faults"]
    if not isinstance(value, list):
        raise BadRule("faults", value, 'a list of rules, or {"faults": [...]}')
    return [_parse_rule(f"faults[{index}]", raw) for index, raw in enumerate(value)]


_KEYS = ("method", "path", "nth", "times", "fault", "seconds", "status", "body", "headers")


def _parse_rule(at: str, raw: Any) -> Rule:
    if not isinstance(raw, dict):
        raise BadRule(at, raw, "an object")
    for key in raw:
        if key not in _KEYS and key not in ("matched", "fired"):  # what GET shows may be put back
            raise BadRule(f"{at}.{key}", raw[key], "no such key; known are " + ", ".join(_KEYS))
    fault = raw.get("fault")
    if fault not in FAULTS:
        raise BadRule(f"{at}.fault", fault, "one of " + ", ".join(FAULTS))
    headers = raw.get("headers") or {}
    if not isinstance(headers, dict) or not all(isinstance(v, str) for v in headers.values()):
        raise BadRule(f"{at}.headers", headers, "an object of strings")
    seconds = raw.get("seconds")
    if seconds is not None and (_is_not_number(seconds) or seconds < 0):
        raise BadRule(f"{at}.seconds", seconds, "a number of seconds, 0 or more")
    if fault == "delay_answer" and seconds is None:
        raise BadRule(f"{at}.seconds", None, "a number of seconds, because the fault is delay_answer")
    return Rule(
        fault=str(fault),
        method=_text(at, raw, "method", "*").upper(),
        path=_text(at, raw, "path", "*"),
        nth=_integer(at, raw, "nth", 1, low=1),
        times=_integer(at, raw, "times", 1, low=0),
        seconds=None if seconds is None else float(seconds),
        status=_integer(at, raw, "status", 500, low=200, high=599),
        body=raw.get("body", ""),
        headers=headers,
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
