"""An extender of the scheduler: it is told which nodes passed every filter for a pod, before one is chosen.

So one pod tells about all nodes at once, and not only about the one that it is bound to. It changes the
answer only where it was asked to: `allow` names the nodes that are left for a pod.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class Listener:
    """What passed, by the UID of the pod; `heard` is called after each answer."""

    def __init__(self, heard: Callable[[], None]) -> None:
        self.passed: dict[str, frozenset[str]] = {}
        self.allow: dict[str, frozenset[str]] = {}  # by namespace/name; all where it says nothing
        listener = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65536  # one packet an answer, or each waits for an acknowledgement
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps({"NodeNames": listener.answer(asked)}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()
                heard()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def answer(self, asked: dict[str, Any]) -> list[str]:
        meta, names = asked["Pod"]["metadata"], asked["NodeNames"] or []
        self.passed[meta["uid"]] = frozenset(names)
        allowed = self.allow.get(f"{meta['namespace']}/{meta['name']}")
        return [name for name in names if allowed is None or name in allowed]

    @property
    def configuration(self) -> dict[str, Any]:
        """As the scheduler's configuration names it."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return {"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "10s"}

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
