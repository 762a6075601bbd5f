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
    counted: bool = False  # metadata.generation counts changes of the spec
    versioned: bool = False  # an update without a resourceVersion is refused
    made_by_put: bool = False  # an update of what is not there makes it
    shown_last: bool = False  # a delete answers with the object instead of a Status
    orphans: bool = False  # a delete that says nothing leaves dependents alone

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name that messages of the API use."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def prefix(self) -> str:
        """The head that a stored object needs in front of itself to stand alone."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'


def _r(
    group_version: str,
    plural: str,
    kind: str,
    *short: str,
    scope: str = "ns",
    doors: str = "",
    traits: str = "",
    **more: Any,
) -> Resource:
    """`doors` are subresources, `traits` the flags above, both as words."""
    group, _, version = group_version.rpartition("/")
    flags: Any = dict.fromkeys(traits.split(), True)
    subresources = tuple(doors.split())
    return Resource(group, version, plural, kind, scope == "ns", short, subresources, **flags, **more)


CORE, APPS, STORAGE, DRA = "v1", "apps/v1", "storage.k8s.io/v1", "resource.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io/v1"
ADD_ONS = ("x-k8s.io/v1alpha1", "volcano.sh/v1beta1", "run.ai/v2alpha2")  # schedulers with gangs of their own
NO_COLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
RESOURCES: tuple[Resource, ...] = (
    _r(CORE, "pods", "Pod", "po", doors="status eviction binding", traits="in_all counted shown_last"),
    _r(CORE, "nodes", "Node", "no", scope="cluster", doors="status"),
    _r(
        CORE,
        "namespaces",
        "Namespace",
        "ns",
        scope="cluster",
        doors="status finalize",
        traits="shown_last",
        verbs=NO_COLLECTION,
    ),
    _r(CORE, "events", "Event", "ev", traits="made_by_put"),
    _r(CORE, "configmaps", "ConfigMap", "cm"),
    _r(CORE, "secrets", "Secret"),
    _r(CORE, "serviceaccounts", "ServiceAccount", "sa", traits="shown_last"),
    _r(CORE, "services", "Service", "svc", doors="status", traits="in_all shown_last made_by_put"),
    _r(CORE, "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", doors="status", traits="shown_last"),
    _r(
        CORE,
        "persistentvolumes",
        "PersistentVolume",
        "pv",
        scope="cluster",
        doors="status",
        traits="shown_last",
    ),
    _r(CORE, "limitranges", "LimitRange", "limits", traits="made_by_put"),
    _r(CORE, "resourcequotas", "ResourceQuota", "quota", doors="status", traits="shown_last"),
    _r(
        CORE,
        "replicationcontrollers",
        "ReplicationController",
        "rc",
        doors="status scale",
        traits="in_all counted orphans",
    ),
    _r(APPS, "daemonsets", "DaemonSet", "ds", doors="status", traits="in_all counted"),
    _r(APPS, "deployments", "Deployment", "deploy", doors="status scale", traits="in_all counted"),
    _r(APPS, "replicasets", "ReplicaSet", "rs", doors="status scale", traits="in_all counted"),
    _r(APPS, "statefulsets", "StatefulSet", "sts", doors="status scale", traits="in_all counted"),
    _r("batch/v1", "jobs", "Job", doors="status", traits="in_all counted orphans"),
    _r("batch/v1", "cronjobs", "CronJob", "cj", doors="status", traits="in_all counted"),
    _r(
        "policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "pdb",
        doors="status",
        traits="counted versioned",
    ),
    _r("coordination.k8s.io/v1", "leases", "Lease", traits="versioned made_by_put"),
    _r("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "pc", scope="cluster", traits="counted"),
    *(_r(f"scheduling.{api}", "podgroups", "PodGroup", doors="status") for api in ADD_ONS),
    _r("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", scope="cluster", traits="versioned made_by_put"),
    _r(STORAGE, "storageclasses", "StorageClass", "sc", scope="cluster", traits="shown_last"),
    _r(STORAGE, "csinodes", "CSINode", scope="cluster", traits="versioned shown_last"),
    _r(
        STORAGE,
        "volumeattachments",
        "VolumeAttachment",
        scope="cluster",
        doors="status",
        traits="versioned shown_last",
    ),
    _r("events.k8s.io/v1", "events", "Event", "ev", stored_as="events", traits="made_by_put"),
    _r(DRA, "deviceclasses", "DeviceClass", scope="cluster", traits="counted shown_last"),
    _r(DRA, "resourceslices", "ResourceSlice", scope="cluster", traits="counted shown_last"),
    _r(DRA, "resourceclaims", "ResourceClaim", doors="status", traits="shown_last"),
    _r(DRA, "resourceclaimtemplates", "ResourceClaimTemplate", traits="shown_last"),
    _r(RBAC, "roles", "Role", traits="made_by_put"),
    _r(RBAC, "rolebindings", "RoleBinding", traits="made_by_put"),
    _r(RBAC, "clusterroles", "ClusterRole", scope="cluster", traits="made_by_put"),
    _r(RBAC, "clusterrolebindings", "ClusterRoleBinding", scope="cluster", traits="made_by_put"),
    *(
        _r(group_version, plural, kind, scope="cluster", verbs=("create",))
        for group_version, plural, kind in (
            ("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
            ("authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
            ("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview"),
            ("authentication.k8s.io/v1", "tokenreviews", "TokenReview"),
            ("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview"),
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
SERVICES = BY_NAME["", "services"]
REPLICATION_CONTROLLERS = BY_NAME["", "replicationcontrollers"]
CLAIMS = BY_NAME["", "persistentvolumeclaims"]
VOLUMES = BY_NAME["", "persistentvolumes"]
DAEMON_SETS = BY_NAME["apps", "daemonsets"]
DEPLOYMENTS = BY_NAME["apps", "deployments"]
REPLICA_SETS = BY_NAME["apps", "replicasets"]
STATEFUL_SETS = BY_NAME["apps", "statefulsets"]
JOBS = BY_NAME["batch", "jobs"]
CRON_JOBS = BY_NAME["batch", "cronjobs"]
BUDGETS = BY_NAME["policy", "poddisruptionbudgets"]
LEASES = BY_NAME["coordination.k8s.io", "leases"]
STORAGE_CLASSES = BY_NAME["storage.k8s.io", "storageclasses"]
PRIORITY_CLASSES = BY_NAME["scheduling.k8s.io", "priorityclasses"]
RUNTIME_CLASSES = BY_NAME["node.k8s.io", "runtimeclasses"]
CSI_NODES = BY_NAME["storage.k8s.io", "csinodes"]


def storage(resource: Resource) -> Resource:
    """Where the objects of a resource lie: core events and events.k8s.io are one set of objects."""
    return EVENTS if resource.stored_as == "events" else resource
