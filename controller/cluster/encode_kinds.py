"""The rarer kinds as Kubernetes JSON, for snapshots: the least that reads back as exactly the same."""

from __future__ import annotations

from typing import Any

from controller.cluster import devices, groups, storage
from controller.cluster.encode import filled, meta_of, quantities, selected, term
from controller.cluster.stamps import stamp
from controller.domain.kube import (
    CsiNode,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    LimitRange,
    Namespace,
    PodGroup,
    StorageClass,
    Volume,
    VolumeClaim,
)

Obj = dict[str, Any]
_DELETED = stamp(0)  # that it is being deleted is known, not since when
_GROUP_APIS = {
    groups.WORKLOAD: "scheduling.k8s.io/v1alpha1",
    groups.COSCHEDULING: "scheduling.x-k8s.io/v1alpha1",
    groups.VOLCANO: "scheduling.volcano.sh/v1beta1",
    groups.KAI: "scheduling.run.ai/v2alpha2",
    groups.NATIVE: "scheduling.k8s.io/v1beta1",
}


def namespace(found: Namespace) -> Obj:
    labelled = meta_of(found) | filled(labels=dict(found.labels))
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": labelled}


def volume_claim(found: VolumeClaim) -> Obj:
    noted = {storage.SELECTED_NODE: found.selected_node} if found.selected_node else {}
    if found.bind_completed:
        noted[storage.BIND_COMPLETED] = "yes"
    spec = filled(accessModes=list(found.access_modes), volumeName=found.volume)
    if found.storage_class is not None:
        spec["storageClassName"] = found.storage_class
    if found.requested:
        spec["resources"] = {"requests": quantities({"storage": found.requested})}
    if found.selector is not None:
        spec["selector"] = selected(found.selector)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta_of(found) | _deleted(found.deleting) | filled(annotations=noted),
        "spec": spec,
        "status": {"phase": found.phase},
    }


def volume(found: Volume) -> Obj:
    spec = filled(
        accessModes=list(found.access_modes),
        storageClassName=found.storage_class,
        csi=filled(driver=found.driver),
        capacity=quantities({"storage": found.capacity} if found.capacity else {}),
    )
    if found.local:
        spec["local"] = {}
    if found.terms is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term(each) for each in found.terms]}}
    if found.claim:
        namespace, _, name = found.claim.partition("/")
        spec["claimRef"] = {"namespace": namespace, "name": name}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": meta_of(found) | _deleted(found.deleting) | filled(labels=dict(found.labels)),
        "spec": spec,
        "status": filled(phase=found.phase),
    }


def storage_class(found: StorageClass) -> Obj:
    noted = {storage.DEFAULT_CLASS: "true"} if found.default else {}
    made: Obj = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": meta_of(found, created=found.created) | filled(annotations=noted),
        "provisioner": found.provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if found.waits_for_consumer else "Immediate",
    }
    if found.allowed is not None:
        made["allowedTopologies"] = [
            {
                "matchLabelExpressions": [
                    {"key": rule.key, "values": list(rule.values)} for rule in each.labels
                ]
            }
            for each in found.allowed
        ]
    return made


def csi_node(found: CsiNode) -> Obj:
    drivers = [
        {"name": driver}
        | ({"allocatable": {"count": found.limits[driver]}} if driver in found.limits else {})
        for driver in found.drivers
    ]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": meta_of(found),
        "spec": {"drivers": drivers},
    }


def limit_range(found: LimitRange) -> Obj:
    limit = {"type": "Container"} | filled(
        default=quantities(found.default_limits), defaultRequest=quantities(found.default_requests)
    )
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta_of(found), "spec": {"limits": [limit]}}


def pod_group(found: PodGroup) -> Obj:
    spec: Obj = {"minMember": found.min_member}
    if found.system == groups.NATIVE:
        least = found.min_member
        spec = {"schedulingPolicy": {"gang": {"minCount": least}} if least else {"basic": {}}}
    if found.system == groups.WORKLOAD:
        spec = {
            "podGroups": [
                {"name": name, "policy": {"gang": {"minCount": least}} if least else {"basic": {}}}
                for name, least in found.parts.items()
            ]
        }
    status: Obj = {}
    if found.waits_for_quota and found.system == groups.VOLCANO:
        told = {"type": "Unschedulable", "status": "True", "message": found.waits_for_quota}
        status = {"phase": "Pending", "conditions": [told]}
    elif found.waits_for_quota and found.system == groups.KAI:
        why = {"reason": groups.OF_QUOTA[0], "message": found.waits_for_quota}
        status = {"schedulingConditions": [{"status": "True", "reasons": [why]}]}
    return {
        "apiVersion": _GROUP_APIS.get(found.system, ""),
        "kind": "Workload" if found.system == groups.WORKLOAD else "PodGroup",
        "metadata": meta_of(found),
        "spec": spec,
        "status": status,
    }


def device_claim(found: DeviceClaim) -> Obj:
    """A claim, or a template of one."""
    spec = {
        "devices": filled(
            requests=[_request(position, each) for position, each in enumerate(found.requests)],
            constraints=[{}] if found.constrained else [],
        )
    }
    made: Obj = {"apiVersion": "resource.k8s.io/v1", "metadata": meta_of(found) | _deleted(found.deleting)}
    if found.template:
        return made | {"kind": "ResourceClaimTemplate", "spec": {"spec": spec}}
    if found.owner_uid:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "", "uid": found.owner_uid, "controller": True}
        made["metadata"]["ownerReferences"] = [owner]
    if found.owner_name:
        made["metadata"]["annotations"] = {devices.MADE_FOR: found.owner_name}
    made |= {"kind": "ResourceClaim", "spec": spec}
    if found.allocated:
        field = {"key": "metadata.name", "operator": "In", "values": [found.node]}
        where: Obj = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}} if found.node else {}
        if found.devices is not None:
            where["devices"] = {"results": [{"driver": devices.DRIVER}] * found.devices}
        made["status"] = {"allocation": where}
    return made


def device_class(found: DeviceClass) -> Obj:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": meta_of(found, created=found.created),
        "spec": filled(extendedResourceName=found.extended, selectors=_selectors(found.selectors)),
    }


def _selectors(texts: tuple[str, ...]) -> list[Obj]:
    return [{"cel": {"expression": each}} for each in texts]


def _request(position: int, found: DeviceRequest) -> Obj:
    name = f"request-{position}"
    if not found.device_class:
        return {"name": name, "firstAvailable": [{}]}
    exactly: Obj = {"deviceClassName": found.device_class} | filled(
        selectors=_selectors(found.selectors), adminAccess=found.admin
    )
    if found.count:
        exactly |= {"allocationMode": "ExactCount", "count": found.count}
        exactly |= {} if found.plain else {"capacity": {"requests": {}}}
    else:
        exactly["allocationMode"] = "All"
    return {"name": name, "exactly": exactly}


def _deleted(yes: bool) -> Obj:
    return {"deletionTimestamp": _DELETED} if yes else {}
