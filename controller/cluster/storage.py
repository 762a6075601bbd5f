"""Claims, volumes, storage classes and what nodes can attach: where storage lets a pod run.

Quirks: old claims name their class, and old clusters their default class, in a beta annotation; a claim
without a class means the default one, a claim with an empty class means none at all.
"""

from __future__ import annotations

import sys

import msgspec

from controller.cluster import stamps
from controller.cluster.requests import Warn
from controller.cluster.wire import LabelledMeta, LabelSelector, NodeSelectorTerms, interned
from controller.domain.kube import CsiNode, NodeTerm, Requirement, StorageClass, Volume, VolumeClaim
from controller.domain.quantity import QuantityError, negative, scheduler_units

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = (
    "pv.kubernetes.io/bind-completed"  # by this, whatever its value, the scheduler calls a claim bound
)
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_BETA_DEFAULT_CLASS = "storageclass.beta.kubernetes.io/is-default-class"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
Sizes = dict[str, str | int | float]


class _Resources(msgspec.Struct):
    requests: Sizes | None = None


class _ClaimSpec(msgspec.Struct):
    storageClassName: str | None = None
    volumeName: str | None = None
    accessModes: tuple[str, ...] | None = None
    resources: _Resources | None = None
    selector: LabelSelector | None = None


class _Status(msgspec.Struct):
    phase: str | None = None


class ClaimWire(msgspec.Struct):
    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Csi(msgspec.Struct):
    driver: str = ""


class _Path(msgspec.Struct):
    """Where on its host a volume is: nobody asks."""


class _Affinity(msgspec.Struct):
    required: NodeSelectorTerms | None = None


class _ClaimRef(msgspec.Struct):
    namespace: str = ""
    name: str = ""


class _VolumeSpec(msgspec.Struct):
    storageClassName: str | None = None
    csi: _Csi | None = None
    local: _Path | None = None
    hostPath: _Path | None = None
    nodeAffinity: _Affinity | None = None
    claimRef: _ClaimRef | None = None
    accessModes: tuple[str, ...] | None = None
    capacity: Sizes | None = None


class VolumeWire(msgspec.Struct):
    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)
    spec: _VolumeSpec = msgspec.field(default_factory=_VolumeSpec)
    status: _Status = msgspec.field(default_factory=_Status)


class _TopologyRule(msgspec.Struct):
    key: str = ""
    values: tuple[str, ...] | None = None


class _TopologyTerm(msgspec.Struct):
    matchLabelExpressions: list[_TopologyRule] | None = None


class ClassWire(msgspec.Struct):
    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)
    provisioner: str = ""
    volumeBindingMode: str | None = None
    allowedTopologies: list[_TopologyTerm] | None = None


class _Allocatable(msgspec.Struct):
    count: int | None = None


class _Driver(msgspec.Struct):
    name: str = ""
    allocatable: _Allocatable | None = None


class _CsiNodeSpec(msgspec.Struct):
    drivers: list[_Driver] | None = None


class CsiNodeWire(msgspec.Struct):
    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)
    spec: _CsiNodeSpec = msgspec.field(default_factory=_CsiNodeSpec)


def volume_claim(found: ClaimWire, warn: Warn) -> VolumeClaim:
    meta, spec = found.metadata, found.spec
    notes = meta.annotations or {}
    kind = spec.storageClassName if spec.storageClassName is not None else notes.get(_BETA_CLASS)
    return VolumeClaim(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        phase=sys.intern(found.status.phase or "Pending"),
        volume=spec.volumeName or "",
        bind_completed=BIND_COMPLETED in notes,
        storage_class=None if kind is None else sys.intern(kind),
        selected_node=notes.get(SELECTED_NODE, ""),
        access_modes=spec.accessModes or (),
        requested=_size(spec.resources.requests if spec.resources else None, "spec.resources", warn),
        selector=None if spec.selector is None else spec.selector.noun(),
        deleting=meta.deletionTimestamp is not None,
    )


def volume(found: VolumeWire, warn: Warn) -> Volume:
    meta, spec = found.metadata, found.spec
    where, claim = spec.nodeAffinity, spec.claimRef
    return Volume(
        name=meta.name,
        uid=meta.uid,
        terms=None if where is None or where.required is None else where.required.noun(),
        storage_class=sys.intern(spec.storageClassName or ""),
        driver=sys.intern(spec.csi.driver) if spec.csi else "",
        local=spec.local is not None or spec.hostPath is not None,
        claim="" if claim is None else f"{claim.namespace}/{claim.name}",
        phase=sys.intern(found.status.phase or ""),
        access_modes=spec.accessModes or (),
        capacity=_size(spec.capacity, "spec.capacity", warn),
        labels=interned(meta.labels),
        deleting=meta.deletionTimestamp is not None,
    )


def storage_class(found: ClassWire, warn: Warn) -> StorageClass:
    meta, notes = found.metadata, found.metadata.annotations or {}
    created = 0.0
    try:
        created = stamps.parse(meta.creationTimestamp) if meta.creationTimestamp else 0.0
    except (ValueError, OverflowError) as error:
        warn("metadata.creationTimestamp", str(error))
    return StorageClass(
        name=meta.name,
        uid=meta.uid,
        provisioner=found.provisioner,
        waits_for_consumer=found.volumeBindingMode == "WaitForFirstConsumer",
        allowed=tuple(_topology(term) for term in found.allowedTopologies)
        if found.allowedTopologies
        else None,
        default="true" in (notes.get(DEFAULT_CLASS), notes.get(_BETA_DEFAULT_CLASS)),
        created=created,
    )


def _topology(term: _TopologyTerm) -> NodeTerm:
    return NodeTerm(
        tuple(Requirement(rule.key, "In", rule.values or ()) for rule in term.matchLabelExpressions or ())
    )


def csi_node(found: CsiNodeWire, warn: Warn) -> CsiNode:
    drivers = found.spec.drivers or ()
    return CsiNode(
        name=sys.intern(found.metadata.name),
        uid=found.metadata.uid,
        limits={
            sys.intern(each.name): each.allocatable.count
            for each in drivers
            if each.allocatable is not None and each.allocatable.count is not None
        },
        drivers=tuple(sys.intern(each.name) for each in drivers),
    )


def _size(sizes: Sizes | None, field: str, warn: Warn) -> int:
    text = (sizes or {}).get("storage", 0)
    try:
        size = scheduler_units("storage", str(text))
        if size < 0:
            raise QuantityError(negative(text))
        return size
    except QuantityError as error:
        warn(f"{field}[storage]", str(error))
        return 0
