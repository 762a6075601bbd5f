"""A large cluster: half of its nodes are machines of ours and all busy, ten pods on each.

The machines stand in the cloud with our marks before the controller starts, so that it adopts them the
way it does after a lost ledger; nothing is written into its own objects.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from controller.domain import names
from tests.e2e.controlplane.bench import load
from tests.e2e.controlplane.bench.latency import POOL
from tests.e2e.controlplane.bench.stage import Stage, say
from tests.e2e.controlplane.scene import SETTINGS as SCENE
from tests.e2e.controlplane.scene import Scene, until

PODS_A_NODE = 10


@dataclass(frozen=True)
class World:
    """What stands there, for whoever measures beside it."""

    stage: Stage
    scene: Scene
    nodes: int
    ours: int
    pods: int


@contextlib.contextmanager
def large(stage: Stage, nodes: int) -> Iterator[World]:
    """Half of the nodes are machines of ours, each with one pod on its GPU."""
    ours, pods = nodes // 2, nodes * PODS_A_NODE
    with stage.scene(last=True, rate_limits=False) as scene:
        say(f"footprint: {ours} machines, {nodes} nodes and {pods} pods are made")
        hostnames = _machines(scene, ours)
        for space in load.NAMESPACES:
            scene.core.create_namespace({"metadata": {"name": space}})
        every = [load.sample_node(number, name, _labels(name)) for number, name in enumerate(hostnames)]
        every += [load.sample_node(number) for number in range(ours, nodes)]
        load.create(stage.plane.kubeconfig, every)
        bound = [
            load.sample_pod(number, node[1]["metadata"]["name"], 1 if k == 0 and at < ours else 0)
            for number, (k, (at, node)) in enumerate(itertools.product(range(PODS_A_NODE), enumerate(every)))
        ]
        took = load.create(stage.plane.kubeconfig, bound)
        say(f"created {pods} pods in {took:.0f} s; now they start")
        until("all pods run", lambda: _none_pending(stage), 600)
        yield World(stage, scene, nodes, ours, pods)


def _none_pending(stage: Stage) -> bool:
    time.sleep(1)
    answer = stage.api.get("/api/v1/pods?limit=1&fieldSelector=status.phase%3DPending")
    return not json.loads(answer)["items"]


def _machines(scene: Scene, count: int) -> list[str]:
    """Running instances with our marks, as an earlier run of the controller would have left them."""
    rng = random.Random(5)
    cluster, pool = str(SCENE["cluster_id"]), str(POOL["name"])
    found = []
    for _ in range(count):
        intent = "".join(rng.choice(names.INTENT_ALPHABET) for _ in range(names.INTENT_LENGTH))
        hostname = names.hostname(cluster, pool, intent)
        tags = {names.TAG_CLUSTER: cluster, names.TAG_POOL: pool, names.TAG_INTENT: intent}
        marks = [{"key": key, "value": value} for key, value in tags.items()]
        order = {
            "instance_type": "1A100.22V",
            "location_code": "FIN-01",
            "image": "ubuntu-22.04",
            "hostname": hostname,
            "description": names.description(cluster, intent),
            "tags": marks,
            "os_volume": {"name": hostname, "size": 100, "tags": marks},
            "running": True,
        }
        scene.tell_cloud("POST", "instances", order)
        found.append(hostname)
    return found


def _labels(hostname: str) -> dict[str, str]:
    where, kind = "FIN-01", "1A100.22V"
    return {
        names.LABEL_POOL: str(POOL["name"]),
        names.LABEL_MACHINE: hostname,
        names.LABEL_LOCATION: where,
        names.LABEL_MARKET: "on-demand",
        names.LABEL_GPU: "a100-80gb",
        names.LABEL_INSTANCE_TYPE: kind,
        names.LABEL_REGION: where,
        names.LABEL_ZONE: where,
    }
