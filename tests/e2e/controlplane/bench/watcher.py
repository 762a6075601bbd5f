"""An independent watch of pods or nodes: when each pod was first called Unschedulable, by this machine's clock.

The API's own times are whole seconds. What is told here is when somebody who watches can know it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any

from tests.e2e.controlplane.bench.api import Api


class Watcher:
    """As a context: a thread that reads one watch from now on, until its end."""

    def __init__(self, kubeconfig: Path, path: str = "/api/v1/pods") -> None:
        self._api = Api(kubeconfig)
        self._path = path
        self._connection = self._api.connection(timeout=None)
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._follow, name="watcher", daemon=True)
        self._ended = False
        self.lines = 0
        self.phases: dict[str, str] = {}
        self.unschedulable: dict[str, float] = {}

    def __enter__(self) -> Watcher:
        # One object, for the version of the whole list; the watch goes on from there.
        version = json.loads(self._api.get(f"{self._path}?limit=1"))["metadata"]["resourceVersion"]
        self._stream = self._api.stream(
            self._connection, f"{self._path}?watch=true&resourceVersion={version}"
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        if self._connection.sock is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(2)
        self._thread.join(10)

    def _follow(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            while line := self._stream.readline():
                self._take(line, time.time())
        if not self._ended:
            print(f"the watch of {self._path} ended early", flush=True)

    def _take(self, line: bytes, moment: float) -> None:
        event = json.loads(line)
        found: dict[str, Any] = event["object"]
        name, status = found["metadata"].get("name", ""), found.get("status", {})
        with self._changed:
            self.lines += 1
            if event["type"] == "DELETED":
                self.phases.pop(name, None)
            else:
                self.phases[name] = status.get("phase", "")
            if any(c.get("reason") == "Unschedulable" for c in status.get("conditions", ())):
                self.unschedulable.setdefault(name, moment)
            self._changed.notify_all()

    def wait_unschedulable(self, name: str, within: float = 60.0) -> float:
        with self._changed:
            if not self._changed.wait_for(lambda: name in self.unschedulable, within):
                raise TimeoutError(f"pod {name} was not called Unschedulable within {within:g} s")
            return self.unschedulable[name]

    def count(self, phase: str) -> int:
        with self._changed:
            return sum(1 for each in self.phases.values() if each == phase)
