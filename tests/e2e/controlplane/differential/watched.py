"""The pods that are judged, as they change: one watch, read in a thread of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable

from tests.e2e.controlplane.conformance.side import Answer, Side
from tests.e2e.controlplane.differential.worlds import CASE, Json


class Watched(threading.Thread):
    """Ends when the API server does."""

    def __init__(self, side: Side, heard: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._side, self._heard = side, heard
        self.latest: dict[str, Json] = {}  # by UID
        self._ended = False
        self._connection: http.client.HTTPConnection | None = None

    def end(self) -> None:
        """An API server waits for whoever still watches before it goes."""
        self._ended = True
        sock = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.join(10)

    def run(self) -> None:
        query = f"/api/v1/pods?watch=true&labelSelector={CASE}=case&timeoutSeconds=3600"
        while not self._ended:
            try:
                opened = self._side.watch(query, {})
            except OSError:
                return
            if isinstance(opened, Answer):
                return
            self._connection = opened._connection
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                self._read(opened._answer)
            opened.close()

    def _read(self, lines: http.client.HTTPResponse) -> None:
        while line := lines.readline():
            event = json.loads(line)
            if event["type"] in ("ADDED", "MODIFIED"):
                self.latest[event["object"]["metadata"]["uid"]] = event["object"]
                self._heard()
