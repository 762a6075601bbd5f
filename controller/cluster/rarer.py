"""The objects of every kind that is not pods, and how the rarer ones are asked for."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from controller.cluster.index import Matter
from controller.cluster.kinds import Kind
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

T = TypeVar("T")
# Whom a change of one of the rarer kinds concerns; the others decide nothing by themselves.
MATTERS = {
    "persistentvolumeclaims": Matter.DEMAND,
    "persistentvolumes": Matter.DEMAND,
    "podgroups": Matter.DEMAND,
    "workloads": Matter.DEMAND,
    "resourceclaims": Matter.CAPACITY,
    "deviceclasses": Matter.DEMAND,
}


class Objects(Generic[T]):
    """The objects of a kind that is not pods."""

    def __init__(self, matter: Matter) -> None:
        self._matter = matter
        self.by_uid: dict[str, T] = {}
        self._now: tuple[T, ...] | None = ()

    def every(self) -> tuple[T, ...]:
        if self._now is None:
            self._now = tuple(self.by_uid.values())
        return self._now

    def uids(self) -> set[str]:
        return set(self.by_uid)

    def __len__(self) -> int:
        return len(self.by_uid)

    def put(self, found: T) -> Matter:
        uid: str = found.uid  # type: ignore[attr-defined]
        if self.by_uid.get(uid) == found:
            return Matter.NOBODY  # a heartbeat
        self.by_uid[uid] = found
        self._now = None
        return self._matter

    def drop(self, uid: str) -> Matter:
        if self.by_uid.pop(uid, None) is None:
            return Matter.NOBODY
        self._now = None
        return self._matter


def name_of(kind: Kind[Any]) -> str:
    """Under which it is kept and told of: add-ons use the same plural for different things."""
    return kind.resource if kind.optional else kind.plural


class Rarer:
    """What is kept of the kinds in the table of rarer ones; optional ones only while the server has them."""

    def __init__(self) -> None:
        self._kept: dict[str, Objects[Any]] = {}
        self._optional: dict[str, list[str]] = {}  # plural -> names, in order

    def keep(self, kind: Kind[Any]) -> Objects[Any]:
        """From now on there are objects of the kind."""
        name = name_of(kind)
        if kind.optional:
            names = self._optional.setdefault(kind.plural, [])
            if name not in names:
                names.append(name)
                names.sort()
        return self._kept.setdefault(name, Objects(MATTERS.get(kind.plural, Matter.OTHER)))

    def is_optional(self, name: str) -> bool:
        return any(name in names for names in self._optional.values())

    def namespaces(self) -> tuple[Namespace, ...]:
        return self._every("namespaces")

    def volume_claims(self) -> tuple[VolumeClaim, ...]:
        return self._every("persistentvolumeclaims")

    def persistent_volumes(self) -> tuple[Volume, ...]:
        return self._every("persistentvolumes")

    def storage_classes(self) -> tuple[StorageClass, ...]:
        return self._every("storageclasses")

    def csi_nodes(self) -> tuple[CsiNode, ...]:
        return self._every("csinodes")

    def limit_ranges(self) -> tuple[LimitRange, ...]:
        return self._every("limitranges")

    def pod_groups(self) -> tuple[PodGroup, ...]:
        """Of every scheduler that has a kind of its own for them."""
        return self._every_optional("podgroups") + self._every_optional("workloads")

    def device_claims(self) -> tuple[DeviceClaim, ...]:
        """Resource claims and the templates that they are made from."""
        return self._every_optional("resourceclaims") + self._every_optional("resourceclaimtemplates")

    def device_classes(self) -> tuple[DeviceClass, ...]:
        return self._every_optional("deviceclasses")

    def _every(self, kind: str) -> tuple[Any, ...]:
        return self._kept[kind].every()

    def _every_optional(self, plural: str) -> tuple[Any, ...]:
        every = [self._every(name) for name in self._optional.get(plural, ())]
        return every[0] if len(every) == 1 else tuple(found for some in every for found in some)
