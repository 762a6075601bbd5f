"""What is kept free gives way where a pod waits for a limit that would allow it a machine if nothing were kept.

It does so only where that helps: a draft without what goes then places such a pod, and what is given up would really be
removed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from controller.domain.machine import Machine, Phase
from controller.domain.plan import Retire, Snapshot
from controller.domain.reason import Reason
from controller.planning import scale_down
from controller.planning.disruption import counts_until
from controller.planning.drafting import beside_minimum
from controller.planning.drafts import Draft

# A pod that waits for one of these may lack what headroom holds back.
_YIELDS_TO = frozenset(
    {
        Reason.LIMIT_MACHINES,
        Reason.LIMIT_GPUS,
        Reason.LIMIT_CORES,
        Reason.LIMIT_MEMORY,
        Reason.LIMIT_PRICE,
        Reason.LIMIT_BUDGET,
    }
)
_DELETED_WITHIN = 300.0  # of the end of its drain: the last look, the call, and the calls before it


def gives_way(made: Draft, kept: Collection[str]) -> Collection[str] | None:
    """Which of those that are kept are given up; None where nothing is, and nothing that goes anyway helps either."""
    waiting = _waits_for_a_limit(made)
    if not waiting:
        return None
    # What it takes where something goes already might be the place that becomes free for these.
    soon = _served_without(made, ()) & waiting
    ripe = _would_go(made, kept, at_once=False)
    given = _given_up(made, ripe, waiting - soon)
    if not given and set(others := _would_go(made, kept, at_once=True)) != set(ripe):
        given = _given_up(made, others, waiting - soon)
    return given if soon or given else None


def _waits_for_a_limit(made: Draft) -> set[str]:
    """Pods that may lack what is kept free."""
    gangs = made.found.gangs if not _YIELDS_TO.isdisjoint(made.short) else {}
    short = {key for key, why in made.told.items() if why.code in _YIELDS_TO}
    return (short | gangs.keys()) - made.served


def _given_up(made: Draft, going: Sequence[str], waiting: set[str]) -> Sequence[str]:
    """Of the machines that would go if nothing kept them: hardly more than have to for one of these pods to get a place."""

    def helps(names: Sequence[str]) -> bool:
        return bool(_served_without(made, names) & waiting)

    if not (going and helps(going)):
        return ()
    of_pool: dict[str, list[str]] = {}
    pool_of = {m.name: m.pool for m in made.snapshot.machines}
    for name in going:
        of_pool.setdefault(pool_of[name], []).append(name)
    for mine in of_pool.values():
        count = 1
        while count < len(mine) and not helps(mine[:count]):
            count *= 2
        if helps(mine[:count]):
            return mine[:count]
    return going


def _would_go(made: Draft, kept: Collection[str], *, at_once: bool) -> list[str]:
    """Of those that are kept, what would be removed now, or one after the other soon, if nothing were; `at_once`: also those
    that are idle for too short a time."""
    if not kept:
        return []
    policy = replace(made.snapshot.policy, disruption_budget="100%", disruption_budgets={}, consolidate="off")
    if at_once:
        billing = replace(policy.billing, refund_unused=True)
        policy = replace(policy, cooldown=0.0, min_age=0.0, billing=billing)
    actions, _, _ = scale_down.decide(
        replace(made.snapshot, policy=policy),
        made.placing.needed,
        made.found.pods,
        lambda: made.placing.sites.ready,
        placed=made.placed,
        early=made.found.early,
    )
    return [action.machine for action in actions if isinstance(action, Retire) and action.machine in kept]


def _served_without(made: Draft, gone: Collection[str]) -> set[str]:
    """Pods that would get a place if these machines were gone, and those that are about to be as well."""
    snapshot = made.snapshot
    left = [m for m in snapshot.machines if m.name in gone or _is_about_to_go(snapshot, m)]
    if not left:
        return made.served
    names_left = {m.name for m in left}
    without = replace(
        snapshot,
        machines=tuple(
            replace(m, phase=Phase.DELETING, gone_at=snapshot.now) if m.name in names_left else m
            for m in snapshot.machines
        ),
        nodes=tuple(node for node in snapshot.nodes if node.name not in names_left),
    )
    return beside_minimum(without, made.found, made.doubts).served


def _is_about_to_go(snapshot: Snapshot, machine: Machine) -> bool:
    """One whose delete hangs, or that waits for its work to end, is there for who knows how long."""
    if not machine.phase.leaving or machine.gone_at:
        return False
    until = counts_until(snapshot, machine)
    if until is None and machine.drain_at:
        until = snapshot.policy.deadlines.drained_by(machine.drain_at) + _DELETED_WITHIN
    return until is not None and snapshot.now < until
