"""Pods, nodes and what else of Kubernetes the planner needs: only what matters, immutable.

Thirty thousand pods are held at once, so everything that replicas share sits in one interned
`PodShape`; a `Pod` adds what is its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from controller.domain.resources import Resources

# Labels may have leading zeros where they are compared; taints may not. Python alone would take 1_0 for ten.
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_CANONICAL = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


class Toleration(msgspec.Struct, frozen=True, gc=False):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if not self.key and self.operator != "Exists":
            return False
        if self.operator == "Exists":
            return True
        if self.operator in ("Lt", "Gt"):
            return _compares(taint.value, self.operator, self.value, _CANONICAL)
        return self.operator in ("Equal", "") and self.value == taint.value


class Taint(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Requirement(msgspec.Struct, frozen=True):
    """One expression of a node selector term or label selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt" | "Gte" | "Lte":
                return (
                    len(self.values) == 1
                    and value is not None
                    and _compares(value, self.operator, self.values[0], _INTEGER)
                )
            case _:
                return False  # an operator we do not know never matches: nothing is bought by guess

    def __str__(self) -> str:
        return f"{self.key} {self.operator}" + (f" [{', '.join(self.values)}]" if self.values else "")


def _compares(left: str, operator: str, right: str, form: re.Pattern[str]) -> bool:
    """Integers of 64 bits only, as the scheduler does; anything else does not match."""
    if form.fullmatch(left) is None or form.fullmatch(right) is None:
        return False
    try:
        a, b = int(left), int(right)
    except ValueError:  # thousands of digits
        return False
    if max(abs(a), abs(b)) >= 2**63:
        return False
    return {"Gt": a > b, "Lt": a < b, "Gte": a >= b, "Lte": a <= b}[operator]


class NodeTerm(msgspec.Struct, frozen=True):
    """Expressions that must all hold; `fields` are on metadata (only metadata.name exists)."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.labels and not self.fields:
            return False  # an empty term selects nothing
        return all(r.matches(labels) for r in self.labels) and all(
            r.matches({"metadata.name": name}) for r in self.fields
        )


class Selector(msgspec.Struct, frozen=True):
    """A label selector. An empty one selects everything; `None` (absent) is not represented here."""

    labels: Mapping[str, str] = {}
    expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(k) == v for k, v in self.labels.items()) and all(
            r.matches(labels) for r in self.expressions
        )


class PreferredTerm(msgspec.Struct, frozen=True):
    """A node affinity that may give way."""

    weight: int
    term: NodeTerm


class PodTerm(msgspec.Struct, frozen=True, kw_only=True):
    """A required affinity or anti-affinity to other pods. The pod's own namespace is meant where none is named.

    A selector that is absent matches no pod; an absent namespace selector names no namespace, an empty one all.
    """

    topology_key: str
    selector: Selector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A topology spread constraint; a soft one (ScheduleAnyway) gives way."""

    topology_key: str
    max_skew: int = 1
    hard: bool = True
    selector: Selector | None = None  # absent: matches no pod
    min_domains: int | None = None
    honors_affinity: bool = True  # nodeAffinityPolicy: Honor
    honors_taints: bool = False  # nodeTaintsPolicy: Ignore
    match_label_keys: tuple[str, ...] = ()


class HostPort(msgspec.Struct, frozen=True, gc=False):
    port: int
    protocol: str = "TCP"
    ip: str = ""  # every address; what says 0.0.0.0 is read as this


class PodVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume from a PersistentVolumeClaim: named, or made for the pod (`<pod>-<name>`) if `ephemeral`."""

    claim: str = ""
    name: str = ""
    ephemeral: bool = False
    storage_class: str | None = None  # of an ephemeral one; None: the default class


class PodDeviceClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A resource claim (DRA) that a pod refers to: one that exists, or a template that one is made from."""

    name: str = ""
    claim: str = ""
    template: str = ""


