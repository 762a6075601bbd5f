"""Groups that nothing may be taken from now.

cluster-autoscaler drains a machine before it asks for its deletion, so a refusal comes too late for the pods, and
comes again and again. It leaves a group alone that has no more than its minimum; so that is what it is told. What
failed or never registered goes all the same: it is followed here.
"""

from __future__ import annotations

from compat_grpc.groups import Group
from compat_grpc.switched import Seen
from controller.domain.policy import Policy, halts
from controller.domain.switching import Power
from controller.fleet.switching.waits import paused, stays


def is_held(policy: Policy, group: Group, seen: Seen | None, now: float) -> bool:
    """`seen`: of a group that is one switched machine."""
    if seen is not None:
        if seen.record.power is not Power.ON:
            return False
        halted = not seen.configured or paused(policy, seen.switch, seen.node, "scale-down")
        return halted or bool(stays(seen.switch, seen.record, now))
    pool = policy.pool(group.pool)
    return halts("scale-down", policy.pause, pool.pause if pool is not None else "")
