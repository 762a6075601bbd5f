"""Side by side, beside the large cluster: the product and a controller that lists, on the same pods.

Each has a cloud account of its own, so both order for every pod; they share the cores and the API server.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from kubernetes import client

from tests.e2e.controlplane import access
from tests.e2e.controlplane.bench import load
from tests.e2e.controlplane.bench.audit import asked
from tests.e2e.controlplane.bench.large import World
from tests.e2e.controlplane.bench.latency import PODS as PATH
from tests.e2e.controlplane.bench.rows import Row, percentile
from tests.e2e.controlplane.bench.stage import Controller, Stage, cpu_seconds, orders_at, say
from tests.e2e.controlplane.scene import NAMESPACE, Scene, until
from tests.e2e.programs import ROOT, Started

PERIOD = 10.0
ABOUT = (
    "Beside the same large cluster. Both order for the same pods, each from a cloud account of its own, and share "
    f"cores and API server. The other reads all pods every {PERIOD:g} s through the official client."
)
SPACE = "lister"
APART = 5.3  # seconds between the pods, so that they fall on every part of its period


def measure(world: World, controller: Controller, pods: int = 10) -> list[Row]:
    stage, ours = world.stage, world.scene
    say(f"side by side with a controller that lists all pods every {PERIOD:g} s")
    before = len(orders_at(ours))
    with stage.cloud("lister", rate_limits=False) as theirs, _lister(stage, theirs) as lister:
        until("its first list was read", lambda: not lister.lines.empty(), 240)
        began, cpu = time.time(), (controller.cpu(), cpu_seconds(lister.process.pid))
        created = _create(stage, pods)
        until("it ordered for every pod", lambda: len(orders_at(theirs)) >= pods, 240)
        until("so did the product", lambda: len(orders_at(ours)) >= before + pods, 30)
        over = time.time() - began
        cpu = (controller.cpu() - cpu[0], cpu_seconds(lister.process.pid) - cpu[1])
        rounds = [json.loads(lister.lines.get()) for _ in range(lister.lines.qsize())]
        orders = orders_at(ours)[before:], orders_at(theirs)
    lists = [
        sum(1 for each in asked(stage.plane, space, since=began, until=began + over) if each.verb == "list")
        for space in (NAMESPACE, SPACE)
    ]
    size = rounds[-1]["bytes"] / 2**20
    found = [
        *_latency("beside_ours", "the product", created, orders[0]),
        *_latency("beside_lister", f"a controller that lists every {PERIOD:g} s", created, orders[1]),
    ]
    for key, who, used, listed in zip(
        ("ours", "lister"), ("the product", "the lister"), cpu, lists, strict=True
    ):
        found.append(Row(f"beside_{key}_cpu", f"CPU, {who}", round(100 * used / over, 1), "% of a core"))
        found.append(Row(f"beside_{key}_lists", f"lists in {over:.0f} s, {who}", listed))
    note = f"{len(rounds)} lists of {rounds[-1]['pods']} pods, {_mean(rounds, 'took'):.1f} s each"
    found.append(Row("beside_lister_mib", "size of one list, the lister", round(size, 1), "MiB", note=note))
    return found


def _create(stage: Stage, pods: int) -> list[float]:
    created = []
    connection = stage.api.connection()
    for number in range(pods):
        created.append(time.time())
        stage.api.send(connection, "POST", PATH, load.gpu_pod(f"beside-{number:02d}", 1))
        time.sleep(APART)
    connection.close()
    return created


def _latency(key: str, who: str, created: Sequence[float], orders: Sequence[dict[str, Any]]) -> list[Row]:
    """Both order for the pods in the order of their names, which is that of their creation."""
    took = [order["at"] - at for at, order in zip(created, orders, strict=True)]
    return [
        Row(
            f"{key}_p50_s",
            f"pod created → order, {who}, p50 of {len(took)}",
            round(percentile(took, 0.5), 3),
            "s",
        ),
        Row(f"{key}_max_s", f"pod created → order, {who}, max", round(max(took), 3), "s"),
    ]


def _mean(rounds: Sequence[dict[str, Any]], key: str) -> float:
    return float(sum(each[key] for each in rounds) / len(rounds))


@contextlib.contextmanager
def _lister(stage: Stage, cloud: Scene) -> Iterator[Started]:
    """With an account of its own that may list pods."""
    core, rbac = client.CoreV1Api(stage.admin), client.RbacAuthorizationV1Api(stage.admin)
    core.create_namespace({"metadata": {"name": SPACE}})
    core.create_namespaced_service_account(SPACE, {"metadata": {"name": SPACE}})
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    rbac.create_cluster_role({"metadata": {"name": SPACE}, "rules": [rule]})
    rbac.create_cluster_role_binding(
        {
            "metadata": {"name": SPACE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SPACE},
            "subjects": [{"kind": "ServiceAccount", "name": SPACE, "namespace": SPACE}],
        }
    )
    path = stage.home / "lister.kubeconfig"
    path.write_text(yaml.safe_dump(stage.plane.kubeconfig_for(access.token_of(core, SPACE, SPACE))))
    module = "tests.e2e.controlplane.bench.lister"
    words = [sys.executable, "-m", module, str(path), cloud.cloud, str(PERIOD)]
    running = Started(words, stage.home, {"PYTHONPATH": str(ROOT)})
    try:
        yield running
    finally:
        running.end()
