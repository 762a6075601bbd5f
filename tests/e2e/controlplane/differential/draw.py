"""Random worlds, and random pods that wait in them. The same seed draws the same."""

from __future__ import annotations

import json

from tests.e2e.controlplane.differential import draw_amounts, draw_rules, draw_volumes
from tests.e2e.controlplane.differential.chance import Chance
from tests.e2e.controlplane.differential.draw_rules import HOST, NODE_LABELS, POD_LABELS, REGION, ZONE, ZONES
from tests.e2e.controlplane.differential.worlds import (
    CASE,
    FAILED,
    FINISHED,
    NAMESPACES,
    RESIZED,
    STATE,
    STATUS,
    TERMINATING,
    Case,
    Json,
    World,
)  # fmt: skip

SPACES = sorted(NAMESPACES)


def world(seed: str) -> World:
    chance = Chance(seed)
    nodes = [_node(chance, f"n{number}") for number in range(chance.randint(8, 14))]
    hosts = [node["metadata"]["name"] for node in nodes]
    objects = [*draw_amounts.runtime_classes(), *draw_volumes.classes()]
    for space in SPACES:
        for number in range(3):
            mode = chance.choice(["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])
            objects += draw_volumes.bound(chance, space, f"shared-{number}", hosts, mode)
    objects += [_attaches(chance, host) for host in hosts if chance.of(0.6)]
    pods = []
    for host in hosts:
        pods += [
            _bound_pod(chance, f"{host}-{number}", host) for number in range(chance.choice([0, 0, 1, 2, 3]))
        ]
    return World(nodes=tuple(nodes), pods=tuple(pods), objects=tuple(objects))


def _node(chance: Chance, name: str) -> Json:
    labels = chance.labels(NODE_LABELS, 0.5)
    if chance.of(0.97):
        labels[HOST] = name
    if chance.of(0.9):
        labels[ZONE] = chance.choice(sorted(ZONES))
        if chance.of(0.9):
            labels[REGION] = ZONES[labels[ZONE]]
    there = {
        "cpu": chance.choice(["2", "3920m", "8", "16", "32"]),
        "memory": chance.choice(["4Gi", "15988Mi", "64Gi", "128G"]),
        "pods": chance.choice(["1", "3", "10", "110", "110", "110"]),
    }
    if chance.of(0.9):
        there["ephemeral-storage"] = chance.choice(["500Mi", "10Gi", "100Gi", "95551679124"])
    if chance.of(0.65):
        there[draw_amounts.GPU] = chance.choice(["0", "1", "2", "4", "8"])
    if chance.of(0.3):
        there[draw_amounts.RDMA] = chance.choice(["1", "2", "8"])
    if chance.of(0.3):
        there[draw_amounts.HUGE] = chance.choice(["0", "64Mi", "1Gi"])
    spec: Json = {"taints": draw_rules.taints(chance)}
    if chance.of(0.07):
        spec["unschedulable"] = True
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"allocatable": there, "capacity": there, "conditions": [ready]}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def _attaches(chance: Chance, host: str) -> Json:
    """How many disks this node takes of each driver."""
    drivers = []
    for name in (draw_volumes.DRIVER, draw_volumes.OTHER_DRIVER):
        if chance.of(0.7):
            one: Json = {"name": name, "nodeID": host, "topologyKeys": [ZONE]}
            if chance.of(0.8):
                one["allocatable"] = {"count": chance.choice([1, 1, 2, 8])}
            drivers.append(one)
    return {"kind": "CSINode", "metadata": {"name": host}, "spec": {"drivers": drivers}}


def _bound_pod(chance: Chance, name: str, host: str) -> Json:
    space = chance.choice(SPACES)
    labels = chance.labels(POD_LABELS, 0.7)
    meta: Json = {"name": name, "namespace": space, "labels": labels}
    spec: Json = {"nodeName": host, **draw_amounts.containers(chance, rich=0.3)}
    for each in ("runtimeClassName", "resources"):
        spec.pop(each, None)
    if chance.of(0.3):
        spec["affinity"] = draw_rules.affinity(chance, [], labels, 0.7)
        spec["affinity"].pop("nodeAffinity", None)
    if chance.of(0.2):
        spec["volumes"] = [draw_volumes.used("v0", f"shared-{chance.randrange(3)}")]
    if kind := chance.choices(["", TERMINATING, FINISHED, FAILED, RESIZED], weights=[77, 9, 3, 3, 8])[0]:
        meta["annotations"] = {STATE: kind}
    if kind == RESIZED:
        meta["annotations"][STATUS] = json.dumps(draw_amounts.resizing(chance, spec))
    return {"kind": "Pod", "metadata": meta, "spec": spec}


def case(seed: str, number: int, there: World) -> Case:
    """The pod of this number in a world."""
    chance = Chance(f"{seed}/{number}")
    hosts = [node["metadata"]["name"] for node in there.nodes]
    space, labels = chance.choice(SPACES), chance.labels(POD_LABELS, 0.75)
    meta = {"name": f"case-{number}", "namespace": space, "labels": labels | {CASE: "case"}}
    lavish = chance.of(0.2)  # everything at once; mostly one thing or another
    spec: Json = draw_amounts.containers(chance, rich=1.0 if lavish else chance.choice([0.0, 0.3, 1.0]))
    share = 0.5 if lavish else chance.choice([0.0, 0.2, 0.5])
    if chance.of(share * 0.5):
        spec["nodeSelector"] = chance.labels(NODE_LABELS | {ZONE: sorted(ZONES), HOST: hosts}, 0.2)
    if affinity := draw_rules.affinity(chance, hosts, labels, share):
        spec["affinity"] = affinity
    if chance.of(0.5):
        spec["tolerations"] = draw_rules.tolerations(chance)
    if chance.of(share):
        spec["topologySpreadConstraints"] = draw_rules.spreads(chance, labels)
    objects: list[Json] = []
    refused = False
    if chance.of(0.15):
        tag = f"c{number}"
        shared = [f"shared-{each}" for each in range(3)]
        spec["volumes"], objects, refused = draw_volumes.volumes(chance, space, tag, hosts, shared)
    pod = {"kind": "Pod", "metadata": meta, "spec": spec}
    return Case(world=there, pod=pod, objects=tuple(objects), refused=refused)