class PodShape(msgspec.Struct, frozen=True, kw_only=True):
    """What decides where a pod can run; shared by all replicas that are alike."""

    requests: Resources = {}
    node_selector: Mapping[str, str] = {}
    required_terms: tuple[NodeTerm, ...] | None = None  # None: no required node affinity at all
    preferred_terms: tuple[PreferredTerm, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spreads: tuple[Spread, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    device_claims: tuple[PodDeviceClaim, ...] = ()
    workload: str = ""  # the native PodGroup that it belongs to; of 1.35: `workload/group/replica key`
    tolerations: tuple[Toleration, ...] = ()
    scheduler: str = "default-scheduler"
    priority: int = 0
    owner_kind: str = ""
    owner_uid: str = ""
    owner_name: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}  # only those in names.POD_ANNOTATIONS
    mirror: bool = False

    @property
    def is_daemon(self) -> bool:
        return self.owner_kind == "DaemonSet"

    @property
    def has_claims(self) -> bool:
        return bool(self.device_claims)


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    namespace: str
    name: str
    uid: str
    shape: PodShape
    phase: str = "Pending"
    node: str = ""
    nominated: str = ""
    created: float = 0.0
    deleting_at: float | None = None  # when its grace ends
    unschedulable_since: float | None = None  # the scheduler said so
    gated: bool = False
    message: str = ""  # the scheduler's words, kept for waiting pods only

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def identity(self) -> str:
        """Of this very pod: a StatefulSet's next one has the same key."""
        return f"{self.key} {self.uid}".rstrip()

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


class Node(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str
    provider_id: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}  # only those in names.NODE_ANNOTATIONS
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    capacity: Resources = {}
    allocatable: Resources = {}
    ready: bool = False
    ready_since: float | None = None  # since when it is, or is not
    created: float = 0.0
    deleting: bool = False
    boot: str = ""  # another one after every reboot; "": its kubelet does not say

    def has_taint(self, key: str, effect: str) -> bool:
        return any(t.key == key and t.effect == effect for t in self.taints)


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    shape: PodShape
    unset: Mapping[
        str, int
    ] = {}  # containers that say nothing of cpu, memory, …: a LimitRange speaks for them

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Enough of a Job to know how many pods it wants to have at once."""

    namespace: str
    name: str
    uid: str
    created: float = 0.0
    parallelism: int = 1
    completions: int | None = None
    succeeded: int = 0
    suspended: bool = False
    finished: bool = False

    @property
    def wanted(self) -> int:
        if self.suspended or self.finished:
            return 0
        if self.completions is None:
            return self.parallelism
        return max(0, min(self.parallelism, self.completions - self.succeeded))


class DisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    selector: Selector | None = None
    allowed: int = 0

    def covers(self, pod: Pod) -> bool:
        return (
            self.selector is not None
            and pod.namespace == self.namespace
            and self.selector.matches(pod.shape.labels)
        )


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str = ""
    labels: Mapping[str, str] = {}


class VolumeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    uid: str = ""
    phase: str = "Pending"  # Pending | Bound | Lost
    volume: str = ""  # the PersistentVolume that it is bound to, or asks for by name
    bind_completed: bool = False  # the cluster says so beside the phase
    storage_class: str | None = None  # None: the default class; "": none at all
    selected_node: str = ""  # where the scheduler decided to have it provisioned
    access_modes: tuple[str, ...] = ()
    requested: int = 0  # bytes
    selector: Selector | None = None  # of volumes that it may be bound to; None: any
    deleting: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def bound(self) -> bool:
        """A volume alone is only a wish: whoever makes a claim may name one that another claim has."""
        return bool(self.volume) and (self.bind_completed or self.phase == "Bound")


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentVolume."""

    name: str
    uid: str = ""
    terms: tuple[NodeTerm, ...] | None = None  # its node affinity; None: usable everywhere
    storage_class: str = ""
    driver: str = ""  # CSI driver; "": none
    local: bool = False  # a disk or a directory of one host
    claim: str = ""  # namespace/name of the claim that it belongs to
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: int = 0  # bytes
    labels: Mapping[str, str] = {}
    deleting: bool = False


class StorageClass(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str = ""
    provisioner: str = ""
    waits_for_consumer: bool = False
    allowed: tuple[NodeTerm, ...] | None = None  # allowedTopologies; None: anywhere
    default: bool = False
    created: float = 0.0  # of several defaults the newest counts


class CsiNode(msgspec.Struct, frozen=True, kw_only=True):
    """How many volumes of a driver a node can attach; a driver without a number has no limit."""

    name: str
    uid: str = ""
    limits: Mapping[str, int] = {}
    drivers: tuple[str, ...] = ()


class LimitRange(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults for containers that say nothing; pods that exist have them already, DaemonSets' pods to come not."""

    namespace: str
    name: str
    uid: str = ""
    default_requests: Resources = {}
    default_limits: Resources = {}


class PodGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A gang as a scheduler's own object says it: coscheduling, Volcano, KAI, or the native one.

    The Workload of Kubernetes 1.35 holds several; 0 pods are needed of one whose pods are of use one by one.
    """

    namespace: str
    name: str
    uid: str = ""
    system: str = ""  # coscheduling | volcano | kai | native | workload
    min_member: int = 0
    parts: Mapping[str, int] = {}  # of a Workload: by its pod groups
    waits_for_quota: str = ""  # the words of a condition that says so


class DeviceClass(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of device; pods that ask for `extended` as for a resource of a device plug-in get one of it, too."""

    name: str
    uid: str = ""
    extended: str = ""  # extendedResourceName; "": none
    selectors: tuple[str, ...] = ()  # CEL
    created: float = 0.0  # of several for one name the newest counts


class DeviceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a resource claim. `plain`: an exact count, of a class, with nothing else that could matter."""

    device_class: str = ""
    count: int = 1
    selectors: tuple[str, ...] = ()  # CEL
    admin: bool = False
    plain: bool = True


class DeviceClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A ResourceClaim, or a ResourceClaimTemplate if `template`."""

    namespace: str
    name: str
    uid: str = ""
    template: bool = False
    owner_uid: str = ""  # the pod that it was made for
    owner_name: str = ""  # and which of the pod's `device_claims` it is
    requests: tuple[DeviceRequest, ...] = ()
    constrained: bool = False  # constraints between devices, which nobody here plans for
    allocated: bool = False
    node: str = ""  # where it is allocated, if that is one node
    devices: int | None = None  # of NVIDIA's driver that were allocated to it alone; None: that is not told
    deleting: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"
