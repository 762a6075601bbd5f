"""The parts of Kubernetes JSON that are looked at; everything else is skipped without being built.

Parts that replicas share stay raw bytes: they serve as the key under which their decoded form is
remembered (`shapes`). Everything is optional and may be null, because templates say
`"creationTimestamp": null` and because one odd object must not stop a page of 250.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Protocol

import msgspec
from msgspec import Raw

from controller.domain import names
from controller.domain.kube import NodeTerm, Requirement, Selector

EMPTY = Raw(b"")


def _annotations(name: str, keys: list[str]) -> type[msgspec.Struct]:
    """A struct with one field for each annotation that matters: the others cost nothing."""
    fields = [(f"a{position}", str | None, None) for position in range(len(keys))]
    rename = {f"a{position}": key for position, key in enumerate(keys)}
    return msgspec.defstruct(name, fields, rename=rename, frozen=True, gc=False)


MIRROR = "kubernetes.io/config.mirror"
POD_KEYS = [*sorted(names.POD_ANNOTATIONS), MIRROR]
NODE_KEYS = sorted(names.NODE_ANNOTATIONS)
PodAnnotations = _annotations("PodAnnotations", POD_KEYS)
NodeAnnotations = _annotations("NodeAnnotations", NODE_KEYS)
NO_ANNOTATIONS = PodAnnotations()


class Owner(msgspec.Struct, gc=False):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class PodMeta(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    resourceVersion: str = ""
    labels: Raw = EMPTY
    annotations: PodAnnotations | None = None  # type: ignore[valid-type]
    ownerReferences: Raw = EMPTY


class Container(msgspec.Struct, gc=False):
    name: str | None = None
    resources: Raw = EMPTY
    restartPolicy: str | None = None
    ports: Raw = EMPTY


class PodVolume(msgspec.Struct, gc=False):
    """Most are not from a claim; the service account's has another name in every pod."""

    name: str | None = None
    persistentVolumeClaim: Raw = EMPTY
    ephemeral: Raw = EMPTY


class PodSpec(msgspec.Struct, gc=False):
    nodeName: str | None = None
    schedulerName: str | None = None
    priority: int | None = None
    containers: list[Container] | None = None
    initContainers: list[Container] | None = None
    resources: Raw = EMPTY
    overhead: Raw = EMPTY
    nodeSelector: Raw = EMPTY
    affinity: Raw = EMPTY
    tolerations: Raw = EMPTY
    topologySpreadConstraints: Raw = EMPTY
    resourceClaims: Raw = EMPTY
    schedulingGates: Raw = EMPTY
    schedulingGroup: Raw = EMPTY
    workloadRef: Raw = EMPTY
    hostNetwork: bool | None = None
    volumes: list[PodVolume] | None = None


class PodStatus(msgspec.Struct, gc=False):
    phase: str | None = None
    nominatedNodeName: str | None = None
    conditions: Raw = EMPTY
    containerStatuses: Raw = EMPTY
    initContainerStatuses: Raw = EMPTY
    resources: Raw = EMPTY
    allocatedResources: Raw = EMPTY


class PodWire(msgspec.Struct, gc=False):
    metadata: PodMeta = msgspec.field(default_factory=PodMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    lastTransitionTime: str | None = None


class Amounts(msgspec.Struct):
    """A container's `resources`; a quantity may be written as a number."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class Meta(msgspec.Struct):
    """The metadata of everything that is not a pod."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    resourceVersion: str = ""


class LabelledMeta(Meta):
    """Of the rarer kinds, whose labels, notes and owners are small."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[Owner] | None = None


def interned(labels: Mapping[str, str] | None) -> Mapping[str, str]:
    """A thousand nodes repeat the same thirty keys and mostly the same values."""
    return {sys.intern(key): sys.intern(value) for key, value in (labels or {}).items()}


class Wire(Protocol):
    """Every object's wire form has metadata with a version."""

    @property
    def metadata(self) -> Versioned: ...


class Versioned(Protocol):
    resourceVersion: str


class NodeMeta(Meta):
    labels: dict[str, str] | None = None
    annotations: NodeAnnotations | None = None  # type: ignore[valid-type]


class WireTaint(msgspec.Struct):
    key: str = ""
    value: str | None = None
    effect: str = "NoSchedule"


class NodeSpec(msgspec.Struct):
    providerID: str | None = None
    taints: list[WireTaint] | None = None
    unschedulable: bool | None = None


class NodeInfo(msgspec.Struct):
    bootID: str | None = None


class NodeStatus(msgspec.Struct):
    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None
    conditions: list[Condition] | None = None
    nodeInfo: NodeInfo | None = None


class NodeWire(msgspec.Struct):
    metadata: NodeMeta = msgspec.field(default_factory=NodeMeta)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Template(msgspec.Struct):
    metadata: PodMeta | None = None
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class DaemonSetSpec(msgspec.Struct):
    template: Template = msgspec.field(default_factory=Template)


class DaemonSetWire(msgspec.Struct):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: DaemonSetSpec = msgspec.field(default_factory=DaemonSetSpec)


class JobSpec(msgspec.Struct):
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None


class JobStatus(msgspec.Struct):
    succeeded: int | None = None
    conditions: list[Condition] | None = None


class JobWire(msgspec.Struct):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)


class LabelSelector(msgspec.Struct):
    matchLabels: dict[str, str] | None = None
    matchExpressions: tuple[Requirement, ...] | None = None

    def noun(self) -> Selector:
        return Selector(self.matchLabels or {}, self.matchExpressions or ())


class Term(msgspec.Struct):
    """A term of a node selector."""

    matchExpressions: tuple[Requirement, ...] | None = None
    matchFields: tuple[Requirement, ...] | None = None

    def noun(self) -> NodeTerm:
        return NodeTerm(self.matchExpressions or (), self.matchFields or ())


class NodeSelectorTerms(msgspec.Struct):
    nodeSelectorTerms: list[Term] | None = None

    def noun(self) -> tuple[NodeTerm, ...]:
        return tuple(term.noun() for term in self.nodeSelectorTerms or ())


class BudgetSpec(msgspec.Struct):
    selector: LabelSelector | None = None


class BudgetStatus(msgspec.Struct):
    disruptionsAllowed: int | None = None


class BudgetWire(msgspec.Struct):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


class ListMeta(msgspec.Struct):
    resourceVersion: str = ""
    next: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """One page of a list; the items are still bytes, so that each stands or falls alone."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[Raw] | None = None


class Line(msgspec.Struct):
    """One line of a watch."""

    type: str = ""
    object: Raw = EMPTY


class Identity(msgspec.Struct):
    """What can still be said of an object that cannot be understood."""

    metadata: Meta = msgspec.field(default_factory=Meta)


page = msgspec.json.Decoder(Page).decode
line = msgspec.json.Decoder(Line).decode
identity = msgspec.json.Decoder(Identity).decode
