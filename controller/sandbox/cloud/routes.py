"""What a path of the API is: what it does, what it takes, and every way in which it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from controller.sandbox.cloud.schemas import COUNT, TEXT, Schema, many, ref
from controller.sandbox.cloud.state import State
from controller.sandbox.wire import Request, Response

Params = Mapping[str, str]
Endpoint = Callable[[State, Request, Params], Response]
Content = Mapping[str, Schema]  # by media type; nothing = an empty body

JSON, PLAIN = "application/json", "text/plain"
EMPTY: Content = {}
ERROR: Content = {JSON: ref("Error")}
ID: Content = {PLAIN: ref("Id"), JSON: {"anyOf": [ref("Id"), {"type": "object", "required": ["id"]}]}}
PAGED = {"page": COUNT, "pageSize": COUNT}
TAG_FILTER = {"tag": many(TEXT)}


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    summary: str
    endpoint: Endpoint
    answers: Mapping[int, Content]
    query: Mapping[str, Schema]
    body: Schema | None
    public: bool
    parts: tuple[str, ...]

    def match(self, parts: tuple[str, ...]) -> Params | None:
        """Of a path of as many parts."""
        params = {}
        for want, have in zip(self.parts, parts, strict=True):
            if want.startswith("{"):
                params[want[1:-1]] = have
            elif want != have:
                return None
        return params


def route(
    line: str,
    summary: str,
    endpoint: Endpoint,
    answers: Mapping[int, Content],
    *refusals: int,
    query: Mapping[str, Schema] | None = None,
    body: Schema | None = None,
    public: bool = False,
) -> Route:
    """A path by "METHOD /path/{name}"; `refusals` are the statuses of its errors."""
    method, path = line.split(" ")
    # A missing User-Agent (a knob) is a 400 anywhere, a token is needed but for public paths, and the
    # limits hold for all (for public paths: a knob).
    common = (400, 429) if public else (400, 401, 429)
    told = {**answers, **dict.fromkeys(refusals + common, ERROR)}
    return Route(
        method, path, summary, endpoint, dict(sorted(told.items())), query or {}, body, public, split(path)
    )


def ok(schema: Schema) -> Mapping[int, Content]:
    return {200: {JSON: schema}}


def split(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


Table = Mapping[tuple[str, int], list[Route]]


def table(routes: Iterable[Route]) -> Table:
    """By method and number of parts, each in the order in which they are tried."""
    found: dict[tuple[str, int], list[Route]] = {}
    for each in routes:
        found.setdefault((each.method, len(each.parts)), []).append(each)
    return found


def find(routes: Table, method: str, parts: tuple[str, ...]) -> tuple[Route, Params] | None:
    for each in routes.get((method, len(parts)), ()):
        params = each.match(parts)
        if params is not None:
            return each, params
    return None
