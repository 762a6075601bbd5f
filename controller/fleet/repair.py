"""The repair brake: when many machines are unhealthy at once, the fault is elsewhere. Pure.

A broken device plug-in or join token makes every machine look broken; replacing them all costs money
and mends nothing. So beyond a fifth of the machines, and at least three, nothing is replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.domain.machine import Machine, Phase
from controller.domain.reason import Reason

LEAST = 3
SHARE = 5  # one in so many

# What speaks about the cluster or the image, not about the cloud's stock or an eviction.
UNHEALTHY = frozenset({Reason.JOIN_DEADLINE, Reason.READY_DEADLINE, Reason.GPU_DEADLINE, Reason.GPU_LOST})


class Brake(msgspec.Struct, frozen=True):
    message: str
    types: frozenset[str]  # instance types of which no more are bought
    reason: Reason


def brake(machines: Sequence[Machine]) -> Brake | None:
    """Judges machines as they would be after the next step."""
    alive = [m for m in machines if m.phase is not Phase.TOMBSTONE and not m.gone_at]
    sick = [m for m in alive if m.reason in UNHEALTHY]
    if len(sick) < LEAST or len(sick) * SHARE <= len(alive):
        return None
    reasons = sorted(m.reason for m in sick if m.reason is not None)
    most = max(reasons, key=reasons.count)
    return Brake(
        f"{len(sick)} of {len(alive)} machines are unhealthy at once ({most.value}): none is replaced before "
        "this is looked into",
        frozenset(m.instance_type for m in sick),
        most,
    )
