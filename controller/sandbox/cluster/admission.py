"""What the API server adds to objects before they are stored, and where it asks the rules.

Only what a scheduler, `kubectl describe` or an autoscaler can notice is here; pods have `pod_rules`, what
is refused is in `rules`. Quirks kept: a new Node that is not Ready gets the not-ready taint; a Job selects
its pods by its own UID; claims and volumes go only when nothing protects them any more.
"""

from __future__ import annotations

import base64

from controller.sandbox.cluster import defaults, pod_rules, volumes
from controller.sandbox.cluster.errors import Cause, invalid, invalid_as
from controller.sandbox.cluster.pod_rules import NOT_READY
from controller.sandbox.cluster.resources import (
    CLAIMS,
    DAEMON_SETS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    STORAGE_CLASSES,
    VOLUMES,
    Obj,
    Resource,
)
from controller.sandbox.cluster.rules import events, metadata, nodes, others, pod_changes, pods, workloads
from controller.sandbox.cluster.schema import of_resource
from controller.sandbox.cluster.shape import shaped
from controller.sandbox.cluster.store import Store

PROTECTED = {CLAIMS: "kubernetes.io/pvc-protection", VOLUMES: "kubernetes.io/pv-protection"}
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
NULL_SELECTOR = "a null labelSelector results in matching no pod"


def ready(node: Obj) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def on_create(store: Store, resource: Resource, obj: Obj, *, through: Resource | None = None) -> None:
    """Default and check a new object, in place; `through` is the group that an event came by."""
    if "status" in resource.subresources and resource is not NODES:
        _fresh_status(store, resource, obj)
    if resource is SECRETS:
        fold_secret(obj)
    if resource is JOBS:
        _select_own(obj)
    defaults.fill(resource, obj)
    if resource is PODS:
        pod_rules.admit(store, obj)
        obj["status"] = pod_rules.first_status(store, obj)
    elif resource is NODES:
        taints = obj["spec"].get("taints") or []
        if not any(t["key"] == NOT_READY and t["effect"] == "NoSchedule" for t in taints):
            obj["spec"]["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
    elif resource is NAMESPACES:
        obj["spec"]["finalizers"] = ["kubernetes"]
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    elif resource is DAEMON_SETS:
        obj["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = "1"
    elif resource in PROTECTED:
        held = obj["metadata"].setdefault("finalizers", [])
        if PROTECTED[resource] not in held:
            held.append(PROTECTED[resource])
        if resource is CLAIMS and obj["spec"].get("storageClassName") is None:
            usual = volumes.default_class(store.every(STORAGE_CLASSES))
            obj["spec"] |= {"storageClassName": usual} if usual else {}
    causes = metadata.new_metadata(resource, obj)
    if resource is EVENTS:
        causes += events.event_causes(obj, newer=_newer(through))
    else:
        causes += _causes(resource, obj)
    _refuse(resource, obj, causes)


def on_update(
    resource: Resource, obj: Obj, old: Obj, *, door: str = "", through: Resource | None = None
) -> None:
    """Check a changed object against the one it replaces, in place."""
    if resource is SECRETS:
        fold_secret(obj)
    if not door:
        defaults.fill(resource, obj)
    if resource is PODS and not door:
        pod_rules.add_tolerations(obj["spec"])
    causes = metadata.changed_metadata(obj["metadata"], old["metadata"])
    if resource is PODS:
        causes += [] if door else pod_changes.change_causes(obj, old)
    elif resource is NODES:
        causes += nodes.change_causes(obj, old)
    elif resource is EVENTS:
        causes += events.event_causes(obj, newer=_newer(through), old=old)
    elif not door:
        causes += _causes(resource, obj, old)
    _refuse(resource, obj, causes)


def _newer(through: Resource | None) -> bool:
    return through is not None and bool(through.stored_as)


def _causes(resource: Resource, obj: Obj, old: Obj | None = None) -> list[Cause]:
    if resource is PODS:
        return pods.pod_causes(obj)
    if resource is NODES:
        return nodes.node_causes(obj)
    return workloads.workload_causes(resource, obj, old) + others.other_causes(resource, obj, old)


def _refuse(resource: Resource, obj: Obj, causes: list[Cause]) -> None:
    if not causes:
        return
    name = obj["metadata"].get("name", "")
    if resource.kind == "Event":
        raise invalid_as("Event", "", name, *causes)
    raise invalid(resource, name, *causes)


def warnings_of(resource: Resource, obj: Obj) -> list[str]:
    """What is let in but not understood as its author may think."""
    told: list[str] = []
    if resource is PODS:
        spec = obj["spec"]
        for at, each in enumerate(spec.get("topologySpreadConstraints") or ()):
            if each.get("labelSelector") is None:
                told.append(f"spec.topologySpreadConstraints[{at}].labelSelector: {NULL_SELECTOR}")
        for at, each in enumerate(spec.get("containers") or ()):
            for kind in ("limits", "requests"):
                for name, value in (each["resources"].get(kind) or {}).items():
                    if name in ("memory", "ephemeral-storage") and value.endswith("m"):
                        place = f"spec.containers[{at}].resources.{kind}[{name}]"
                        told.append(
                            f'{place}: fractional byte value "{value}" is invalid, must be an integer'
                        )
    if resource is NODES and obj["spec"].get("externalID"):
        told.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    return told


def _fresh_status(store: Store, resource: Resource, obj: Obj) -> None:
    """A new object has no past: what its status says is not believed."""
    obj.pop("status", None)
    fresh = shaped(of_resource(resource).name, {}).get("status")
    if resource is NAMESPACES:
        fresh = {"phase": "Active"}
    if fresh is not None:
        obj["status"] = fresh
    if resource is VOLUMES:
        obj["status"]["lastPhaseTransitionTime"] = store.now()


def fold_secret(secret: Obj) -> None:
    for key, value in (secret.pop("stringData", None) or {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()


def _select_own(job: Obj) -> None:
    """A Job selects its pods by its own UID."""
    meta, prefix, template = job["metadata"], "batch.kubernetes.io/", job["spec"]["template"]
    if job["spec"].get("manualSelector"):
        return
    labels = {f"{prefix}controller-uid": meta["uid"], f"{prefix}job-name": meta["name"]}
    old_names = {"controller-uid": meta["uid"], "job-name": meta["name"]}
    held = template.get("metadata") or {}
    template["metadata"] = {**held, "labels": {**(held.get("labels") or {}), **labels, **old_names}}
    job["spec"]["selector"] = {"matchLabels": {f"{prefix}controller-uid": meta["uid"]}}
