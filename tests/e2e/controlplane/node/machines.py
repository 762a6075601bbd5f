"""Machines that the sandbox cloud runs are switched on for real: each boots with what its script says.

One that is gone in the cloud is switched off. `hold` keeps new ones from booting for a while.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.e2e.controlplane.node.identity import Identity, told_by, written_by
from tests.e2e.controlplane.node.machine import Machine

POLL = 0.2


class Machines:
    def __init__(self, cloud: str, programs: Path, folder: Path, bootstrap: Mapping[str, Any]) -> None:
        self._state = cloud.removesuffix("/v1") + "/_sandbox/state"
        self._programs = programs
        self._folder = folder
        self._bootstrap = bootstrap  # for scripts that bring none of their own
        self.hold = threading.Event()
        self.written: dict[str, Identity] = {}  # by the script's own settings files
        self.told: dict[str, Identity] = {}  # by its join line
        self.on: dict[str, Machine] = {}  # by instance id
        self.off: list[Machine] = []
        self._problem: BaseException | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machines")

    def __enter__(self) -> Machines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        try:
            while not self._end.wait(POLL):
                self._follow()
        except BaseException as problem:  # noqa: BLE001  (told by whoever waits for the thread)
            self._problem = problem
        finally:
            for identity in list(self.on):
                self._switch_off(identity)

    def _follow(self) -> None:
        with urlopen(self._state, timeout=10) as answer:  # noqa: S310
            running = {i["id"]: i for i in json.load(answer)["instances"] if i["status"] == "running"}
        for identity in [known for known in self.on if known not in running]:
            self._switch_off(identity)
        for identity, found in running.items():
            if identity not in self.on and not self.hold.is_set():
                self._boot(identity, found["script"])

    def _boot(self, identity: str, script: str) -> None:
        folder = self._folder / identity[:8]
        told, written = told_by(script), written_by(script, folder / "script")
        self.told[told.name], self.written[told.name] = told, written
        machine = Machine(self._programs, folder, written, written.bootstrap or dict(self._bootstrap))
        self.on[identity] = machine
        machine.start()

    def _switch_off(self, identity: str) -> None:
        machine = self.on[identity]
        print(machine.last_words())  # shown where a test fails
        machine.stop()
        self.off.append(self.on.pop(identity))
