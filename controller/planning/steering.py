"""Which idle machines the scheduler is asked to avoid, so that their cooldown can come to its end.

kube-scheduler prefers the node with the most left (NodeResourcesFit, LeastAllocated), and that is the idle one: the
next small pod goes to the largest machine that nobody needs any more, its cooldown begins anew, and it is paid for
without end while fuller machines have room. A taint PreferNoSchedule weighs three times as much (TaintToleration),
and keeps no pod away that fits nowhere else: nothing more is bought because of it.

Not avoided is what stays anyway: machines of a pool's minimum, what is paused, and the user's own machines, which
had better be used than bought ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from controller.domain import names
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.plan import MarkIdle, Snapshot
from controller.planning.own import is_own


class Cooling(NamedTuple):
    """An idle machine that goes later, and since when it is marked idle."""

    machine: Machine
    node: Node
    since: float


def is_avoided(node: Node) -> bool:
    return node.has_taint(names.TAINT_IDLE, "PreferNoSchedule")


def to_avoid(snapshot: Snapshot, cooling: Iterable[Cooling], alive: Sequence[Machine]) -> list[MarkIdle]:
    """`alive`: every machine; of each pool as many stay as its minimum asks for."""
    new = [one for one in cooling if not (is_avoided(one.node) or is_own(one.machine))]
    if not new:
        return []
    ready = Counter(machine.pool for machine in alive if machine.phase is Phase.READY)
    least = {pool.name: pool.min for pool in snapshot.policy.pools}
    return [
        MarkIdle(machine=one.machine.name, since=one.since, avoid=True)
        for one in new
        if ready[one.machine.pool] > least.get(one.machine.pool, 0)
    ]
