"""Memory, CPU and requests beside a large cluster in which nothing changes any more.

Nothing but what a cluster of that size says by itself: each node's status once in five minutes, as kubelets
do. KWOK's own reports come later, and its Leases are not watched by the controller.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from controller.domain import names
from tests.e2e.controlplane.bench.audit import asked
from tests.e2e.controlplane.bench.large import World
from tests.e2e.controlplane.bench.latency import POOL
from tests.e2e.controlplane.bench.rows import Row
from tests.e2e.controlplane.bench.stage import SCRIPTS, Controller, Stage, requests_at, say
from tests.e2e.controlplane.bench.watcher import Watcher
from tests.e2e.controlplane.scene import NAMESPACE, until

SETTINGS: dict[str, Any] = {"pools": [POOL], "limits": {"launches_per_minute": 1000, "scripts": SCRIPTS}}
ABOUT = (
    "Half of the nodes are machines of ours, adopted by their marks at the start, and a pod on each uses its GPU. "
    f"Settings are the defaults except for `limits.launches_per_minute: 1000` and room for {SCRIPTS:,} startup "
    "scripts. Each node reports its status "
    "every five minutes, as kubelets do, and renews its Lease every ten seconds."
)
KUBELET_REPORTS = 300.0  # seconds between two status reports of a kubelet about which nothing changed
WATCHED = (
    "pods", "nodes", "daemonsets", "jobs", "poddisruptionbudgets", "namespaces", "persistentvolumeclaims",
    "persistentvolumes", "storageclasses", "csinodes", "limitranges", "resourceclaims", "resourceclaimtemplates",
    "deviceclasses",
)  # fmt: skip
SETTLE = 20.0
IDLE = 65.0
STILL = 10.0  # seconds without any change of a node or pod
MOST_MIB = 120.0
CONFIG_MAP_LIMIT_KIB = 1024.0


def measure(world: World, controller: Controller) -> Iterator[Row]:
    """The controller beside it, from its start until it has long been idle."""
    until("all machines are ready", lambda: _ready(controller) >= world.ours, 180)
    in_step = time.time() - controller.started
    say(f"all machines are adopted and ready after {in_step:.0f} s")
    time.sleep(SETTLE)
    yield Row("nodes", f"nodes, {world.ours} of them ours", world.nodes)
    yield Row("pods", "pods, 3.9 KB each", world.pods)
    yield from _idle(world, controller)
    resident, most = controller.resident()
    yield Row("rss_mib", "resident memory, settled", resident, "MiB", below=MOST_MIB)
    yield Row("rss_most_mib", "the most it was since its start", most, "MiB", below=MOST_MIB)
    yield Row("adopted_s", f"start until {world.ours} machines are adopted and ready", round(in_step), "s")
    for name in (names.LEDGER_CONFIGMAP, names.STATUS_CONFIGMAP):
        raw = world.scene.core.read_namespaced_config_map(name, NAMESPACE, _preload_content=False).data
        size = sum(len(text.encode()) for text in json.loads(raw)["data"].values()) / 1024
        yield Row(name, f"size of ConfigMap {name}", round(size), "KiB", below=CONFIG_MAP_LIMIT_KIB)


def _idle(world: World, controller: Controller) -> list[Row]:
    stage = world.stage
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(Watcher(stage.plane.kubeconfig, "/api/v1/nodes"))
        pods = stack.enter_context(Watcher(stage.plane.kubeconfig))
        _wait_for_stillness(nodes, pods)
        sent = stack.enter_context(_reports(stage, world.nodes))
        say(f"idle for {IDLE:.0f} s, but for the nodes' own reports")
        time.sleep(2)
        began, cpu, lists = time.time(), controller.cpu(), stage.lists()
        reports, lines = sent[0], nodes.lines + pods.lines
        plans = controller.metric("gpu_autoscaler_plan_seconds_count")
        spent = controller.metric("gpu_autoscaler_plan_seconds_sum")
        time.sleep(IDLE)
        over = time.time() - began
        share = (controller.cpu() - cpu) / over
        lists = stage.lists() - lists
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
        Row("idle_lists", f"lists in {over:.0f} s of what it watches, by anybody (apiserver_request_total)",
            sum(lists[resource] for resource in WATCHED), exactly=0,
            note=f"lists of all things: {_counts(lists) or 'none'}"),
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


def _wait_for_stillness(*watchers: Watcher) -> None:
    """The controller manager labels and untaints a thousand new nodes for two minutes, nine in a second."""
    seen, since = -1, time.monotonic()

    def still() -> bool:
        nonlocal seen, since
        now = sum(each.lines for each in watchers)
        if now != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > STILL

    say("waiting for the control plane to finish with the new nodes")
    until("nothing changes any more", still, 400)


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in found.most_common())


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
