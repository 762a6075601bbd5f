"""Which idle machines the scheduler is asked to avoid, so that their cooldown can come to its end.

kube-scheduler prefers the node with the most left (NodeResourcesFit, LeastAllocated), and that is the idle one: the
next small pod goes to the largest machine that nobody needs any more, its cooldown begins anew, and it is paid for
without end while fuller machines have room. A taint PreferNoSchedule weighs three times as much (TaintToleration),
and keeps no pod away that fits nowhere else: nothing more is bought because of it.

Not avoided, or no longer, is what stays anyway: machines of a pool's minimum, what is paused or must not be
disrupted, what is kept free; and the user's own machines, which had better be used than bought ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controller.domain import names
from controller.domain.kube import Node
from controller.domain.machine import Machine
from controller.domain.plan import Explanation, MarkIdle, Snapshot
from controller.domain.reason import Reason
from controller.planning.own import is_own

_GOES_LATER = (Reason.COOLDOWN, Reason.MIN_AGE, Reason.PAID)
_STAYS = (Reason.MIN_SIZE, Reason.DO_NOT_DISRUPT, Reason.PAUSED, Reason.HEADROOM, Reason.POOL_REMOVED)


class Idle(NamedTuple):
    """An idle machine, and since when it is marked so."""

    machine: Machine
    node: Node
    since: float
    paused: bool


def is_avoided(node: Node) -> bool:
    return node.has_taint(names.TAINT_IDLE, "PreferNoSchedule")


def steered(
    snapshot: Snapshot, idle: Iterable[Idle], told: Mapping[str, Explanation], lasting: Mapping[str, int]
) -> list[MarkIdle]:
    """`told`: what was decided about each; `lasting`: by pool, machines that its minimum can count on."""
    least = {pool.name: pool.min for pool in snapshot.policy.pools}
    asked = []
    for machine, node, since, paused in idle:
        if is_own(machine):
            continue
        code, avoided = told[machine.name].code, is_avoided(node)
        spare = lasting.get(machine.pool, 0) > least.get(machine.pool, 0)
        if code in _GOES_LATER and spare and not paused and not avoided:
            asked.append(MarkIdle(machine=machine.name, since=since, avoid=True))
        elif avoided and (code in _STAYS or paused):
            asked.append(MarkIdle(machine=machine.name, since=since, avoid=False))
    return asked
