"""One scenario's cloud account, controllers and pods, and what may be asked of both worlds.

Everything about the cluster goes through the official sync client, never through our own cluster room.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.e2e.controlplane.account import Account
from tests.e2e.controlplane.patience import until
from tests.e2e.controlplane.workloads import Workloads, container
from tests.e2e.programs import PROGRAM, Started, environment

__all__ = [
    "NAMESPACE",
    "SETTINGS",
    "Scene",
    "clean",
    "container",
    "deadlines",
    "idle_machine",
    "pool",
    "running",
    "runs",
    "until",
]

NAMESPACE = "gpu-autoscaler"
SETTINGS: dict[str, Any] = {
    "cluster_id": "real",
    "namespace": NAMESPACE,
    "pools": [
        {"name": "a100", "instance_types": ["1A100.22V", "2A100.44V"], "locations": ["FIN-01"], "max": 4}
    ],
    "timing": {"tick": "500ms", "poll_cloud": "1s", "poll_cloud_busy": "500ms"},
    "deadlines": {
        "gpu_settle": "500ms",
        "drain_pause": "300ms",
        "unknown_create": {"lists": 3, "over": "2s"},
    },
    "scale_down": {"cooldown": "3s"},
    "lease": {"duration": "4s", "renew": "1s", "spend_within": "3s"},
    "join": {
        "k3s": {
            "template": "k3s",
            "server": "https://10.0.0.1:6443",
            "version": "v1.36.3+k3s1",
            "token_from": {"secret": {"name": "join", "key": "token"}},
        }
    },
}


class Scene(Account, Workloads):
    """One scenario's cloud account and controller, and what it may ask of both worlds."""

    def __init__(self, admin: client.ApiClient, cloud: str, kubeconfig: Path, home: Path) -> None:
        self.core = client.CoreV1Api(admin)
        self.batch = client.BatchV1Api(admin)
        self.policy = client.PolicyV1Api(admin)
        self.apps = client.AppsV1Api(admin)
        self.cloud = cloud
        self.usual: Mapping[str, Any] = {}  # settings of controllers that others start
        self.kubeconfig = kubeconfig
        self.home = home

    # -- programs -----------------------------------------------------------------------------------

    def command(
        self, settings: Mapping[str, Any] | None = None, name: str = "config", **ways: Any
    ) -> list[str]:
        return [*self._words("run", settings, name, **ways), "--listen", "127.0.0.1:0"]

    def _words(
        self,
        verb: str,
        settings: Mapping[str, Any] | None,
        name: str,
        *,
        kubeconfig: Path | None = None,
        cloud: str = "",
    ) -> list[str]:
        path = self.home / f"{name}.yaml"
        verda = {"base_url": cloud or self.cloud, "client_id": "real", "client_secret": "real-not-a-key"}
        told = {**SETTINGS, **(settings or {})}
        told["verda"] = verda | dict(told.get("verda") or {})
        path.write_text(json.dumps({key: value for key, value in told.items() if value is not None}))
        return [PROGRAM, verb, "--config", str(path), "--kubeconfig", str(kubeconfig or self.kubeconfig)]

    def controller(
        self, settings: Mapping[str, Any] | None = None, name: str = "config", **ways: Any
    ) -> Started:
        """`kubeconfig` and `cloud` are other ways to the two worlds."""
        return Started(self.command(settings, name, **ways), self.home)

    def kubeconfig_at(
        self, port: int, cluster: Mapping[str, str] | None = None, user: Mapping[str, str] | None = None
    ) -> Path:
        """The controller's, for an API server that is reached at another port of this machine, or otherwise."""
        found = yaml.safe_load(self.kubeconfig.read_text())
        server = {"server": f"https://127.0.0.1:{port}"}
        found["clusters"][0]["cluster"] = {**(cluster or found["clusters"][0]["cluster"]), **server}
        found["users"][0]["user"] = user or found["users"][0]["user"]
        path = self.home / f"at-{port}.kubeconfig"
        path.write_text(yaml.safe_dump(found))
        return path

    def planned(self, settings: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """What `plan` would do now, asked of the live world; it changes nothing."""
        told = subprocess.run(
            [*self._words("plan", settings, "plan"), "--json"],
            capture_output=True, text=True, check=True, timeout=60, env=environment(self.home),
        ).stdout  # fmt: skip
        actions: list[dict[str, Any]] = json.loads(told)["actions"]
        return actions

    # -- the cluster --------------------------------------------------------------------------------

    def phase(self, name: str) -> str:
        return str(self.core.read_namespaced_pod(name, "default").status.phase)

    def waiting(self, namespace: str = "default") -> set[str]:
        """Pods that the scheduler has called unschedulable."""
        return {
            pod.metadata.name
            for pod in self.core.list_namespaced_pod(namespace).items
            if not pod.spec.node_name
            and any(c.reason == "Unschedulable" for c in pod.status.conditions or ())
        }

    def delete_pod(self, name: str) -> None:
        self.core.delete_namespaced_pod(name, "default", grace_period_seconds=0)

    def nodes(self) -> list[str]:
        return [node.metadata.name for node in self.core.list_node().items]

    def taints(self, node: str) -> set[str]:
        return {taint.key for taint in self.core.read_node(node).spec.taints or ()}

    def events(self, name: str) -> dict[str, str]:
        found = self.core.list_namespaced_event("default", field_selector=f"involvedObject.name={name}").items
        return {event.reason: event.message for event in found}

    def said(self, name: str) -> str:
        """Everything that events told about that pod, whatever else was told later."""
        found = self.core.list_namespaced_event("default", field_selector=f"involvedObject.name={name}").items
        return " | ".join(f"{event.reason}: {event.message}" for event in found)

    def last_event(self, name: str) -> str:
        found = self.core.list_namespaced_event("default", field_selector=f"involvedObject.name={name}").items
        told = [event for event in found if event.last_timestamp]
        newest = max((event.last_timestamp for event in told), default=None)
        return " | ".join(event.message for event in told if event.last_timestamp == newest)

    def config_maps(self, namespace: str) -> list[str]:
        return [each.metadata.name for each in self.core.list_namespaced_config_map(namespace).items]

    def pods_made_by(self, owner: str) -> list[Any]:
        """Pods of a Job, ReplicaSet or DaemonSet, those that are not being deleted."""
        return [
            pod
            for pod in self.core.list_namespaced_pod("default").items
            if pod.metadata.deletion_timestamp is None
            and any(ref.name == owner for ref in pod.metadata.owner_references or ())
        ]


@contextlib.contextmanager
def running(*controllers: Started) -> Iterator[None]:
    """Ended afterwards; what they said last is told where the scenario fails."""
    try:
        yield
    except BaseException:
        for each in controllers:
            print(*each.complaints[-40:], sep="\n")
        raise
    finally:
        for each in controllers:
            each.end()


def runs(scene: Scene, *names: str) -> bool:
    return all(scene.phase(name) in ("Running", "Succeeded") for name in names)


def idle_machine(scene: Scene) -> str:
    """The Node of a machine that is ready and free; the only one."""
    scene.pod("first", 1)
    until("the first pod runs", lambda: runs(scene, "first"))
    scene.delete_pod("first")
    (node,) = scene.nodes()
    marked = "gpu-autoscaler/idle-since"
    until("it is idle", lambda: marked in (scene.core.read_node(node).metadata.annotations or {}))
    return node


def deadlines(**more: Any) -> dict[str, Any]:
    """Settings with these deadlines beside the usual ones."""
    return {"deadlines": {**SETTINGS["deadlines"], **more}}


def pool(**more: Any) -> dict[str, Any]:
    """Settings with one pool, as the usual one but for this."""
    return {"pools": [{**SETTINGS["pools"][0], **more}]}


def clean(scene: Scene) -> None:
    """Leave the shared cluster as it was found."""
    core = scene.core
    for each in scene.apps.list_namespaced_deployment("default").items:
        scene.apps.delete_namespaced_deployment(each.metadata.name, "default")
    for job in scene.batch.list_namespaced_job("default").items:
        scene.batch.delete_namespaced_job(job.metadata.name, "default", propagation_policy="Background")
    for budget in scene.policy.list_namespaced_pod_disruption_budget("default").items:
        scene.policy.delete_namespaced_pod_disruption_budget(budget.metadata.name, "default")
    for each in scene.apps.list_namespaced_replica_set("default").items:
        with contextlib.suppress(ApiException):  # it went with its Deployment
            scene.apps.delete_namespaced_replica_set(
                each.metadata.name, "default", propagation_policy="Background"
            )
    for each in scene.apps.list_namespaced_daemon_set("default").items:
        scene.apps.delete_namespaced_daemon_set(
            each.metadata.name, "default", propagation_policy="Background"
        )
    for node in core.list_node().items:
        with contextlib.suppress(ApiException):  # its controller was just deleting it
            core.delete_node(node.metadata.name)
    until("no pod is left", lambda: not _pods_left(core))
    core.delete_collection_namespaced_event("default")
    core.delete_collection_namespaced_persistent_volume_claim("default")
    core.delete_collection_persistent_volume()
    leases = client.CoordinationV1Api(core.api_client)
    for each in leases.list_namespaced_lease(NAMESPACE).items:  # a killed controller did not give it back
        leases.delete_namespaced_lease(each.metadata.name, NAMESPACE)
    for name in ("gpu-autoscaler-ledger", "gpu-autoscaler-status"):
        if any(m.metadata.name == name for m in core.list_namespaced_config_map(NAMESPACE).items):
            core.delete_namespaced_config_map(name, NAMESPACE)


def _pods_left(core: client.CoreV1Api) -> list[Any]:
    """A controller may have made one more just before it learned that its object is gone."""
    found: list[Any] = core.list_pod_for_all_namespaces().items
    for pod in found:
        with contextlib.suppress(ApiException):  # the garbage collector was faster
            core.delete_namespaced_pod(pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0)
    return found
