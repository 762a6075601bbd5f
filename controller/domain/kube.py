"""Pods, nodes and what else of Kubernetes the planner needs: only what matters, immutable.

Thirty thousand pods are held at once, so everything that replicas share sits in one interned
`PodShape`; a `Pod` adds what is its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from controller.domain.resources import Resources


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
            return _compares(taint.value, self.operator, self.value)
        return self.value == taint.value


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
                    and _compares(value, self.operator, self.values[0])
                )
            case _:
                return False  # an operator we do not know never matches: nothing is bought by guess

    def __str__(self) -> str:
        return f"{self.key} {self.operator}" + (f" [{', '.join(self.values)}]" if self.values else "")


def _compares(left: str, operator: str, right: str) -> bool:
    """Integers only, as the scheduler does; anything else does not match."""
    try:
        a, b = int(left), int(right)
    except ValueError:
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


class PodShape(msgspec.Struct, frozen=True, kw_only=True):
    """What decides where a pod can run; shared by all replicas that are alike."""

    requests: Resources = {}
    node_selector: Mapping[str, str] = {}
    required_terms: tuple[NodeTerm, ...] | None = None  # None: no required node affinity at all
    tolerations: tuple[Toleration, ...] = ()
    scheduler: str = "default-scheduler"
    priority: int = 0
    owner_kind: str = ""
    owner_uid: str = ""
    owner_name: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}  # only those in names.POD_ANNOTATIONS
    mirror: bool = False
    has_claims: bool = False  # resource claims (DRA)
    inter_pod: bool = False  # required affinity or anti-affinity to pods, or hard topology spread

    @property
    def is_daemon(self) -> bool:
        return self.owner_kind == "DaemonSet"


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
    ready_since: float | None = None
    created: float = 0.0
    deleting: bool = False

    def has_taint(self, key: str, effect: str) -> bool:
        return any(t.key == key and t.effect == effect for t in self.taints)


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    shape: PodShape

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
