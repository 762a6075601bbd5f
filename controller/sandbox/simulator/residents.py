"""Who lives in the cluster beside the works: small pods without GPUs that somebody keeps alive, wherever there is room.

A ReplicaSet makes each anew that is gone, and now and then somebody restarts all of one: then they go where most is free,
which is often a machine of the controller's. Taking that away means to evict them, and where a budget covers several of one
machine all but the first are refused until another runs elsewhere. On a plain node that is always there all have a place, so none
keeps a machine for ever. They are no pods of the result.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from controller.sandbox.cluster.resources import PODS
from controller.sandbox.simulator.strangers import PLAIN
from controller.sandbox.simulator.workload import Work
from controller.sandbox.simulator.worlds import Worlds

NAMESPACE = "residents"
CPU_MILLI, MEMORY_MIB = 10, 16  # of each: less than what daemons may want of a machine
ROOM = 14  # such pods on the plain node: all there are, and those that are leaving
OFTEN = 10  # one restart for so many works
AFTER = (120.0, 600.0)  # seconds after the arrival of one: its machine may be there


class App(NamedTuple):
    name: str
    replicas: int
    available: int = 0  # at least, by its budget; 0: it has none
    priority: str = ""


APPS = (
    App("web", 3, available=2),
    App("queue", 2, available=1),
    App("cache", 2),
    App("names", 1, priority="system-cluster-critical"),
)


class Residents:
    def __init__(self, worlds: Worlds, works: Sequence[Work], seed: int) -> None:
        self._worlds = worlds
        rng = random.Random(f"{seed}-residents")
        self._settle()
        for work in rng.sample(list(works), len(works) // OFTEN):
            worlds.loop.call_at(work.arrives + rng.uniform(*AFTER), self.restart, rng.choice(APPS))

    def _settle(self) -> None:
        self._make("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self._make("/api/v1/nodes", _plain_node())
        for app in APPS:
            self._make(f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets", _replica_set(app))
            if app.available:
                self._make(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets", _budget(app))

    def _make(self, path: str, body: dict[str, Any]) -> None:
        response = self._worlds.ask_cluster("POST", path, body)
        if response.status >= 300:
            raise RuntimeError(f"{path}: {response.body.decode()}")

    def restart(self, app: App) -> None:
        """Somebody deletes its pods, which asks no budget."""
        for item in list(self._worlds.cluster.store.shelf(PODS).span(NAMESPACE)):
            if item.labels.get("app") == app.name:
                self._worlds.ask_cluster("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{item.key[1]}")


def _plain_node() -> dict[str, Any]:
    room = {"cpu": f"{ROOM * CPU_MILLI}m", "memory": f"{ROOM * MEMORY_MIB}Mi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "kind": "Node",
        "metadata": {"name": PLAIN, "labels": {"kubernetes.io/hostname": PLAIN}},
        "spec": {"providerID": f"other://{PLAIN}"},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def _replica_set(app: App) -> dict[str, Any]:
    labels = {"app": app.name}
    asks = {"cpu": f"{CPU_MILLI}m", "memory": f"{MEMORY_MIB}Mi"}
    spec: dict[str, Any] = {
        "containers": [
            {"name": app.name, "image": f"registry.local/{app.name}:1", "resources": {"requests": asks}}
        ]
    }
    if app.priority:
        spec["priorityClassName"] = app.priority
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": app.name},
        "spec": {
            "replicas": app.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _budget(app: App) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app.name},
        "spec": {"minAvailable": app.available, "selector": {"matchLabels": {"app": app.name}}},
    }
