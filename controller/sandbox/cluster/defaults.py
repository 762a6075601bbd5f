"""Defaults of the API: what is filled in where a client said nothing.

`STATIC` hangs on a structure alone, wherever it stands; `fill` holds those that look at the whole object.
Only pods themselves get requests from limits, the service links and tolerations; templates do not.
"""

from __future__ import annotations

from typing import Any

from controller.sandbox.cluster.fit import of_containers
from controller.sandbox.cluster.quantity import written
from controller.sandbox.cluster.resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Obj,
    Resource,
)

MODE = 0o644
OF_PODS = ("cpu", "memory")  # what pods may ask for as a whole, hugepages apart
STATIC: dict[str, dict[str, Any]] = {
    "core.PodSpec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    "core.Container": {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    },
    "core.ContainerPort": {"protocol": "TCP"},
    "core.Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "core.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.ConfigMapVolumeSource": {"defaultMode": MODE},
    "core.SecretVolumeSource": {"defaultMode": MODE},
    "core.ProjectedVolumeSource": {"defaultMode": MODE},
    "core.DownwardAPIVolumeSource": {"defaultMode": MODE},
    "core.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core.HostPathVolumeSource": {"type": ""},
    "core.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.PersistentVolumeClaimStatus": {"phase": "Pending"},
    "core.PersistentVolumeSpec": {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"},
    "core.PersistentVolumeStatus": {"phase": "Pending"},
    "core.ServiceSpec": {"sessionAffinity": "None", "type": "ClusterIP"},
    "core.ServicePort": {"protocol": "TCP"},
    "apps.DeploymentSpec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    "apps.ReplicaSetSpec": {"replicas": 1},
    "apps.StatefulSetSpec": {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    },
    "apps.DaemonSetSpec": {"revisionHistoryLimit": 10},
    "core.ReplicationControllerSpec": {"replicas": 1},
    "batch.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "scheduling.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "storage.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "resource.ExactDeviceRequest": {"allocationMode": "ExactCount"},
    "resource.DeviceSubRequest": {"allocationMode": "ExactCount"},
    "rbac.RoleRef": {"apiGroup": "rbac.authorization.k8s.io"},
}
SHARE = "25%"
# The value that stands in `type` of a strategy, and what then stands beside it.
ROLLING: dict[Resource, tuple[str, Obj]] = {
    DEPLOYMENTS: ("strategy", {"maxUnavailable": SHARE, "maxSurge": SHARE}),
    DAEMON_SETS: ("updateStrategy", {"maxUnavailable": 1, "maxSurge": 0}),
    STATEFUL_SETS: ("updateStrategy", {"partition": 0}),
}


def fill(resource: Resource, obj: Obj) -> None:
    """Defaults that look at the whole object, in place; it has its canonical shape already."""
    if resource is PODS:
        _pod(obj["spec"])
    elif resource is NODES:
        obj["status"].setdefault("allocatable", dict(obj["status"].get("capacity") or {}))
        if not obj["status"]["allocatable"]:
            del obj["status"]["allocatable"]
        cidrs = obj["spec"].get("podCIDRs") or (
            [obj["spec"]["podCIDR"]] if obj["spec"].get("podCIDR") else []
        )
        if cidrs:
            obj["spec"] |= {"podCIDR": cidrs[0], "podCIDRs": cidrs}
    elif resource is SECRETS:
        obj.setdefault("type", "Opaque")
    elif resource is SERVICES:
        _service(obj["spec"])
    elif resource in ROLLING:
        name, figures = ROLLING[resource]
        strategy = obj["spec"].setdefault(name, {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            strategy["rollingUpdate"] = {**figures, **(strategy.get("rollingUpdate") or {})}
        _template(obj["spec"].get("template"))
    elif resource is JOBS:
        _job(obj["spec"])
    elif resource in (REPLICA_SETS, REPLICATION_CONTROLLERS):
        _template(obj["spec"].get("template"))
        labels = ((obj["spec"].get("template") or {}).get("metadata") or {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
    elif resource is CRON_JOBS:
        _template(obj["spec"]["jobTemplate"]["spec"].get("template"))
    elif resource.kind.startswith("ResourceClaim"):
        spec = obj["spec"]["spec"] if resource.kind.endswith("Template") else obj["spec"]
        for each in (spec.get("devices") or {}).get("requests") or ():
            for request in (each.get("exactly"), *(each.get("firstAvailable") or ())):
                if request and request.get("allocationMode") == "ExactCount":
                    request.setdefault("count", 1)
    elif resource.kind.endswith("RoleBinding"):
        for each in obj.get("subjects") or ():
            if each["kind"] in ("User", "Group"):
                each.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _job(spec: Obj) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault(
        "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    )
    spec.setdefault("manualSelector", False)
    _template(spec.get("template"))


def _template(template: Obj | None) -> None:
    if template:
        _containers(template["spec"])


def _containers(spec: Obj) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for each in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        image = each.get("image", "")
        tagged = "@" in image or ":" in image.rpartition("/")[2]
        each.setdefault(
            "imagePullPolicy", "IfNotPresent" if tagged and not image.endswith(":latest") else "Always"
        )
        if spec.get("hostNetwork"):
            for port in each.get("ports") or ():
                port.setdefault("hostPort", port["containerPort"])
    for each in spec.get("volumes") or ():
        if len(each) == 1:
            each["emptyDir"] = {}


def _pod(spec: Obj) -> None:
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("enableServiceLinks", True)
    _containers(spec)
    for each in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = each["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    if (spec.get("resources") or {}).get("limits"):
        _whole(spec, spec["resources"])


def _whole(spec: Obj, resources: Obj) -> None:
    """A pod's own limits bring requests of its own along: those of its containers, else the limits."""
    told = resources.get("requests") or {}
    summed = {name: written(value) for name, value in of_containers(spec).items()}
    every = {**resources["limits"], **summed, **told}
    resources["requests"] = {
        name: value for name, value in every.items() if name in OF_PODS or name.startswith("hugepages-")
    }


def _service(spec: Obj) -> None:
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec.get("clusterIP") == "None":
        spec["clusterIPs"] = ["None"]
    # What nobody selects for may have addresses of both families.
    both = spec.get("clusterIP") == "None" and not spec.get("selector")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if both else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")
    for each in spec.get("ports") or ():
        if each.get("targetPort") in (None, 0, ""):
            each["targetPort"] = each["port"]
