"""Options of a node group. By default none are given, which means cluster-autoscaler's own flags.

Since 1.35 an answer with options sets what the interface has no field for to zero: nodes then have no time
to start, and GPU nodes are bought twice. So this is a switch, and where it is on every field is filled,
because what is left out counts as zero too.
"""

from __future__ import annotations

from compat_grpc.wire import externalgrpc_pb2 as wire
from controller.domain.policy import Policy

_NS = 10**9


def filled(defaults: wire.NodeGroupAutoscalingOptions, policy: Policy) -> wire.NodeGroupAutoscalingOptions:
    """The defaults of the request, with what our settings say: the cooldown, and how long a start may take."""
    options = wire.NodeGroupAutoscalingOptions()
    options.CopyFrom(defaults)
    unneeded = policy.cooldown
    provision = policy.deadlines.launch + policy.deadlines.join
    unready = _seconds(defaults, "scaleDownUnreadyDuration", "scaleDownUnreadyTime")
    for seconds, new, old in (
        (unneeded, options.scaleDownUnneededDuration, options.scaleDownUnneededTime),
        (unready, options.scaleDownUnreadyDuration, options.scaleDownUnreadyTime),
        (provision, options.MaxNodeProvisionDuration, options.MaxNodeProvisionTime),
    ):
        whole = round(seconds * _NS)
        new.seconds, new.nanos = whole // _NS, whole % _NS
        old.nanoseconds = whole
    return options


def _seconds(defaults: wire.NodeGroupAutoscalingOptions, new: str, old: str) -> float:
    if defaults.HasField(new):
        found = getattr(defaults, new)
        return float(found.seconds + found.nanos / _NS)
    return float(getattr(defaults, old).nanoseconds / _NS) if defaults.HasField(old) else 1200.0
