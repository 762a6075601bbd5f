"""What a pod asks of its node while it is resized in place, as the scheduler counts it (component-helpers' PodRequests).

Its spec says what it is to have; until its kubelet has done that, it holds what was allocated before. The
scheduler counts the most of all of these, and leaves out a wish that its kubelet has called infeasible. Conditions
tell that a resize is under way, so that nobody else's statuses are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from controller.cluster.requests import Asked, Warn, Wire, effective, most
from controller.cluster.wire import Amounts, Condition, Container, PodSpec, PodStatus

_RESIZE = b"PodResize"  # PodResizePending, PodResizeInProgress
_RESIZED = frozenset({"cpu", "memory"})  # nothing else can be; a GPU is held whatever its statuses leave out


class _Status(msgspec.Struct):
    """Of one container."""

    name: str = ""
    resources: Amounts | None = None
    allocatedResources: dict[str, str | int | float] | None = None


_statuses = msgspec.json.Decoder(list[_Status] | None).decode
_conditions = msgspec.json.Decoder(list[Condition] | None).decode
_amounts = msgspec.json.Decoder(Amounts | None).decode
_allocated = msgspec.json.Decoder(dict[str, str | int | float] | None).decode


def is_resized(status: PodStatus) -> bool:
    return _RESIZE in bytes(status.conditions)


def requests(spec: PodSpec, status: PodStatus, warn: Warn) -> Mapping[str, int] | None:
    """Scheduler units; None if what is said of the resize cannot be read, so that the spec alone counts."""
    try:
        wish = not any(
            c.type == "PodResizePending" and c.reason == "Infeasible"
            for c in _conditions(status.conditions) or ()
        )

        def wished(amounts: Wire) -> Wire:
            return amounts if wish else {n: v for n, v in (amounts or {}).items() if n not in _RESIZED}

        by_name: dict[str, _Status] = {}
        for raw in (status.containerStatuses, status.initContainerStatuses):
            by_name |= {each.name: each for each in (_statuses(raw) if bytes(raw) else None) or ()}
        pod = _amounts(spec.resources) if bytes(spec.resources) else None
        if pod is not None and bytes(status.resources) and (held := _amounts(status.resources)) is not None:
            own = _allocated(status.allocatedResources) if bytes(status.allocatedResources) else None
            pod = Amounts(most([wished(pod.requests), held.requests, own], warn), pod.limits)

        def asked(containers: Iterable[Container] | None, *, init: bool = False) -> list[Asked]:
            found = []
            for each in containers or ():
                said = (_amounts(each.resources) if bytes(each.resources) else None) or Amounts()
                sidecar = init and each.restartPolicy == "Always"
                now = by_name.get(each.name or "") if sidecar or not init else None
                if now is not None and now.resources is not None:
                    parts = [wished(said.requests), now.resources.requests, now.allocatedResources]
                    said = Amounts(most(parts, warn))
                found.append(Asked(said, sidecar))
            return found

        overhead = _allocated(spec.overhead) if bytes(spec.overhead) else None
        return effective(asked(spec.containers), asked(spec.initContainers, init=True), pod, overhead, warn)
    except msgspec.MsgspecError as error:
        warn("status", str(error))
        return None
