"""One of the two clusters under comparison: raw HTTP over one kept connection, and open watches.

Neither our own cluster room nor a client library takes part: they would hide what is compared here.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

WITHIN = 20.0  # seconds for any one answer
TOLD = ("content-type", "retry-after", "warning")  # headers that clients act upon


@dataclass(frozen=True)
class Answer:
    code: int
    headers: Mapping[str, str]
    body: Any


class Watched:
    """A watch that is open: lines as they come."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._answer = answer
        self.code = answer.status

    def events(self, count: int) -> list[Any]:
        """So many events, or all until the server ends the watch; fewer when they do not come in time."""
        found: list[Any] = []
        end = time.monotonic() + WITHIN
        while (not count or len(found) < count) and time.monotonic() < end:
            try:
                line = self._answer.readline()
            except TimeoutError:
                return [*found, "<nothing more came in time>"]
            if not line:
                break
            found.append(json.loads(line))
        return found

    def close(self) -> None:
        self._connection.close()


class Side:
    def __init__(self, url: str, token: str, certificate: str | None = None) -> None:
        parts = urlsplit(url)
        self.url, self._certificate = url, certificate
        self._host, self._port = parts.hostname or "", parts.port
        self._token = token
        self._tls = ssl.create_default_context(cafile=certificate) if parts.scheme == "https" else None
        self._kept: http.client.HTTPConnection | None = None

    def another(self) -> Side:
        """The same cluster over a connection of its own."""
        return Side(self.url, self._token, self._certificate)

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=WITHIN)
        return http.client.HTTPSConnection(self._host, self._port, timeout=WITHIN, context=self._tls)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Any,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Accept": "application/json", "Authorization": f"Bearer {self._token}", **headers}
        sent = {name: value for name, value in sent.items() if value}
        connection.request(method, quote(path, safe="/?&=%,!:;+()~"), raw, sent)
        return connection.getresponse()

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        if self._kept is None:
            self._kept = self._connect()
        try:
            answer = self._send(self._kept, method, path, body, headers or {})
            raw = answer.read()
        except (http.client.HTTPException, OSError):
            self._kept.close()
            self._kept = None
            raise
        told = {name: value for name in TOLD if (value := ", ".join(answer.headers.get_all(name) or ()))}
        try:
            read = json.loads(raw)
        except ValueError:
            read = raw.decode(errors="replace")
        return Answer(answer.status, told, read)

    def watch(self, path: str, headers: Mapping[str, str]) -> Watched | Answer:
        """The answer itself where the watch is refused."""
        connection = self._connect()
        answer = self._send(connection, "GET", path, None, headers)
        if answer.status == 200:
            return Watched(connection, answer)
        told = {name: value for name in TOLD if (value := answer.headers.get(name))}
        refused = Answer(answer.status, told, json.loads(answer.read()))
        connection.close()
        return refused

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
