"""A large cluster: 1,000 nodes, half of them machines of ours and all busy, and 10,000 pods.

The machines stand in the cloud with our marks before the controller starts, so it adopts them the way
it does after a lost ledger. Then nothing changes any more but what a cluster of that size says by itself:
each node's status once in five minutes, as kubelets do (KWOK's own come later, and its leases are not
watched by the controller).
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controller.domain import names
from tests.e2e.controlplane.bench import load
from tests.e2e.controlplane.bench.audit import asked
from tests.e2e.controlplane.bench.latency import POOL
from tests.e2e.controlplane.bench.rows import Row
from tests.e2e.controlplane.bench.stage import Controller, Stage, requests_at, say
from tests.e2e.controlplane.bench.watcher import Watcher
from tests.e2e.controlplane.scene import NAMESPACE, Scene, until
from tests.e2e.controlplane.scene import SETTINGS as SCENE

SETTINGS: dict[str, Any] = {"pools": [POOL], "limits": {"launches_per_minute": 1000}}
KUBELET_REPORTS = 300.0  # seconds between two status reports of a kubelet about which nothing changed
PODS_A_NODE = 10
SETTLE = 30.0
IDLE = 75.0
MOST_MIB = 120.0
CONFIG_MAP_LIMIT_KIB = 1024.0


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
        until("all pods run", lambda: _none_pending(stage), 400)
        yield World(stage, scene, nodes, ours, pods)


def measure(world: World, controller: Controller, started: float) -> list[Row]:
    """The controller beside it, from its start until it has long been idle."""
    until("all machines are ready", lambda: _ready(controller) >= world.ours, 180)
    in_step = time.time() - started
    say(f"all machines are adopted and ready after {in_step:.0f} s")
    time.sleep(SETTLE)
    rows = _idle(world, controller)
    resident, most = controller.resident()
    rows += [
        Row("rss_mib", "resident memory, settled", resident, "MiB", below=MOST_MIB),
        Row("rss_most_mib", "the most it ever was, at the start", most, "MiB", below=MOST_MIB),
        Row(
            "adopted_s",
            f"from the start until {world.ours} machines are adopted and ready",
            round(in_step),
            "s",
        ),
    ]
    for name in (names.LEDGER_CONFIGMAP, names.STATUS_CONFIGMAP):
        raw = world.scene.core.read_namespaced_config_map(name, NAMESPACE, _preload_content=False).data
        size = sum(len(text.encode()) for text in json.loads(raw)["data"].values()) / 1024
        rows.append(Row(name, f"size of ConfigMap {name}", round(size), "KiB", below=CONFIG_MAP_LIMIT_KIB))
    return rows


def _idle(world: World, controller: Controller) -> list[Row]:
    stage = world.stage
    say(f"idle for {IDLE:.0f} s, but for the nodes' own reports")
    with (
        _reports(stage, world.nodes) as sent,
        Watcher(stage.plane.kubeconfig, "/api/v1/nodes") as nodes,
        Watcher(stage.plane.kubeconfig) as pods,
    ):
        time.sleep(2)
        began, cpu, lists = (
            time.time(),
            controller.cpu(),
            stage.metric("apiserver_request_total", verb="LIST"),
        )
        reports, lines = sent[0], nodes.lines + pods.lines
        plans = controller.metric("gpu_autoscaler_plan_seconds_count")
        spent = controller.metric("gpu_autoscaler_plan_seconds_sum")
        time.sleep(IDLE)
        over = time.time() - began
        share = (controller.cpu() - cpu) / over
        lists = stage.metric("apiserver_request_total", verb="LIST") - lists
        reports, lines = sent[0] - reports, nodes.lines + pods.lines - lines
        plans = controller.metric("gpu_autoscaler_plan_seconds_count") - plans
        spent = controller.metric("gpu_autoscaler_plan_seconds_sum") - spent
    mine = asked(stage.plane, NAMESPACE, since=began, until=began + over)
    background: Counter[str] = Counter(f"{each.verb} {each.resource}" for each in mine)
    calls = len([r for r in requests_at(world.scene) if began <= r["at"] < began + over])
    per_minute = 60 / over
    traffic = f"{reports / over:.1f} node reports and {lines / over:.1f} watch lines a second"
    return [
        Row("idle_cpu", "CPU of the controller when nothing changes", round(100 * share, 2), "% of a core",
            below=2.0, note=traffic),
        Row("idle_lists", f"lists in {over:.0f} s by all clients (apiserver_request_total)", lists, exactly=0),
        Row("idle_lists_ours", "lists by the controller (audit log)",
            sum(1 for each in mine if each.verb == "list"), exactly=0),
        Row("idle_requests", "requests a minute by the controller, Lease and watches apart",
            round(sum(n for key, n in background.items()) * per_minute, 1), note=_counts(background)),
        Row("idle_writes", "of these writes", sum(1 for each in mine if each.verb not in ("get", "list")),
            exactly=0),
        Row("idle_cloud", "requests a minute to the cloud", round(calls * per_minute, 1)),
        Row("idle_plans", "plans a minute", round(plans * per_minute, 1),
            note=f"{1000 * spent / max(1.0, plans):.0f} ms each"),
    ]  # fmt: skip


def _none_pending(stage: Stage) -> bool:
    time.sleep(1)
    answer = stage.api.get("/api/v1/pods?limit=1&fieldSelector=status.phase%3DPending")
    return not json.loads(answer)["items"]


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in found.most_common())


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


def _ready(controller: Controller) -> int:
    return sum(1 for machine in controller.status()["machines"] if machine["phase"] == "ready")


@contextlib.contextmanager
def _reports(stage: Stage, count: int) -> Iterator[list[int]]:
    """Every node says that it is alive, evenly over five minutes; how many did so far."""
    end, sent = threading.Event(), [0]
    found = json.loads(stage.api.get("/api/v1/nodes"))["items"]
    every = [node["metadata"]["name"] for node in found]
    thread = threading.Thread(target=_report, args=(stage, every, end, sent), daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        end.set()
        thread.join(10)


def _report(stage: Stage, every: list[str], end: threading.Event, sent: list[int]) -> None:
    connection = stage.api.connection()
    kind = "application/strategic-merge-patch+json"
    with contextlib.suppress(http.client.HTTPException, OSError):
        for name in itertools.cycle(every):
            if end.wait(KUBELET_REPORTS / len(every)):
                break
            beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": datetime.now(UTC).isoformat()}
            stage.api.send(
                connection, "PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": [beat]}}, kind
            )
            sent[0] += 1
    connection.close()
