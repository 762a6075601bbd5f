"""The table of what the sandbox serves: names, groups, scopes and short names, as the real API has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, eq=False)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    in_all: bool = False
    verbs: tuple[str, ...] = ALL_VERBS
    stored_as: str = ""  # another resource that holds the same objects

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name that messages of the API use."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def prefix(self) -> str:
        """The head that a stored object needs in front of itself to stand alone."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'


def _r(group_version: str, plural: str, kind: str, *short: str, scope: str = "ns", **more: Any) -> Resource:
    group, _, version = group_version.rpartition("/")
    return Resource(group, version, plural, kind, scope == "ns", short, **more)


STATUS = ("status",)
SCALABLE = ("status", "scale")
RESOURCES: tuple[Resource, ...] = (
    _r("v1", "pods", "Pod", "po", subresources=("status", "eviction", "binding"), in_all=True),
    _r("v1", "nodes", "Node", "no", scope="cluster", subresources=STATUS),
    _r("v1", "namespaces", "Namespace", "ns", scope="cluster", subresources=("status", "finalize")),
    _r("v1", "events", "Event", "ev"),
    _r("v1", "configmaps", "ConfigMap", "cm"),
    _r("v1", "secrets", "Secret"),
    _r("v1", "serviceaccounts", "ServiceAccount", "sa"),
    _r("v1", "services", "Service", "svc", subresources=STATUS, in_all=True),
    _r("v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", subresources=STATUS),
    _r("v1", "persistentvolumes", "PersistentVolume", "pv", scope="cluster", subresources=STATUS),
    _r("v1", "limitranges", "LimitRange", "limits"),
    _r("v1", "resourcequotas", "ResourceQuota", "quota", subresources=STATUS),
    _r("v1", "replicationcontrollers", "ReplicationController", "rc", subresources=STATUS, in_all=True),
    _r("apps/v1", "daemonsets", "DaemonSet", "ds", subresources=STATUS, in_all=True),
    _r("apps/v1", "deployments", "Deployment", "deploy", subresources=SCALABLE, in_all=True),
    _r("apps/v1", "replicasets", "ReplicaSet", "rs", subresources=SCALABLE, in_all=True),
    _r("apps/v1", "statefulsets", "StatefulSet", "sts", subresources=SCALABLE, in_all=True),
    _r("batch/v1", "jobs", "Job", subresources=STATUS, in_all=True),
    _r("batch/v1", "cronjobs", "CronJob", "cj", subresources=STATUS, in_all=True),
    _r("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", subresources=STATUS),
    _r("coordination.k8s.io/v1", "leases", "Lease"),
    _r("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "pc", scope="cluster"),
    _r("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", scope="cluster"),
    _r("storage.k8s.io/v1", "storageclasses", "StorageClass", "sc", scope="cluster"),
    _r("storage.k8s.io/v1", "csinodes", "CSINode", scope="cluster"),
    _r("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", scope="cluster", subresources=STATUS),
    _r("events.k8s.io/v1", "events", "Event", "ev", stored_as="events"),
    _r("resource.k8s.io/v1", "deviceclasses", "DeviceClass", scope="cluster"),
    _r("resource.k8s.io/v1", "resourceslices", "ResourceSlice", scope="cluster"),
    _r("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", subresources=STATUS),
    _r("resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    _r("rbac.authorization.k8s.io/v1", "roles", "Role"),
    _r("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"),
    _r("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", scope="cluster"),
    _r("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", scope="cluster"),
    *(
        _r("authorization.k8s.io/v1", plural, kind, scope="cluster", verbs=("create",))
        for plural, kind in (
            ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
            ("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        )
    ),
)
BY_NAME = {(r.group, r.plural): r for r in RESOURCES}
BY_KIND = {(r.group, r.kind): r for r in RESOURCES}
GROUP_VERSIONS = tuple(dict.fromkeys((r.group, r.version) for r in RESOURCES))

PODS = BY_NAME["", "pods"]
NODES = BY_NAME["", "nodes"]
NAMESPACES = BY_NAME["", "namespaces"]
EVENTS = BY_NAME["", "events"]
CONFIG_MAPS = BY_NAME["", "configmaps"]
SECRETS = BY_NAME["", "secrets"]
SERVICE_ACCOUNTS = BY_NAME["", "serviceaccounts"]
CLAIMS = BY_NAME["", "persistentvolumeclaims"]
VOLUMES = BY_NAME["", "persistentvolumes"]
DAEMON_SETS = BY_NAME["apps", "daemonsets"]
DEPLOYMENTS = BY_NAME["apps", "deployments"]
REPLICA_SETS = BY_NAME["apps", "replicasets"]
STATEFUL_SETS = BY_NAME["apps", "statefulsets"]
JOBS = BY_NAME["batch", "jobs"]
BUDGETS = BY_NAME["policy", "poddisruptionbudgets"]
LEASES = BY_NAME["coordination.k8s.io", "leases"]
PRIORITY_CLASSES = BY_NAME["scheduling.k8s.io", "priorityclasses"]
CSI_NODES = BY_NAME["storage.k8s.io", "csinodes"]


def storage(resource: Resource) -> Resource:
    """Where the objects of a resource lie: core events and events.k8s.io are one set of objects."""
    return EVENTS if resource.stored_as == "events" else resource
