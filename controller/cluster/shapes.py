"""From the raw parts of a pod to its `PodShape`: one shape for all replicas, built once.

The key is a digest of the scheduling-relevant bytes, so for a replica of a known shape no nested
structure is decoded at all. Whole `containers` cannot be part of the key: the service account's volume
mount has another name in every pod. Pods with a label or a volume of their own (StatefulSets, indexed
Jobs) have shapes of their own, which still share tolerations, requests and the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import TypeVar

import msgspec

from controller.cluster import pod_parts, wire
from controller.cluster.memo import Memo
from controller.cluster.pod_parts import ABSENT, FREE, LABEL_KEYS, STUCK
from controller.cluster.requests import Asked, Warn, effective
from controller.cluster.wire import EMPTY, MIRROR, NO_ANNOTATIONS, POD_KEYS, Amounts, PodMeta, PodSpec
from controller.domain import names
from controller.domain.kube import HostPort, PodDeviceClaim, PodShape, PodVolume, Toleration

T = TypeVar("T")
_NO_AMOUNTS = Amounts()
_DEFAULTED = ("cpu", "memory", "ephemeral-storage")
_NOTHING: Mapping[str, str] = {}
_IMPOSSIBLE: Mapping[str, str] = {names.PREFIX + "unreadable": "selector"}  # matches no node
NOBODY = ("", "", "")
_SOME_CLAIM = (PodDeviceClaim(),)  # it counts as busy
# What is unreadable here could forbid any node, so such a pod is placed on none.
_PLACING = ("spec.topologySpreadConstraints", "ports", "spec.schedulingGroup", "spec.workloadRef")

_amounts = msgspec.json.Decoder(Amounts).decode
_tolerations = msgspec.json.Decoder(tuple[Toleration, ...]).decode
_strings = msgspec.json.Decoder(dict[str, str]).decode
_overhead = msgspec.json.Decoder(dict[str, str | int | float]).decode
_owners = msgspec.json.Decoder(list[wire.Owner]).decode
_SHOWN = 60  # of what cannot be read


class Shapes:
    """Builds and remembers shapes. `warn(field, text)` is told what could not be read."""

    def __init__(self, limit: int = 2048) -> None:
        self._shapes: Memo[PodShape] = Memo(limit)
        self._bases: Memo[PodShape] = Memo(limit)  # the same without labels
        self._parts: Memo[object] = Memo(limit)

    def __len__(self) -> int:
        return len(self._shapes)

    def of(self, meta: PodMeta, spec: PodSpec, warn: Warn) -> PodShape:
        annotations = meta.annotations
        if annotations is None or annotations == NO_ANNOTATIONS:
            head = f"{spec.schedulerName}/{spec.priority}"
        else:
            head = f"{spec.schedulerName}/{spec.priority}/{annotations}"
        pieces: list[bytes | msgspec.Raw] = [
            head.encode(),
            meta.ownerReferences,
            spec.nodeSelector,
            spec.affinity,
            spec.tolerations,
            spec.overhead,
            spec.resources,
            spec.resourceClaims,
            spec.topologySpreadConstraints,
            spec.schedulingGroup,
            spec.workloadRef,
            b"host" if spec.hostNetwork else b"",
        ]
        for container in spec.containers or ():
            pieces.append(container.resources)
            pieces.append(container.ports)
        for container in spec.initContainers or ():
            pieces.append(b"init" if container.restartPolicy != "Always" else b"sidecar")
            pieces.append(container.resources)
            pieces.append(container.ports)
        labels = bytes(meta.labels)
        if spec.affinity is not EMPTY and LABEL_KEYS in bytes(spec.affinity):
            pieces.append(labels)
        # JSON holds no zero byte, so nothing is ambiguous.
        base_key = blake2b(b"\0".join(pieces), digest_size=16).digest()
        key = base_key + labels
        claims = _claims(spec)
        if claims:
            key += b"\0" + claims
        found = self._shapes.get(key)
        if found is not None:
            return found
        base = self._bases.get(base_key)
        if base is None:
            base, sound = self._build(meta, spec, warn)
            # What is odd is not remembered, so that the next pod of the kind is named in the log, too.
            if not sound:
                return self._owned(base, labels, claims, spec, warn)[0]
            self._bases.put(base_key, base)
        shape, sound = self._owned(base, labels, claims, spec, warn)
        return self._shapes.put(key, shape) if sound else shape

    def _owned(
        self, base: PodShape, labels: bytes, claims: bytes, spec: PodSpec, warn: Warn
    ) -> tuple[PodShape, bool]:
        """The shape with what replicas may not share, and whether that could be read."""
        if labels not in ABSENT:
            base = msgspec.structs.replace(base, labels=_mapping(labels))
        if not claims:
            return base, True
        nothing: tuple[PodVolume, ...] | None = None
        found = self._part("spec.volumes", claims, lambda _: pod_parts.volumes(spec), nothing, nothing, warn)
        if found is None:
            return msgspec.structs.replace(base, required_terms=()), False
        return msgspec.structs.replace(base, volumes=found), True

    def _build(self, meta: PodMeta, spec: PodSpec, warn: Warn) -> tuple[PodShape, bool]:
        """A shape without its labels, and whether all of it could be read."""
        unread: list[str] = []

        def told(field: str, text: str) -> None:
            unread.append(field)
            warn(field, text)

        def part(field: str, raw: msgspec.Raw, decode: Callable[[bytes], T], empty: T, odd: T) -> T:
            return self._part(field, bytes(raw), decode, empty, odd, told)

        kind, uid, name = part("metadata.ownerReferences", meta.ownerReferences, _owner, NOBODY, NOBODY)
        kept, mirror = _kept(meta.annotations)
        affinities = self._affinities(bytes(spec.affinity), bytes(meta.labels), told)
        shape = PodShape(
            requests=self._requests(spec, told),
            node_selector=part("spec.nodeSelector", spec.nodeSelector, _mapping, _NOTHING, _IMPOSSIBLE),
            required_terms=affinities.required,
            preferred_terms=affinities.preferred,
            affinity=affinities.to_pods,
            anti_affinity=affinities.against_pods,
            spreads=part(
                "spec.topologySpreadConstraints", spec.topologySpreadConstraints, pod_parts.spreads, (), ()
            ),
            host_ports=_host_ports(spec, told),
            device_claims=part(
                "spec.resourceClaims", spec.resourceClaims, pod_parts.device_claims, (), _SOME_CLAIM
            ),
            workload=part("spec.schedulingGroup", spec.schedulingGroup, pod_parts.scheduling_group, "", "")
            or part("spec.workloadRef", spec.workloadRef, pod_parts.workload_ref, "", ""),
            tolerations=part("spec.tolerations", spec.tolerations, _tolerations, (), ()),
            scheduler=sys.intern(spec.schedulerName or "default-scheduler"),
            priority=spec.priority or 0,
            owner_kind=kind,
            owner_uid=uid,
            owner_name=name,
            annotations=kept,
            mirror=mirror,
        )
        if any(field in _PLACING for field in unread):
            shape = msgspec.structs.replace(shape, required_terms=())
        return shape, not unread

    def _affinities(self, raw: bytes, labels: bytes, warn: Warn) -> pod_parts.Affinities:
        if LABEL_KEYS not in raw:
            return self._part(
                "spec.affinity", raw, lambda raw: pod_parts.affinities(raw, {}), FREE, STUCK, warn
            )
        try:
            return pod_parts.affinities(raw, {} if labels in ABSENT else _mapping(labels))
        except (msgspec.MsgspecError, ValueError) as error:
            warn("spec.affinity", str(error))
            return STUCK

    def _part(self, field: str, raw: bytes, decode: Callable[[bytes], T], empty: T, odd: T, warn: Warn) -> T:
        """A part of a shape, shared by all that have the same bytes there; `odd` where it is unreadable."""
        if raw in ABSENT:
            return empty
        known = self._parts.get((field, raw))
        if known is not None:
            return known  # type: ignore[return-value]
        try:
            value = decode(raw)
        except (msgspec.MsgspecError, ValueError) as error:
            warn(field, str(error))
            return odd
        self._parts.put((field, raw), value)
        return value

    def _requests(self, spec: PodSpec, warn: Warn) -> Mapping[str, int]:
        containers = [(bytes(c.resources), False) for c in spec.containers or ()]
        init = [(bytes(c.resources), c.restartPolicy == "Always") for c in spec.initContainers or ()]
        key = ("requests", tuple(containers), tuple(init), bytes(spec.resources), bytes(spec.overhead))
        known = self._parts.get(key)
        if known is not None:
            return known  # type: ignore[return-value]
        odd: list[str] = []

        def told(field: str, text: str) -> None:
            odd.append(field)
            warn(field, text)

        found = effective(
            [
                Asked(_resources(raw, told, f"spec.containers[{at}]"))
                for at, (raw, _) in enumerate(containers)
            ],
            [
                Asked(_resources(raw, told, f"spec.initContainers[{at}]"), sidecar)
                for at, (raw, sidecar) in enumerate(init)
            ],
            None if is_absent(spec.resources) else _resources(bytes(spec.resources), told, "spec"),
            None if is_absent(spec.overhead) else _overhead(spec.overhead),
            told,
        )
        shared = {sys.intern(name): amount for name, amount in found.items()}
        if not odd:
            self._parts.put(key, shared)
        return shared


def unset(spec: PodSpec, warn: Warn) -> Mapping[str, int]:
    """How many containers of a template leave a resource to a LimitRange's default."""
    running = [bytes(c.resources) for c in spec.initContainers or () if c.restartPolicy == "Always"]
    running += [bytes(c.resources) for c in spec.containers or ()]
    known = [_resources(raw, warn) for raw in running]
    whole = Amounts() if is_absent(spec.resources) else _resources(bytes(spec.resources), warn)
    found = {}
    for name in _DEFAULTED:
        says = [name in (each.requests or {}) or name in (each.limits or {}) for each in (whole, *known)]
        if not says[0] and not all(says[1:]):
            found[name] = says[1:].count(False)
    return found


