"""One rule for a fault: what it matches, whether its turn has come, and what the client gets.

It matches by method, path with `*` and a text in the body; it hits the nth such request, as many as it
says, or a share of them. `/v1` in front of a path is ignored on both sides, because Verda's base URL
carries it and a rule's author forgets it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from controller.sandbox.wire import Request, Response


class Fault(NamedTuple):
    commits: bool  # whether the core sees (and commits) the request
    text: str


FAULTS: Mapping[str, Fault] = {
    "delay_answer": Fault(True, "answered after `seconds`"),
    "drip": Fault(True, "answered bit by bit over `seconds`, which no time-out per read notices"),
    "lose_before": Fault(False, "the connection is cut before the core sees the request"),
    "lose_after": Fault(True, "committed, then the connection is cut without an answer"),
    "cut_answer": Fault(True, "committed, and cut in the middle of the answer"),
    "hang": Fault(False, "open without an answer until the client leaves or `seconds` have passed"),
    "hang_after": Fault(True, "the same, but committed"),
    "answer": Fault(False, "`status`, `headers` and `body` instead of the core's answer"),
    "answer_after": Fault(True, "the same, but committed"),
    "twice": Fault(True, "the core sees the request twice, as if something on the way had repeated it"),
    "quoted": Fault(True, "the core's body as one JSON string"),
    "newline": Fault(True, "the core's body followed by a newline"),
    "empty": Fault(True, "the core's answer without its body"),
    "leave_out": Fault(True, "a list without the rows whose id, hostname or name is in `rows`; [] = all"),
    "total_above": Fault(True, "a list whose X-Total-Count is `count` above what came"),
}


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
    contains: str = ""
    nth: int = 1
    times: int = 1  # 0 = for ever
    share: float = 1.0
    seconds: float | None = None
    status: int = 500
    body: Any = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    count: int = 1
    matched: int = 0
    fired: int = 0

    @property
    def commits(self) -> bool:
        """Whether the core sees the request."""
        return FAULTS[self.fault].commits

    @property
    def cuts(self) -> bool:
        """Whether the connection ends without an answer."""
        return self.fault in ("lose_before", "lose_after", "hang", "hang_after")

    def matches(self, request: Request) -> bool:
        if self.method not in ("*", request.method):
            return False
        if self.contains and self.contains.encode() not in request.body:
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
        return response if response.stream is not None else self._changed(response)

    def _changed(self, response: Response) -> Response:
        match self.fault:
            case "quoted":
                return Response(
                    response.status, json.dumps(response.body.decode()).encode(), response.headers
                )
            case "newline":
                return Response(response.status, response.body + b"\n", response.headers)
            case "empty":
                return Response(response.status, b"", response.headers)
            case "leave_out" | "total_above" if isinstance(rows := _decoded(response), list):
                if self.fault == "leave_out":
                    left = [row for row in rows if self.rows and not self._names(row)]
                    return Response.of_json(response.status, left, response.headers)
                total = {"X-Total-Count": str(len(rows) + self.count)}
                return Response(response.status, response.body, {**response.headers, **total})
        return response

    def _names(self, row: Any) -> bool:
        return isinstance(row, dict) and any(row.get(key) in self.rows for key in ("id", "hostname", "name"))

    def shown(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "path": self.path,
            "contains": self.contains,
            "nth": self.nth,
            "times": self.times,
            "share": self.share,
            "fault": self.fault,
            "seconds": self.seconds,
            "status": self.status,
            "body": self.body,
            "headers": dict(self.headers),
            "rows": list(self.rows),
            "count": self.count,
            "matched": self.matched,
            "fired": self.fired,
        }


@lru_cache(maxsize=256)
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in path.split("*")), re.DOTALL)


def _decoded(response: Response) -> Any:
    try:
        return json.loads(response.body)
    except ValueError:
        return None
