"""What passes between a world's core and whoever carries it: plain requests, answers and streams.

A core (the cloud, the cluster) never sees a socket: it turns a `Request` into a `Response`, so that
the same core runs behind real HTTP and, in memory, under a virtual clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec


class Request(msgspec.Struct, frozen=True, gc=False):
    method: str
    path: str
    query: Mapping[str, list[str]] = {}
    headers: Mapping[str, str] = {}  # keys in lower case
    body: bytes = b""

    @classmethod
    def of(
        cls, method: str, target: str, body: bytes | Any = b"", headers: Mapping[str, str] | None = None
    ) -> Request:
        """A request from a target with its query string; a body that is not bytes is sent as JSON."""
        parts = urlsplit(target)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        lowered = {key.lower(): value for key, value in (headers or {}).items()}
        query = parse_qs(parts.query, keep_blank_values=True)
        return cls(method.upper(), parts.path, query, lowered, raw)

    def first(self, name: str, default: str = "") -> str:
        values = self.query.get(name)
        return values[0] if values else default

    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


class Stream:
    """A body that goes on: the core puts chunks, the carrier drains them.

    `wake` is set by the carrier and called after each put or close; `abandon` is called by the
    carrier when its client went away, and tells the core (through `on_abandon`) to forget it.
    """

    __slots__ = ("_chunks", "abandoned", "closed", "on_abandon", "wake")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.closed = False
        self.abandoned = False
        self.wake: Callable[[], None] | None = None
        self.on_abandon: Callable[[], None] | None = None

    def put(self, chunk: bytes) -> None:
        if not (self.closed or self.abandoned):
            self._chunks.append(chunk)
            if self.wake:
                self.wake()

    def close(self) -> None:
        self.closed = True
        if self.wake:
            self.wake()

    def abandon(self) -> None:
        self.abandoned = True
        self._chunks.clear()
        if self.on_abandon:
            self.on_abandon()

    @property
    def waiting(self) -> bool:
        """Whether there is something to drain."""
        return bool(self._chunks)

    def drain(self) -> list[bytes]:
        chunks, self._chunks = self._chunks, []
        return chunks


class Response(msgspec.Struct, frozen=True):
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}
    stream: Stream | None = None

    @classmethod
    def of_json(cls, status: int, value: Any, headers: Mapping[str, str] | None = None) -> Response:
        raw = msgspec.json.encode(value)  # lists of thousands of things in milliseconds
        return cls(status, raw, {"Content-Type": "application/json", **(headers or {})})

    def json(self) -> Any:
        return json.loads(self.body)
