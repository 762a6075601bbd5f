"""The API server as the controller reaches it in memory: the cluster room's transport without sockets.

Requests and watches are those of the real connection: the same paths, bodies, time-outs and errors. Only
credentials are missing, which the sandbox does not ask for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Protocol
from urllib.parse import parse_qs

import msgspec

from controller.cluster import answers
from controller.cluster.connection import TIMEOUT, Connection
from controller.cluster.protocol import ClusterError
from controller.sandbox.simulator.carrier import Carried
from controller.sandbox.simulator.clock import nap
from controller.sandbox.wire import Request, Response

HOST = "memory"


class Ground(Protocol):
    """Where requests arrive."""

    def carried(self, request: Request) -> Carried: ...


class _Ear:
    """Hears what is sent on a stream a moment later, together with what follows meanwhile; and that nothing comes."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, latency: Callable[[], float], patience: float
    ) -> None:
        self.news = asyncio.Event()
        self.silent = False
        self._loop = loop
        self._latency = latency
        self._patience = patience
        self._heard = loop.time()
        self._coming = False
        self._silence = loop.call_later(patience, self._listen)

    def sent(self) -> None:
        if not self._coming:
            self._coming = True
            self._loop.call_later(self._latency(), self._arrived)

    def _arrived(self) -> None:
        self._coming, self._heard = False, self._loop.time()
        self.news.set()

    def _listen(self) -> None:
        self.silent = self._loop.time() >= self._heard + self._patience
        if self.silent:
            self.news.set()
        else:
            self._silence = self._loop.call_at(self._heard + self._patience, self._listen)

    def close(self) -> None:
        self._silence.cancel()


class GroundConnection(Connection):
    def __init__(self, ground: Ground, *, latency: Callable[[], float]) -> None:
        self.dead = False
        self._ground = ground
        self._latency = latency

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> bytes:
        limit = timeout or TIMEOUT
        data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        await nap(self._latency())
        found = self._carried(method, path, query, data, content_type)
        if found.seconds > limit:
            await nap(limit)
            raise answers.unreachable(f"{method} {path}", HOST, f"time-out after {limit:g} s")
        await nap(self._latency() + found.seconds)
        self._alive(method, path)
        if found.response is None or not found.whole:
            raise answers.unreachable(f"{method} {path}", HOST, "the connection was lost")
        if found.response.status >= 300:
            raise self._refused(f"{method} {path}", found.response)
        return found.response.body

    def _alive(self, method: str, path: str) -> None:
        if self.dead:
            raise ClusterError("other", f"{method} {path}: this process is dead")

    def _carried(
        self, method: str, path: str, query: Mapping[str, str] | None, data: bytes, content_type: str
    ) -> Carried:
        self._alive(method, path)
        headers = {"accept": "application/json"} | ({"content-type": content_type} if data else {})
        plain, _, asked = path.partition("?")
        params = parse_qs(asked, keep_blank_values=True) if asked else {}
        for key, value in (query or {}).items():
            params[key] = [value]
        return self._ground.carried(Request(method, plain, params, headers, data))

    @staticmethod
    def _refused(asked: str, response: Response) -> ClusterError:
        told = next((v for key, v in response.headers.items() if key.lower() == "retry-after"), "")
        return answers.refused(asked, response.status, response.body, told)

    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, read_timeout: float = 330.0
    ) -> AsyncGenerator[bytes, None]:
        await nap(self._latency())
        found = self._carried("GET", path, query, b"", "")
        await nap(self._latency() + min(found.seconds, read_timeout))
        self._alive("GET", path)
        if found.response is None or found.seconds > read_timeout:
            raise answers.unreachable(f"GET {path}", HOST, "the connection was lost")
        stream = found.response.stream
        if found.response.status >= 300 or stream is None:
            raise self._refused(f"GET {path}", found.response)
        ear = _Ear(asyncio.get_running_loop(), self._latency, read_timeout)
        stream.wake = ear.sent
        try:
            while True:
                ear.news.clear()
                closed = stream.closed  # read first: what was put before the end is still drained
                for chunk in stream.drain():
                    for line in chunk.splitlines():
                        if line:
                            yield line
                if closed:
                    return
                await ear.news.wait()
                self._alive("GET", path)
                if ear.silent:
                    raise answers.unreachable(f"GET {path}", HOST, f"time-out after {read_timeout:g} s")
        finally:
            ear.close()
            stream.wake = None
            if not stream.closed:
                stream.abandon()

    def apart(self) -> GroundConnection:
        return self  # there is nothing here that calls could share

    async def close(self) -> None:
        self.dead = True
