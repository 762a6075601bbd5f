"""One pod at a time: from its creation to Unschedulable to the order at the cloud.

Each pod needs a machine of its own. "Created" is the moment before the create request was sent,
"Unschedulable" when an independent watcher reads it, "ordered" when POST /instances arrived.
"""

from __future__ import annotations

import random
import time
from typing import Any

from tests.e2e.controlplane.bench import load
from tests.e2e.controlplane.bench.rows import Row, spread
from tests.e2e.controlplane.bench.stage import SCRIPTS, Stage, orders_at, say
from tests.e2e.controlplane.bench.watcher import Watcher
from tests.e2e.controlplane.scene import Scene, until

POOL = {"name": "a100", "instance_types": ["1A100.22V"], "locations": ["FIN-01"], "max": 1000}
SETTINGS: dict[str, Any] = {"pools": [POOL], "limits": {"launches_per_minute": 1000, "scripts": SCRIPTS}}
ABOUT = (
    "Each needs a machine with one GPU of its own. Settings are the defaults except for "
    f"`limits.launches_per_minute: 1000` and room for {SCRIPTS:,} startup scripts; the cloud does not count requests."
)
GOALS = {"p50": 300.0, "p99": 1000.0}
PODS = "/api/v1/namespaces/default/pods"


def baseline(stage: Stage, pods: int = 20) -> list[Row]:
    """What the control plane alone needs to call a pod Unschedulable."""
    say(f"baseline: {pods} pods without a controller")
    took = []
    connection = stage.api.connection()
    with Watcher(stage.plane.kubeconfig) as seen:
        for number in range(pods):
            name = f"alone-{number}"
            began = time.time()
            stage.api.send(connection, "POST", PODS, load.gpu_pod(name, 1))
            took.append(seen.wait_unschedulable(name) - began)
            stage.api.send(connection, "DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
    connection.close()
    return spread("alone", "pod created → Unschedulable, without any controller", took)


def measure(stage: Stage, pods: int = 100) -> list[Row]:
    say(f"latency: {pods} pods, one at a time")
    created: list[float] = []
    unschedulable: list[float] = []
    with (
        stage.scene(rate_limits=False) as scene,
        stage.controller(scene, SETTINGS),
        Watcher(stage.plane.kubeconfig) as seen,
    ):
        connection = stage.api.connection()
        pause = random.Random(1)  # not in step with anything that the controller does now and then
        for number in range(pods):
            created.append(time.time())
            stage.api.send(connection, "POST", PODS, load.gpu_pod(f"one-{number}", 1))
            unschedulable.append(seen.wait_unschedulable(f"one-{number}"))
            time.sleep(0.15)
            _wait_for_order(scene, number + 1)
            time.sleep(pause.uniform(0.1, 0.4))
        connection.close()
        time.sleep(1)
        orders = orders_at(scene)
    moments = [order["at"] for order in orders]
    rows = [Row("orders", f"orders for {pods} pods that arrive one at a time", len(orders), exactly=pods)]
    if len(orders) == pods:
        whole = [ordered - began for began, ordered in zip(created, moments, strict=True)]
        told = [at - began for began, at in zip(created, unschedulable, strict=True)]
        ours = [ordered - at for at, ordered in zip(unschedulable, moments, strict=True)]
        rows += spread("latency", "pod created → Unschedulable → order at the cloud", whole, GOALS)
        rows += spread("latency_told", "of it: created → Unschedulable", told)
        rows += spread("latency_ours", "of it: Unschedulable → order, quiet window of 100 ms included", ours)
    return rows


def _wait_for_order(scene: Scene, count: int) -> None:
    until(f"order {count} arrives", lambda: len(orders_at(scene)) >= count, 30)
