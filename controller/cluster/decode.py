"""Kubernetes JSON straight into the domain's nouns, without building what is not looked at.

One object that cannot be read must not stop the others: a part that is odd becomes its conservative
reading (nothing is bought for it, nothing is deleted under it) and an object that is no object at all is
`Unreadable`; either way the log names it and the field, once.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from controller.cluster import resizing, stamps, wire
from controller.cluster.kinds import Kind
from controller.cluster.requests import Warn, amounts
from controller.cluster.shapes import Shapes, is_absent, unset
from controller.domain.kube import DaemonSet, DisruptionBudget, Job, Node, Pod, Taint

log = logging.getLogger(__name__)
T = TypeVar("T")
W = TypeVar("W", bound=wire.Wire)
K = TypeVar("K", bound=msgspec.Struct)
Source = bytes | msgspec.Raw | Mapping[str, object]
MOST_COMPLAINTS = 1000

_pod = msgspec.json.Decoder(wire.PodWire).decode
_node = msgspec.json.Decoder(wire.NodeWire).decode
_daemon_set = msgspec.json.Decoder(wire.DaemonSetWire).decode
_job = msgspec.json.Decoder(wire.JobWire).decode
_budget = msgspec.json.Decoder(wire.BudgetWire).decode
_conditions = msgspec.json.Decoder(list[wire.Condition]).decode


class Unreadable(ValueError):
    """An object that cannot be understood; `version` as far as that could be read."""

    def __init__(self, message: str, version: str = "") -> None:
        super().__init__(message)
        self.version = version


class Decoder:
    """Decodes, and remembers shapes. One for the whole process, so that replicas share theirs.

    Every method takes JSON bytes (or a mapping, for snapshots). `versioned_*` also tell the
    resourceVersion, which the nouns do not carry.
    """

    def __init__(self, shapes: Shapes | None = None) -> None:
        self.shapes = shapes if shapes is not None else Shapes()
        self._told: set[tuple[str, str]] = set()

    def pod(self, source: Source) -> Pod:
        return self.versioned_pod(source)[0]

    def node(self, source: Source) -> Node:
        return self.versioned_node(source)[0]

    def daemon_set(self, source: Source) -> DaemonSet:
        return self.versioned_daemon_set(source)[0]

    def job(self, source: Source) -> Job:
        return self.versioned_job(source)[0]

    def budget(self, source: Source) -> DisruptionBudget:
        return self.versioned_budget(source)[0]

    def versioned_pod(self, source: Source) -> tuple[Pod, str]:
        return self._decoded("pod", _pod, self._as_pod, source)

    def versioned_node(self, source: Source) -> tuple[Node, str]:
        return self._decoded("node", _node, self._as_node, source)

    def versioned_daemon_set(self, source: Source) -> tuple[DaemonSet, str]:
        return self._decoded("daemon set", _daemon_set, self._as_daemon_set, source)

    def versioned_job(self, source: Source) -> tuple[Job, str]:
        return self._decoded("job", _job, self._as_job, source)

    def versioned_budget(self, source: Source) -> tuple[DisruptionBudget, str]:
        return self._decoded("disruption budget", _budget, self._as_budget, source)

    def versioned(self, kind: Kind[K]) -> Callable[[Source], tuple[K, str]]:
        """How an object of one of the rarer kinds is decoded."""

        def make(found: Any) -> K:
            meta: wire.Meta = found.metadata
            what = (
                f"{kind.said} {meta.namespace}/{meta.name}" if meta.namespace else f"{kind.said} {meta.name}"
            )
            return kind.make(found, lambda field, text: self._complain(what, field, text))

        return lambda source: self._decoded(kind.said, kind.decode, make, source)

    def _decoded(
        self, kind: str, decode: Callable[[bytes | msgspec.Raw], W], make: Callable[[W], T], source: Source
    ) -> tuple[T, str]:
        raw = source if isinstance(source, (bytes, msgspec.Raw)) else msgspec.json.encode(source)
        try:
            found = decode(raw)
            return make(found), found.metadata.resourceVersion
        except msgspec.MsgspecError as error:
            raise self._unreadable(kind, raw, error) from None

    def _as_pod(self, found: wire.PodWire) -> Pod:
        meta, spec, status = found.metadata, found.spec, found.status

        def warn(field: str, text: str) -> None:
            self._complain(f"pod {meta.namespace}/{meta.name}", field, text)

        phase = sys.intern(status.phase or "Pending")
        node = sys.intern(spec.nodeName or "")
        since, gated, message = None, False, ""
        if not node and phase not in ("Succeeded", "Failed"):
            since, gated, message = self._waiting(spec, status, warn)
        shape = self.shapes.of(meta, spec, warn)
        if node and resizing.is_resized(status):
            asked = resizing.requests(spec, status, warn)
            if asked is not None and asked != shape.requests:
                shape = msgspec.structs.replace(shape, requests=asked)
        return Pod(
            namespace=sys.intern(meta.namespace),
            name=meta.name,
            uid=meta.uid,
            shape=shape,
            phase=phase,
            node=node,
            nominated=status.nominatedNodeName or "",
            created=self._time(meta.creationTimestamp, "metadata.creationTimestamp", warn) or 0.0,
            deleting_at=self._time(meta.deletionTimestamp, "metadata.deletionTimestamp", warn),
            unschedulable_since=since,
            gated=gated,
            message=message,
        )

    def _waiting(
        self, spec: wire.PodSpec, status: wire.PodStatus, warn: Warn
    ) -> tuple[float | None, bool, str]:
        """Since when the scheduler has called it unschedulable, whether it is held back, and its words."""
        gated = not is_absent(spec.schedulingGates)
        if is_absent(status.conditions):
            return None, gated, ""
        for condition in _conditions(status.conditions):
            if condition.type == "PodScheduled" and condition.status == "False":
                since = None
                if condition.reason == "Unschedulable":
                    field = "status.conditions.lastTransitionTime"
                    since = self._time(condition.lastTransitionTime, field, warn) or 0.0
                return since, gated or condition.reason == "SchedulingGated", condition.message or ""
        return None, gated, ""

    def _as_node(self, found: wire.NodeWire) -> Node:
        meta, spec, status = found.metadata, found.spec, found.status

        def warn(field: str, text: str) -> None:
            self._complain(f"node {meta.name}", field, text)

        ready = next((c for c in status.conditions or () if c.type == "Ready"), None)
        return Node(
            name=sys.intern(meta.name),
            uid=meta.uid,
            provider_id=spec.providerID or "",
            labels=wire.interned(meta.labels),
            annotations=_annotations(meta.annotations),
            taints=tuple(Taint(t.key, t.value or "", t.effect) for t in spec.taints or ()),
            unschedulable=bool(spec.unschedulable),
            capacity=amounts(status.capacity, "status.capacity", warn),
            allocatable=amounts(status.allocatable, "status.allocatable", warn),
            ready=ready is not None and ready.status == "True",
            ready_since=self._time(ready.lastTransitionTime, "status.conditions", warn) if ready else None,
            created=self._time(meta.creationTimestamp, "metadata.creationTimestamp", warn) or 0.0,
            deleting=meta.deletionTimestamp is not None,
            boot=(status.nodeInfo.bootID or "") if status.nodeInfo else "",
        )

    def _as_daemon_set(self, found: wire.DaemonSetWire) -> DaemonSet:
        meta, template = found.metadata, found.spec.template

        def warn(field: str, text: str) -> None:
            self._complain(f"daemon set {meta.namespace}/{meta.name}", f"spec.template.{field}", text)

        # The pods it makes are owned by it, although a template cannot say so.
        shape = self.shapes.of(template.metadata or wire.PodMeta(), template.spec, warn)
        owned = msgspec.structs.replace(
            shape, owner_kind="DaemonSet", owner_uid=meta.uid, owner_name=meta.name
        )
        return DaemonSet(
            namespace=sys.intern(meta.namespace),
            name=meta.name,
            uid=meta.uid,
            shape=owned,
            unset=unset(template.spec, warn),
        )

    def _as_job(self, found: wire.JobWire) -> Job:
        meta, spec, status = found.metadata, found.spec, found.status

        def warn(field: str, text: str) -> None:
            self._complain(f"job {meta.namespace}/{meta.name}", field, text)

        ended = any(c.type in ("Complete", "Failed") and c.status == "True" for c in status.conditions or ())
        return Job(
            namespace=sys.intern(meta.namespace),
            name=meta.name,
            uid=meta.uid,
            created=self._time(meta.creationTimestamp, "metadata.creationTimestamp", warn) or 0.0,
            parallelism=1 if spec.parallelism is None else spec.parallelism,
            completions=spec.completions,
            succeeded=status.succeeded or 0,
            suspended=bool(spec.suspend),
            finished=ended,
        )

    def _as_budget(self, found: wire.BudgetWire) -> DisruptionBudget:
        meta, selector = found.metadata, found.spec.selector
        return DisruptionBudget(
            namespace=sys.intern(meta.namespace),
            name=meta.name,
            uid=meta.uid,
            selector=None if selector is None else selector.noun(),
            allowed=found.status.disruptionsAllowed or 0,
        )

    def _time(self, text: str | None, field: str, warn: Warn) -> float | None:
        if text is None:
            return None
        try:
            return stamps.parse(text)
        except (ValueError, OverflowError) as error:
            warn(field, str(error))
            return 0.0

    def _unreadable(self, kind: str, raw: bytes | msgspec.Raw, error: Exception) -> Unreadable:
        name, version = "of unknown name", ""
        try:
            meta = wire.identity(raw).metadata
            name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
            version = meta.resourceVersion
        except msgspec.MsgspecError:
            pass
        self._complain(f"{kind} {name}", "", f"skipped: {error}")
        return Unreadable(f"{kind} {name}: {error}", version)

    def _complain(self, what: str, field: str, text: str) -> None:
        """Once for each object and field: the object is seen again with every change."""
        if (what, field) in self._told:
            return
        if len(self._told) >= MOST_COMPLAINTS:
            self._told.clear()
        self._told.add((what, field))
        log.warning("cannot read %s%s: %s", what, f", {field}" if field else "", text)


def _annotations(annotations: msgspec.Struct | None) -> Mapping[str, str]:
    if annotations is None:
        return {}
    values = msgspec.structs.astuple(annotations)
    return {key: value for key, value in zip(wire.NODE_KEYS, values, strict=True) if value is not None}