def _claims(spec: PodSpec) -> bytes:
    """What tells the volumes from claims of one pod from those of another; empty if it has none."""
    found: list[bytes] = []
    for each in spec.volumes or ():
        if each.persistentVolumeClaim is not EMPTY:
            found.append(bytes(each.persistentVolumeClaim))
        elif each.ephemeral is not EMPTY:
            found.append((each.name or "").encode() + b"\0" + bytes(each.ephemeral))
    return b"\0".join(found)


def _host_ports(spec: PodSpec, warn: Warn) -> tuple[HostPort, ...]:
    running = [bytes(c.ports) for c in spec.initContainers or () if c.restartPolicy == "Always"]
    running += [bytes(c.ports) for c in spec.containers or ()]
    try:
        return pod_parts.host_ports(running, bool(spec.hostNetwork))
    except msgspec.MsgspecError as error:
        warn("ports", str(error))
        return ()


def is_absent(raw: msgspec.Raw) -> bool:
    return len(memoryview(raw)) <= 4 and bytes(raw) in ABSENT


def _resources(raw: bytes, warn: Warn, whose: str = "") -> Amounts:
    if raw in ABSENT:
        return _NO_AMOUNTS
    try:
        return _amounts(raw)
    except msgspec.MsgspecError as error:
        warn(f"{whose}.resources".lstrip("."), f"{error}: {raw[:_SHOWN].decode(errors='replace')}")
        return Amounts(requests={"nvidia.com/gpu": "unreadable", "cpu": "unreadable"})


def _mapping(raw: bytes) -> dict[str, str]:
    return {sys.intern(key): sys.intern(value) for key, value in _strings(raw).items()}


def _owner(raw: bytes) -> tuple[str, str, str]:
    for owner in _owners(raw):
        if owner.controller:
            return sys.intern(owner.kind), owner.uid, owner.name
    return NOBODY


def _kept(annotations: msgspec.Struct | None) -> tuple[Mapping[str, str], bool]:
    """The annotations that matter, and whether the pod is the mirror of a static one."""
    if annotations is None:
        return {}, False
    values = msgspec.structs.astuple(annotations)
    found = {key: value for key, value in zip(POD_KEYS, values, strict=True) if value is not None}
    return {key: value for key, value in found.items() if key != MIRROR}, MIRROR in found
