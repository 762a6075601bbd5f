"""A controller that is killed at any moment, again and again, while pods come and go.

The moments are drawn from a seed, which is printed; `E2E_SEED` draws the same ones again, as far as the
programs keep step.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable

import pytest
from kubernetes import client
from kubernetes.client.exceptions import NotFoundException

from tests.e2e.controlplane.scene import NAMESPACE, Scene, running, until
from tests.e2e.controlplane.work import PROMPT
from tests.e2e.programs import Started

LIVES = 8
PODS = 7
TYPES = ["1A100.22V", "2A100.44V"]
# Each pod has a pool of its own: no machine is used twice, so the orders must be as many as the pods. A second
# machine for a pod has room.
POOLS = [{"name": f"p{number}", "instance_types": TYPES, "max": 2} for number in range(PODS)]


class Crowd:
    """Pods that are created one by one, run, and are deleted some time after they were seen to run."""

    def __init__(self, scene: Scene, rng: random.Random) -> None:
        self._scene = scene
        self._rng = rng
        self._waiting = [f"p{number}" for number in range(PODS)]
        self._next = 0.0
        self._ends: dict[str, float] = {}
        self.ran: set[str] = set()

    def move(self) -> None:
        """One small step: now and then somebody comes; who has run for long enough goes."""
        now = time.monotonic()
        if self._waiting and now > self._next:
            self._next = now + self._rng.uniform(0, 3)
            gpus = self._rng.choice((1, 2))
            name = self._waiting.pop()
            self._scene.pod(name, gpus, nodeSelector={"gpu-autoscaler/pool": name})
        for pod in self._scene.core.list_namespaced_pod("default").items:
            name = pod.metadata.name
            if pod.status.phase == "Running" and name not in self.ran:
                self.ran.add(name)
                self._ends[name] = now + self._rng.uniform(0, 3)
        for name in [name for name, end in self._ends.items() if end < now]:
            del self._ends[name]
            self._scene.delete_pod(name)

    @property
    def done(self) -> bool:
        return len(self.ran) == PODS and not self._ends


@pytest.mark.usefixtures("prompt_kubelets")
@pytest.mark.long
def test_killed_at_random_moments_it_never_buys_twice_and_leaves_nothing_behind(scene: Scene) -> None:
    seed = int(os.environ.get("E2E_SEED") or random.randrange(10**6))
    print(f"E2E_SEED={seed}")
    rng = random.Random(seed)
    crowd = Crowd(scene, rng)
    settings = {**PROMPT, "pools": POOLS}
    for _ in range(LIVES):
        controller = scene.controller(settings)
        with running(controller):
            moment = _moment(scene, controller, rng)
            while not moment():
                crowd.move()
            controller.process.kill()
            controller.process.wait(10)
        print(*controller.complaints, "-- killed", sep="\n")
        _take_the_lease_away(scene)
    last = scene.controller(settings)
    with running(last):
        until("every pod ran", lambda: crowd.move() or crowd.done)
        until("nothing is left in the account", scene.empty)
        until("no Node is left", lambda: not scene.nodes())
        until("the ledger knows of nothing", lambda: not _records(scene))
        print(*last.complaints, sep="\n")
        assert scene.state()["creates"] == PODS


def _moment(scene: Scene, controller: Started, rng: random.Random) -> Callable[[], bool]:
    """Some time after it began to lead, or as soon as an order arrives or a machine is about to go."""
    kind = rng.choice(("time", "create", "taint"))
    patience = rng.uniform(0, 3)
    creates = scene.state()["creates"]
    began = 0.0

    def come() -> bool:
        nonlocal began
        if not began:
            leads = any("lease  held=True" in line for line in controller.complaints)
            began = time.monotonic() if leads else 0.0
        elif time.monotonic() > began + patience:
            return True
        if kind == "create":
            return bool(scene.state()["creates"] > creates)
        return kind == "taint" and any(node.spec.taints for node in scene.core.list_node().items)

    return come


def _take_the_lease_away(scene: Scene) -> None:
    """Its holder is dead; to wait for its end is another scenario."""
    leases = client.CoordinationV1Api(scene.core.api_client)
    try:
        leases.delete_namespaced_lease("gpu-autoscaler", NAMESPACE)
    except NotFoundException:  # it did not live for long enough to take it
        return


def _records(scene: Scene) -> list[object]:
    """Without intents that were never sent, which stay as tombstones for a day."""
    stored = scene.core.read_namespaced_config_map("gpu-autoscaler-ledger", NAMESPACE)
    machines = json.loads(stored.data["ledger.json"])["machines"]
    return [machine for machine in machines if machine["phase"] != "tombstone"]
