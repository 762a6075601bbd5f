"""Watches both worlds several times a second and notes each broken promise. It never acts.

Seen from outside only: instances and calls at the cloud, pods and Nodes through the official client.
"""

from __future__ import annotations

import threading
from typing import Any

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.e2e.controlplane.scene import Scene

GPU = "nvidia.com/gpu"
LOOK = 0.2


class Judge:
    """`excused` holds names of machines that the scenario itself took away, or whose Node it deleted."""

    def __init__(self, scene: Scene, most: int, prefix: str) -> None:
        self._scene = scene
        self._most = most
        self._prefix = prefix
        self.excused: set[str] = set()
        self.broken: list[str] = []
        self.looks = 0
        self.most_at_once = 0
        self.ran: set[str] = set()  # UIDs of the GPU pods that were seen running
        self._at_work: dict[str, set[str]] = {}  # machine -> keys of the GPU pods seen running on it last
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="judge", daemon=True)

    def __enter__(self) -> Judge:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(10)

    def _watch(self) -> None:
        while not self._end.wait(LOOK):
            try:
                self._look()
            except (ApiException, HTTPError, OSError):
                self._at_work = {}  # nothing is known about the time that was missed
        # a thread that died would look like peace

    def alive(self) -> bool:
        return self._thread.is_alive()

    def _look(self) -> None:
        live = [each for each in self._scene.live() if each["hostname"].startswith(self._prefix)]
        names = [each["hostname"] for each in live]
        for name in {name for name in names if names.count(name) > 1}:
            self.broken.append(f"two machines for one intent: {name}")
        if len(live) > self._most:
            self.broken.append(f"{len(live)} machines, and the pool's max is {self._most}")
        self.most_at_once = max(self.most_at_once, len(live))
        for name, before in self._at_work.items():
            if name in names or name in self.excused or not before:
                continue
            still = before & self._running().get(name, set())
            if still:
                self.broken.append(f"{name} was taken away under {', '.join(sorted(still))}")
        self._at_work = {name: pods for name, pods in self._running().items() if name in names}
        self.looks += 1

    def _running(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for pod in self._scene.core.list_namespaced_pod("default").items:
            if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp and _gpus(pod):
                found.setdefault(pod.spec.node_name, set()).add(pod.metadata.uid)
                self.ran.add(pod.metadata.uid)
        return found


def _gpus(pod: Any) -> int:
    return sum(int((c.resources.limits or {}).get(GPU, 0)) for c in pod.spec.containers)
