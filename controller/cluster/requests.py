"""What a pod asks of its node, computed as the scheduler computes it (component-helpers' PodRequests).

Containers add up. Ordinary init containers run one after the other, so only the largest counts; a
sidecar (an init container with restartPolicy Always) goes on running, so it adds to the containers and
to every init container after it. Pod-level resources replace the sum for the resources they name, and
a RuntimeClass's overhead comes on top. Sums are exact and are rounded up once, at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal
from typing import NamedTuple

from controller.cluster.wire import Amounts
from controller.domain.quantity import QuantityError, negative, parse_quantity, scheduler_units

Wire = Mapping[str, str | int | float] | None
Sums = dict[str, Decimal]
Warn = Callable[[str, str], None]

# An amount that nothing has: a pod whose request cannot be read is never bought for, and where it runs
# the node counts as full and in use.
UNREADABLE = 2**62
_EXACT = Context(prec=100)


class Asked(NamedTuple):
    """One container's resources and whether it is a sidecar."""

    amounts: Amounts
    sidecar: bool = False


def effective(
    containers: Iterable[Asked], init: Iterable[Asked], pod: Amounts | None, overhead: Wire, warn: Warn
) -> dict[str, int]:
    """Scheduler units of every resource the pod requests. `warn` is told field and text of what is odd."""
    total: Sums = {}
    for asked in containers:
        _add(total, _requests(asked.amounts, warn))
    total = _with_init(total, init, warn)
    if pod is not None:
        own = _read(pod.requests, warn, "spec.resources.requests")
        for name, value in _read(pod.limits, warn, "spec.resources.limits").items():
            if name not in total:
                own.setdefault(name, value)
        total.update({name: value for name, value in own.items() if _pod_level(name)})
    _add(total, _read(overhead, warn, "spec.overhead"))
    return {name: units(name, value) for name, value in total.items()}


def most(parts: Iterable[Wire], warn: Warn) -> dict[str, str | int | float]:
    """Of each resource the largest of these amounts."""
    found: Sums = {}
    for part in parts:
        for name, value in _read(part, warn, "status.resources").items():
            found[name] = max(found.get(name, value), value)
    return {name: format(value, "f") for name, value in found.items()}


def units(name: str, value: Decimal) -> int:
    return min(UNREADABLE, scheduler_units(name, format(value, "f")))


def _with_init(total: Sums, init: Iterable[Asked], warn: Warn) -> Sums:
    sidecars: Sums = {}
    largest: Sums = {}
    for asked in init:
        own = _requests(asked.amounts, warn)
        if asked.sidecar:
            _add(total, own)
            _add(sidecars, own)
            own = sidecars
        else:
            _add(own, sidecars)
        for name, value in own.items():
            largest[name] = max(largest.get(name, value), value)
    for name, value in largest.items():
        total[name] = max(total.get(name, value), value)
    return total


def _pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _requests(amounts: Amounts, warn: Warn) -> Sums:
    """Requests; a limit counts where its request is missing, as the API server's defaulting has it."""
    found = _read(amounts.limits, warn, "resources.limits")
    found.update(_read(amounts.requests, warn, "resources.requests"))
    return found


def _read(amounts: Wire, warn: Warn, field: str) -> Sums:
    found: Sums = {}
    for name, text in (amounts or {}).items():
        try:
            found[name] = parse_quantity(str(text))
            if found[name] < 0:
                raise QuantityError(negative(text))
        except QuantityError as error:
            warn(f"{field}[{name}]", str(error))
            found[name] = Decimal(UNREADABLE)
    return found


def _add(total: Sums, more: Sums) -> None:
    for name, value in more.items():
        total[name] = _EXACT.add(total[name], value) if name in total else value


def amounts(found: Wire, field: str, warn: Warn) -> Mapping[str, int]:
    """What a node or a limit offers, in scheduler units; what cannot be read is not there to be used."""
    read: dict[str, int] = {}
    for name, text in (found or {}).items():
        try:
            amount = min(UNREADABLE, scheduler_units(name, str(text)))
            if amount < 0:
                raise QuantityError(negative(text))
            read[sys.intern(name)] = amount
        except QuantityError as error:
            warn(f"{field}[{name}]", str(error))
    return read
