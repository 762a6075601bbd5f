"""The cluster as one value without sockets and without a clock of its own: API, scheduler, kubelets.

`handle` answers a request, `tick` does what has become due. Everything that follows from a change is
work on the agenda, so an idle cluster of 30,000 pods costs nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.api import Api
from controller.sandbox.cluster.collecting import Collector
from controller.sandbox.cluster.disruption import Disruption
from controller.sandbox.cluster.join import Machine
from controller.sandbox.cluster.kubelet import Machines
from controller.sandbox.cluster.lifecycle import Lifecycle
from controller.sandbox.cluster.load import load
from controller.sandbox.cluster.pods import PodRunner
from controller.sandbox.cluster.recorder import Recorder
from controller.sandbox.cluster.resources import NODES, PODS, Obj
from controller.sandbox.cluster.scheduler import Scheduler
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.store import Store
from controller.sandbox.cluster.workloads import Workloads
from controller.sandbox.wire import Request, Response


class ClusterWorld:
    def __init__(self, clock: Callable[[], float], seed: int = 0, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        # Two sources of chance: what clients do must not change how long machines take.
        ids, delays = random.Random(f"{seed}-ids"), random.Random(f"{seed}-delays")
        self.agenda = Agenda(clock)
        self.store = Store(clock, ids, self.settings.history)
        self.recorder = Recorder(self.store)
        self.scheduler = Scheduler(self.store, self.agenda, self.recorder)
        self.lifecycle = Lifecycle(self.store, self.agenda, self.recorder, self.settings)
        self.collector = Collector(self.store, self.agenda)
        self.machines = Machines(self.store, self.agenda, self.recorder, self.settings, delays)
        self.pods = PodRunner(self.store, self.agenda, self.recorder, self.settings, self.machines, delays)
        self.workloads = Workloads(self.store, self.agenda, self.recorder, self.settings)
        self.disruption = Disruption(self.store, self.agenda)
        self.api = Api(self.store, self.agenda, self.settings, self.disruption.evict)
        self.lifecycle.begin()
        self.tick()

    def tick(self) -> float | None:
        """Do what is due (a bounded part of it); seconds until more is, None when nothing is planned."""
        return self.agenda.run()

    def handle(self, request: Request) -> Response:
        if request.path.startswith("/_sandbox/"):
            return self._control(request)
        return self.api.handle(request)

    def boot(self, machine: Machine) -> None:
        self.machines.boot(machine)

    def gone(self, machine_id: str) -> None:
        self.machines.gone(machine_id)

    # ---- what only a sandbox offers

    def _control(self, request: Request) -> Response:
        try:
            return self._controlled(
                request.method, request.path.removeprefix("/_sandbox/").rstrip("/"), request
            )
        except (ValueError, TypeError, KeyError) as problem:
            return Response.of_json(400, {"code": "invalid_request", "message": str(problem)})

    def _controlled(self, method: str, what: str, request: Request) -> Response:
        if what == "state" and method == "GET":
            return Response.of_json(200, self.state())
        if what == "settings":
            if method in ("PUT", "PATCH"):
                self.settings.change(request.json())
                self.store.window = self.settings.history
                for shelf in self.store.shelves.values():
                    shelf.window = self.settings.history
                self.machines.settings_changed()
            return Response.of_json(200, self.settings.shown())
        if what == "load" and method == "POST":
            asked: dict[str, Any] = request.json() or {}
            counts = [int(asked.get(name, 0)) for name in ("nodes", "pods", "gpu_nodes")]
            return Response.of_json(200, load(self.store, self.settings, *counts))
        if what == "compact" and method == "POST":
            for shelf in self.store.shelves.values():
                shelf.compact()
            return Response.of_json(200, {"resourceVersion": str(self.store.version)})
        if what == "disconnect" and method == "POST":
            return Response.of_json(200, {"ended": self.api.reader.disconnect()})
        if what.startswith("machines/") and what.endswith("/restart") and method == "POST":
            self.machines.restart(what.split("/")[1])
            return Response.of_json(200, {})
        return Response.of_json(404, {"code": "not_found", "message": f"no {method} /_sandbox/{what}"})

    def state(self) -> Obj:
        """Counts, decisions, nodes and machines, for people and for tests that wait for something."""
        return {
            "resourceVersion": str(self.store.version),
            "counts": {
                shelf.resource.qualified: len(shelf.items)
                for shelf in self.store.shelves.values()
                if shelf.items
            },
            "scheduler": {
                "bound": self.scheduler.bound,
                "waiting": ["/".join(key) for key in sorted(self.scheduler.waiting)[:200]],
                "unschedulable": ["/".join(key) for key in sorted(self.scheduler.refused)[:200]],
                "decisions": list(self.scheduler.decisions),
            },
            "nodes": [self._node(key[1]) for key in self.store.shelf(NODES).keys[:200]],
            "machines": [
                {
                    "id": kubelet.machine.id,
                    "hostname": kubelet.machine.hostname,
                    "node": kubelet.join.node,
                    "phase": kubelet.phase,
                }
                for kubelet in self.machines.on.values()
            ],
            "silent": sorted(self.machines.silent),
            "log": self.machines.log,
        }

    def _node(self, name: str) -> Obj:
        node = self.store.get(NODES, "", name) or {}
        conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or ()}
        phases = Counter(i.decode()["status"].get("phase", "") for i in self.store.shelf(PODS).on_node(name))
        allocatable = node.get("status", {}).get("allocatable") or {}
        return {
            "name": name,
            "ready": conditions.get("Ready", "Unknown"),
            "taints": node.get("spec", {}).get("taints") or [],
            "gpus": allocatable.get("nvidia.com/gpu"),
            "pods": dict(phases),
        }
