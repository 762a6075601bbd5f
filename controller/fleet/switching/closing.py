"""Whether our hard taint belongs on the Node of a switched machine. Pure."""

from __future__ import annotations

from controller.domain.switching import Power, Switched
from controller.fleet.switching.aftermath import may_fall
from controller.fleet.switching.seeing import Seen

# A kept Node's GPU DaemonSets may have changed while it was off, and their new pods do not tolerate our taint.
PATIENCE = 120.0


def taint_wanted(record: Switched, seen: Seen, now: float) -> bool | None:
    """Whether our hard taint belongs on its Node; None: it stays as it is.

    It stays until the machine is of use: between the call that switches it off and the Node that is not Ready any
    more pods would be bound there. A Node that is Ready and shows no GPU at all takes no GPU pod either; there the
    taint gives way after a while, because the pods that bring the GPUs may not tolerate it.
    """
    if may_fall(record, now) or record.power in (Power.OFF, Power.FALLING):
        return True
    if record.power is Power.ON:
        return False
    if record.power is Power.RISING and seen.node is not None and seen.up and record.node_ready_at:
        shown = any(seen.node.allocatable.get(name, 0) for name in seen.promised)
        if not shown and now >= record.node_ready_at + PATIENCE:
            return False
    return None
