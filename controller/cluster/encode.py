"""The domain's nouns as Kubernetes JSON, for snapshots: the least that reads back as exactly the same.

It is no object to create in a cluster: a pod has one container that asks for the whole pod's effective
requests and has all of its host ports. Nothing of what a pod runs (commands, environment) is known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from controller.cluster.stamps import stamp
from controller.cluster.wire import MIRROR
from controller.domain.kube import (
    DaemonSet,
    DisruptionBudget,
    Job,
    Node,
    NodeTerm,
    Pod,
    PodDeviceClaim,
    PodShape,
    PodTerm,
    PodVolume,
    Requirement,
    Selector,
    Spread,
)
from controller.domain.quantity import to_kubernetes
from controller.domain.resources import Resources

Obj = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_GROUPS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1"}


def pod(found: Pod) -> Obj:
    shape = found.shape
    meta = meta_of(found, created=found.created)
    if found.deleting_at is not None:
        meta["deletionTimestamp"] = stamp(found.deleting_at)
    meta |= _shape_meta(shape)
    if shape.owner_kind or shape.owner_uid or shape.owner_name:
        owner = {"kind": shape.owner_kind, "name": shape.owner_name, "uid": shape.owner_uid}
        meta["ownerReferences"] = [
            {"apiVersion": _GROUPS.get(shape.owner_kind, "v1"), **owner, "controller": True}
        ]
    spec = _spec(shape)
    if found.node:
        spec["nodeName"] = found.node
    if found.gated:
        spec["schedulingGates"] = [{"name": "gated"}]
    status: Obj = {"phase": found.phase}
    if found.nominated:
        status["nominatedNodeName"] = found.nominated
    if conditions := _scheduled(found):
        status["conditions"] = conditions
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def node(found: Node) -> Obj:
    meta = meta_of(found, created=found.created)
    if found.deleting:
        meta["deletionTimestamp"] = stamp(found.created)
    meta |= filled(labels=dict(found.labels), annotations=dict(found.annotations))
    spec = filled(
        providerID=found.provider_id,
        taints=[filled(key=t.key, value=t.value) | {"effect": t.effect} for t in found.taints],
        unschedulable=found.unschedulable,
    )
    ready: Obj = {"type": "Ready", "status": "True" if found.ready else "False"}
    if found.ready_since is not None:
        ready["lastTransitionTime"] = stamp(found.ready_since)
    status: Obj = {
        "capacity": quantities(found.capacity),
        "allocatable": quantities(found.allocatable),
        "conditions": [ready],
    } | ({"nodeInfo": {"bootID": found.boot}} if found.boot else {})
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def daemon_set(found: DaemonSet) -> Obj:
    spec = _spec(found.shape)
    spec["containers"], spec["initContainers"] = _containers(found, spec["containers"][0])
    template = filled(metadata=_shape_meta(found.shape)) | {"spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": meta_of(found),
        "spec": {"template": template},
    }


def _containers(found: DaemonSet, main: Obj) -> tuple[list[Obj], list[Obj]]:
    """As many containers as leave a resource to a LimitRange; what none of them asks for, an init container does."""
    count = max(1, *found.unset.values()) if found.unset else 1
    asked: list[dict[str, str]] = [{} for _ in range(count)]
    before: dict[str, str] = {}
    for name, amount in main["resources"]["requests"].items():
        silent = found.unset.get(name, 0)
        if silent == count:
            before[name] = amount
            continue
        for each in asked[silent:]:
            each[name] = "0"
        asked[-1][name] = amount
    made = [{"name": f"c{n}", "resources": {"requests": each}} for n, each in enumerate(asked)]
    made[-1] = main | {"resources": {"requests": asked[-1]}}
    return made, [{"name": "before", "resources": {"requests": before}}] if before else []


def job(found: Job) -> Obj:
    spec: Obj = {"parallelism": found.parallelism, "suspend": found.suspended}
    if found.completions is not None:
        spec["completions"] = found.completions
    status: Obj = {"succeeded": found.succeeded}
    if found.finished:
        status["conditions"] = [{"type": "Complete", "status": "True"}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta_of(found, created=found.created),
        "spec": spec,
        "status": status,
    }


def budget(found: DisruptionBudget) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta_of(found),
        "spec": {} if found.selector is None else {"selector": selected(found.selector)},
        "status": {"disruptionsAllowed": found.allowed},
    }


def filled(**fields: object) -> Obj:
    return {name: value for name, value in fields.items() if value}


def meta_of(found: msgspec.Struct, created: float = 0.0) -> Obj:
    return filled(
        name=getattr(found, "name", ""),
        namespace=getattr(found, "namespace", ""),
        uid=getattr(found, "uid", ""),
        creationTimestamp=stamp(created) if created else "",
    )


def _shape_meta(shape: PodShape) -> Obj:
    annotations = dict(shape.annotations) | ({MIRROR: "mirror"} if shape.mirror else {})
    return filled(labels=dict(shape.labels), annotations=annotations)


def _spec(shape: PodShape) -> Obj:
    spec: Obj = {"containers": [{"name": "main", "resources": {"requests": quantities(shape.requests)}}]}
    spec |= filled(
        nodeSelector=dict(shape.node_selector),
        tolerations=[msgspec.to_builtins(toleration) for toleration in shape.tolerations],
        priority=shape.priority,
    )
    spec["schedulerName"] = shape.scheduler
    spec |= filled(
        affinity=_affinity(shape),
        topologySpreadConstraints=[_spread(each) for each in shape.spreads],
        volumes=[_volume(position, each) for position, each in enumerate(shape.volumes)],
        resourceClaims=[_device_claim(each) for each in shape.device_claims],
    )
    if shape.host_ports:
        spec["containers"][0]["ports"] = [
            {"containerPort": each.port, "hostPort": each.port, "protocol": each.protocol}
            | filled(hostIP=each.ip)
            for each in shape.host_ports
        ]
    if shape.workload.count("/") == 2:
        name, group, key = shape.workload.split("/")
        spec["workloadRef"] = {"name": name, "podGroup": group} | filled(podGroupReplicaKey=key)
    elif shape.workload:
        spec["schedulingGroup"] = {"podGroupName": shape.workload}
    return spec


def _affinity(shape: PodShape) -> Obj:
    nodes: Obj = {}
    if shape.required_terms is not None:
        nodes[_REQUIRED] = {"nodeSelectorTerms": [term(each) for each in shape.required_terms]}
    if shape.preferred_terms:
        nodes["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": each.weight, "preference": term(each.term)} for each in shape.preferred_terms
        ]
    to, against = shape.affinity, shape.anti_affinity
    return filled(
        nodeAffinity=nodes,
        podAffinity=filled(**{_REQUIRED: [_pod_term(each) for each in to]}),
        podAntiAffinity=filled(**{_REQUIRED: [_pod_term(each) for each in against]}),
    )


def _pod_term(found: PodTerm) -> Obj:
    return (
        {"topologyKey": found.topology_key}
        | _chosen(labelSelector=found.selector, namespaceSelector=found.namespace_selector)
        | filled(namespaces=list(found.namespaces))
    )


def _spread(found: Spread) -> Obj:
    made: Obj = {
        "topologyKey": found.topology_key,
        "maxSkew": found.max_skew,
        "whenUnsatisfiable": "DoNotSchedule" if found.hard else "ScheduleAnyway",
        "nodeAffinityPolicy": "Honor" if found.honors_affinity else "Ignore",
        "nodeTaintsPolicy": "Honor" if found.honors_taints else "Ignore",
    }
    if found.min_domains is not None:
        made["minDomains"] = found.min_domains
    return made | _chosen(labelSelector=found.selector) | filled(matchLabelKeys=list(found.match_label_keys))


def _volume(position: int, found: PodVolume) -> Obj:
    if not found.ephemeral:
        return {"name": f"volume-{position}", "persistentVolumeClaim": {"claimName": found.claim}}
    kind = {} if found.storage_class is None else {"storageClassName": found.storage_class}
    return {"name": found.name, "ephemeral": {"volumeClaimTemplate": {"spec": kind}}}


def _device_claim(found: PodDeviceClaim) -> Obj:
    return {"name": found.name} | filled(
        resourceClaimName=found.claim, resourceClaimTemplateName=found.template
    )


def _scheduled(found: Pod) -> list[Obj]:
    if found.unschedulable_since is None and not found.message:
        return []
    condition: Obj = {"type": "PodScheduled", "status": "False"}
    if found.unschedulable_since is not None:
        condition |= {"reason": "Unschedulable", "lastTransitionTime": stamp(found.unschedulable_since)}
    return [condition | filled(message=found.message)]


def term(found: NodeTerm) -> Obj:
    return filled(matchExpressions=_expressions(found.labels), matchFields=_expressions(found.fields))


def _expressions(requirements: Iterable[Requirement]) -> list[Obj]:
    return [
        {"key": r.key, "operator": r.operator, **({"values": list(r.values)} if r.values else {})}
        for r in requirements
    ]


def selected(selector: Selector) -> Obj:
    return filled(matchLabels=dict(selector.labels), matchExpressions=_expressions(selector.expressions))


def _chosen(**selectors: Selector | None) -> Obj:
    return {name: selected(found) for name, found in selectors.items() if found is not None}


def quantities(amounts: Resources) -> Mapping[str, str]:
    return {name: to_kubernetes(name, units) for name, units in amounts.items()}
