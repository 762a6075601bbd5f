"""A server on loopback that answers as scripted, counts its connections and can lose, reset or hang."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

SECRET = "s3cret-of-the-client"
ID = "8472bacf-875d-4e86-ad31-4a5d2dcd5f4d"


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: Any = ""  # a text is sent as it is, anything else as JSON
    headers: dict[str, str] = field(default_factory=dict)
    fault: str = ""  # "reset": no answer, the connection is reset; "hang": no answer at all
    wait: threading.Event | None = None  # the answer is held back until then, five seconds at most

    @property
    def raw(self) -> bytes:
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    connection: int


Decide = Callable[[Seen], Reply]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # many threads connect at once; one too many would wait for a second


class Stub:
    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.connections = 0
        self.token_life = 3600
        self._plans: dict[tuple[str, str], list[Reply | Decide]] = {}
        self._lock = threading.Lock()
        self._released = threading.Event()
        stub = self

        class Handler(_Handler):
            owner = stub

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.host}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def on(self, method: str, path: str, *replies: Reply | Decide) -> None:
        """The answers to come; the last one stays. An answer may depend on the request."""
        self._plans[method, path] = list(replies)

    def of(self, method: str, path: str) -> list[Seen]:
        return [one for one in self.seen if (one.method, one.path) == (method, path)]

    @property
    def tokens(self) -> list[Seen]:
        return self.of("POST", "/oauth2/token")

    def reply(self, seen: Seen) -> Reply:
        with self._lock:
            self.seen.append(seen)
            plan = self._plans.get((seen.method, seen.path))
            if plan:
                reply = plan.pop(0) if len(plan) > 1 else plan[0]
                return reply if isinstance(reply, Reply) else reply(seen)
            if seen.path == "/oauth2/token":
                return self.token(len(self.tokens))
        return Reply(404, {"code": "not_found", "message": "Resource not found"})

    def token(self, number: int) -> Reply:
        return Reply(
            200,
            {
                "access_token": f"token-{number}",
                "refresh_token": f"refresh-{number}",
                "token_type": "Bearer",
                "expires_in": self.token_life,
                "scope": "cloud-api-v1",
            },
        )

    def hang(self) -> None:
        self._released.wait(5)

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Stub

    def setup(self) -> None:
        with self.owner._lock:
            self.owner.connections += 1
            self.number = self.owner.connections
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            super().handle()

    def finish(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().finish()

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reply = self.owner.reply(
            Seen(
                self.command,
                parts.path.removeprefix("/v1"),
                {key: values[0] for key, values in parse_qs(parts.query).items()},
                {key.lower(): value for key, value in self.headers.items()},
                json.loads(raw) if raw else None,
                self.number,
            )
        )
        if reply.wait is not None:
            reply.wait.wait(5)
        if reply.fault == "hang":
            self.owner.hang()
        if reply.fault:
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            return
        self.send_response_only(reply.status)  # no Date, which would be of another clock than the tests'
        for key, value in reply.headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(reply.raw)))
        self.end_headers()
        self.wfile.write(reply.raw)

    do_GET = do_POST = do_PUT = do_DELETE = _answer

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def stub() -> Iterator[Stub]:
    server = Stub()
    try:
        yield server
    finally:
        server.close()


def refusal(status: int, code: str, message: Any, **headers: str) -> Reply:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Reply(status, {"code": code, "message": message}, named)
