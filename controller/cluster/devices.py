"""Claims for devices (DRA, resource.k8s.io/v1), the templates that claims are made from, and the classes of devices.

Only a request for an exact count of one class is plain; alternatives, "all", capacities and tolerations
are kept as the mere fact that there is more, because nothing is bought for them by guess.
"""

from __future__ import annotations

import sys

import msgspec

from controller.cluster import stamps
from controller.cluster.requests import Warn
from controller.cluster.wire import LabelledMeta, NodeSelectorTerms
from controller.domain.kube import DeviceClaim, DeviceClass, DeviceRequest

DRIVER = "gpu.nvidia.com"
MADE_FOR = "resource.kubernetes.io/pod-claim-name"


class _Cel(msgspec.Struct):
    expression: str = ""


class _Selector(msgspec.Struct):
    cel: _Cel | None = None


class _Exactly(msgspec.Struct):
    deviceClassName: str = ""
    allocationMode: str | None = None
    count: int | None = None
    selectors: list[_Selector] | None = None
    adminAccess: bool | None = None
    capacity: dict[str, object] | None = None
    tolerations: list[object] | None = None


class _Request(msgspec.Struct):
    name: str = ""
    exactly: _Exactly | None = None
    firstAvailable: list[object] | None = None


class _Devices(msgspec.Struct):
    requests: list[_Request] | None = None
    constraints: list[object] | None = None


class _Spec(msgspec.Struct):
    devices: _Devices = msgspec.field(default_factory=_Devices)


class _Result(msgspec.Struct):
    driver: str = ""
    adminAccess: bool | None = None


class _Allocated(msgspec.Struct):
    results: list[_Result] | None = None


class _Allocation(msgspec.Struct):
    nodeSelector: NodeSelectorTerms | None = None
    devices: _Allocated | None = None


class _Status(msgspec.Struct):
    allocation: _Allocation | None = None


class _ClassSpec(msgspec.Struct):
    extendedResourceName: str | None = None
    selectors: list[_Selector] | None = None


class ClassWire(msgspec.Struct):
    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)
    spec: _ClassSpec = msgspec.field(default_factory=_ClassSpec)


class ClaimWire(msgspec.Struct):
    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _TemplateSpec(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


class TemplateWire(msgspec.Struct):
    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)
    spec: _TemplateSpec = msgspec.field(default_factory=_TemplateSpec)


def device_claim(found: ClaimWire, warn: Warn) -> DeviceClaim:
    meta, allocation = found.metadata, found.status.allocation
    owner = next((o for o in meta.ownerReferences or () if o.kind == "Pod" and o.controller), None)
    return DeviceClaim(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        owner_uid=owner.uid if owner else "",
        owner_name=(meta.annotations or {}).get(MADE_FOR, ""),
        requests=_requests(found.spec),
        constrained=bool(found.spec.devices.constraints),
        allocated=allocation is not None,
        node=_node(allocation),
        devices=_held(allocation),
        deleting=meta.deletionTimestamp is not None,
    )


def device_claim_template(found: TemplateWire, warn: Warn) -> DeviceClaim:
    meta, spec = found.metadata, found.spec.spec
    return DeviceClaim(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        template=True,
        requests=_requests(spec),
        constrained=bool(spec.devices.constraints),
        deleting=meta.deletionTimestamp is not None,
    )


def device_class(found: ClassWire, warn: Warn) -> DeviceClass:
    meta, created = found.metadata, 0.0
    try:
        created = stamps.parse(meta.creationTimestamp) if meta.creationTimestamp else 0.0
    except (ValueError, OverflowError) as error:
        warn("metadata.creationTimestamp", str(error))
    return DeviceClass(
        name=meta.name,
        uid=meta.uid,
        extended=found.spec.extendedResourceName or "",
        selectors=_texts(found.spec.selectors),
        created=created,
    )


def _texts(selectors: list[_Selector] | None) -> tuple[str, ...]:
    return tuple(each.cel.expression if each.cel else "" for each in selectors or ())


def _requests(spec: _Spec) -> tuple[DeviceRequest, ...]:
    return tuple(_request(each) for each in spec.devices.requests or ())


def _request(found: _Request) -> DeviceRequest:
    exactly = found.exactly
    if exactly is None:
        return DeviceRequest(plain=False)
    selectors = _texts(exactly.selectors)
    counted = exactly.allocationMode in (None, "", "ExactCount")
    return DeviceRequest(
        device_class=sys.intern(exactly.deviceClassName),
        count=(1 if exactly.count is None else exactly.count) if counted else 0,
        selectors=selectors,
        admin=bool(exactly.adminAccess),
        plain=counted
        and all(selectors)
        and not (exactly.capacity or exactly.tolerations or found.firstAvailable),
    )


def _held(allocation: _Allocation | None) -> int | None:
    """The driver's devices that nobody else can have; adminAccess takes none from others."""
    if allocation is None or allocation.devices is None or allocation.devices.results is None:
        return None
    return sum(each.driver == DRIVER and not each.adminAccess for each in allocation.devices.results)


def _node(allocation: _Allocation | None) -> str:
    """The one node that the devices are on, as drivers of local devices tell it."""
    if allocation is None or allocation.nodeSelector is None:
        return ""
    terms = allocation.nodeSelector.noun()
    if len(terms) != 1:
        return ""
    for field in terms[0].fields:
        if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
            return sys.intern(field.values[0])
    return ""
