"""The rarer kinds in one table: what each is called, where it is served and how it is read.

Some belong to add-ons (gangs of other schedulers) or to newer servers (claims for devices): they are
`optional`, looked for by discovery, and their absence is no error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from controller.cluster import devices, groups, storage
from controller.cluster.requests import Warn, amounts
from controller.cluster.wire import LabelledMeta, interned
from controller.domain.kube import (
    CsiNode,
    DeviceClaim,
    DeviceClass,
    LimitRange,
    Namespace,
    PodGroup,
    StorageClass,
    Volume,
    VolumeClaim,
)

K = TypeVar("K", bound=msgspec.Struct)


class NamespaceWire(msgspec.Struct):
    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)


class _Limit(msgspec.Struct):
    type: str = ""
    default: dict[str, str | int | float] | None = None
    defaultRequest: dict[str, str | int | float] | None = None


class _LimitSpec(msgspec.Struct):
    limits: list[_Limit] | None = None


class LimitRangeWire(msgspec.Struct):
    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)
    spec: _LimitSpec = msgspec.field(default_factory=_LimitSpec)


def namespace(found: NamespaceWire, warn: Warn) -> Namespace:
    meta = found.metadata
    return Namespace(name=sys.intern(meta.name), uid=meta.uid, labels=interned(meta.labels))


def limit_range(found: LimitRangeWire, warn: Warn) -> LimitRange:
    """Of several limits for containers, the last word on a resource counts, as in admission."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    for each in found.spec.limits or ():
        if each.type == "Container":
            requests |= amounts(each.defaultRequest, "spec.limits.defaultRequest", warn)
            limits |= amounts(each.default, "spec.limits.default", warn)
    meta = found.metadata
    return LimitRange(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        default_requests=requests,
        default_limits=limits,
    )


class Kind(msgspec.Struct, Generic[K], frozen=True):
    said: str  # in messages
    plural: str
    api: str  # `v1`, or group and version
    decode: Callable[[bytes | msgspec.Raw], Any]
    make: Callable[[Any, Warn], K]
    optional: bool = False
    spaced: bool = True  # it lives in a namespace

    @property
    def group(self) -> str:
        return self.api.rpartition("/")[0]

    @property
    def path(self) -> str:
        return f"/apis/{self.api}/{self.plural}" if self.group else f"/api/{self.api}/{self.plural}"

    @property
    def resource(self) -> str:
        """As RBAC's messages write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _decoder(form: type[Any]) -> Callable[[bytes | msgspec.Raw], Any]:
    return msgspec.json.Decoder(form).decode


_STORAGE = "storage.k8s.io/v1"
_DEVICES = "resource.k8s.io/v1"
NAMESPACES: Kind[Namespace] = Kind(
    "namespace", "namespaces", "v1", _decoder(NamespaceWire), namespace, spaced=False
)
VOLUME_CLAIMS: Kind[VolumeClaim] = Kind(
    "persistent volume claim",
    "persistentvolumeclaims",
    "v1",
    _decoder(storage.ClaimWire),
    storage.volume_claim,
)
VOLUMES: Kind[Volume] = Kind(
    "persistent volume", "persistentvolumes", "v1", _decoder(storage.VolumeWire), storage.volume, spaced=False
)
STORAGE_CLASSES: Kind[StorageClass] = Kind(
    "storage class",
    "storageclasses",
    _STORAGE,
    _decoder(storage.ClassWire),
    storage.storage_class,
    spaced=False,
)
CSI_NODES: Kind[CsiNode] = Kind(
    "CSI node", "csinodes", _STORAGE, _decoder(storage.CsiNodeWire), storage.csi_node, spaced=False
)
LIMIT_RANGES: Kind[LimitRange] = Kind(
    "limit range", "limitranges", "v1", _decoder(LimitRangeWire), limit_range
)
DEVICE_CLAIMS: Kind[DeviceClaim] = Kind(
    "resource claim", "resourceclaims", _DEVICES, _decoder(devices.ClaimWire), devices.device_claim, True
)
DEVICE_CLAIM_TEMPLATES: Kind[DeviceClaim] = Kind(
    "resource claim template", "resourceclaimtemplates", _DEVICES, _decoder(devices.TemplateWire),
    devices.device_claim_template, True,
)  # fmt: skip
DEVICE_CLASSES: Kind[DeviceClass] = Kind(
    "device class", "deviceclasses", _DEVICES, _decoder(devices.ClassWire), devices.device_class, True, False
)


def _pod_groups(api: str) -> Kind[PodGroup]:
    return Kind(
        "pod group", "podgroups", api, _decoder(groups.GroupWire), partial(groups.pod_group, api=api), True
    )


# Of one group the first version that is served is watched.
POD_GROUPS: tuple[Kind[PodGroup], ...] = tuple(
    _pod_groups(api)
    for api in (
        "scheduling.x-k8s.io/v1alpha1",
        "scheduling.volcano.sh/v1beta1",
        "scheduling.run.ai/v2alpha2",
        "scheduling.k8s.io/v1beta1",
        "scheduling.k8s.io/v1alpha3",
        "scheduling.k8s.io/v1alpha2",
    )
)
WORKLOADS: Kind[PodGroup] = Kind(
    "workload", "workloads", "scheduling.k8s.io/v1alpha1", _decoder(groups.GroupWire),
    partial(groups.pod_group, api="scheduling.k8s.io/v1alpha1"), True,
)  # fmt: skip
ANY_POD_GROUP = _pod_groups("")  # each says itself what it is, as in a file
ALWAYS: tuple[Kind[Any], ...] = (
    NAMESPACES, VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES, CSI_NODES, LIMIT_RANGES
)  # fmt: skip
OPTIONAL: tuple[Kind[Any], ...] = (
    *POD_GROUPS, WORKLOADS, DEVICE_CLAIMS, DEVICE_CLAIM_TEMPLATES, DEVICE_CLASSES
)  # fmt: skip
