"""Pods, and what makes them, with no more in them than scenarios are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubernetes import client

from tests.e2e.controlplane.patience import until


def container(gpus: int, cpu: str = "1", **more: Any) -> dict[str, Any]:
    limits = {"cpu": cpu} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"name": "work", "image": "work", "resources": {"limits": limits}, **more}


class Workloads:
    """All of them in the namespace `default`, unless they say otherwise."""

    core: client.CoreV1Api
    batch: client.BatchV1Api
    apps: client.AppsV1Api

    def pod(
        self, name: str, gpus: int, *, namespace: str = "default", meta: Mapping[str, Any] | None = None, **spec: Any
    ) -> None:  # fmt: skip
        body = {
            "metadata": {"name": name, **(meta or {})},
            "spec": {"restartPolicy": "Never", "containers": [container(gpus)], **spec},
        }
        self.core.create_namespaced_pod(namespace, body)

    def job(
        self, name: str, work: Mapping[str, Any], *, meta: Mapping[str, Any] | None = None, **spec: Any
    ) -> None:
        """A Job of this container; `meta` is that of its pods, and what is no field of a Job is one of theirs."""
        own = {key: spec.pop(key) for key in ("parallelism", "completions", "backoffLimit") if key in spec}
        template = {
            "metadata": dict(meta or {}),
            "spec": {"restartPolicy": "Never", "containers": [work], **spec},
        }
        body = {"metadata": {"name": name}, "spec": {**own, "template": template}}
        self.batch.create_namespaced_job("default", body)

    def replicas(self, name: str, work: Mapping[str, Any], count: int = 1, **spec: Any) -> None:
        """A ReplicaSet of this container."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [work], **spec}}
        body = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
        self.apps.create_namespaced_replica_set("default", {"metadata": {"name": name}, "spec": body})

    def daemons(self, name: str, **spec: Any) -> None:
        """A DaemonSet whose pods are like this."""
        labels = {"app": name}
        body = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        }
        self.apps.create_namespaced_daemon_set("default", {"metadata": {"name": name}, "spec": body})

    def volume(self, name: str, zone: str) -> None:
        """A claim that is bound to a disk which can be used in one zone only."""
        here = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
        size = {"storage": "10Gi"}
        common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        disk = {
            "capacity": size, "hostPath": {"path": "/data"}, "claimRef": {"namespace": "default", "name": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }  # fmt: skip
        claim = {"resources": {"requests": size}, "volumeName": name}
        self.core.create_persistent_volume({"metadata": {"name": name}, "spec": common | disk})
        self.core.create_namespaced_persistent_volume_claim(
            "default", {"metadata": {"name": name}, "spec": common | claim}
        )
        find = self.core.read_namespaced_persistent_volume_claim
        until("the claim is bound", lambda: find(name, "default").status.phase == "Bound")

    def namespace(self, name: str) -> None:
        """One more, which stays until the end of the control plane; a pod in it needs its service account."""
        if all(each.metadata.name != name for each in self.core.list_namespace().items):
            self.core.create_namespace({"metadata": {"name": name}})
        accounts = self.core.list_namespaced_service_account
        until(f"pods may be made in {name}", lambda: accounts(name).items)

    def priority(self, name: str, value: int) -> None:
        """A class of priority, which stays until the end of the control plane."""
        kinds = client.SchedulingV1Api(self.core.api_client)
        if all(each.metadata.name != name for each in kinds.list_priority_class().items):
            kinds.create_priority_class({"metadata": {"name": name}, "value": value})
