"""Gangs among the demand: complete ones are planned as one, the others wait and say for what.

A gang that lacks pods is waited for a few seconds. After that, a system that starts nothing before all
are there gets no machine, since it would idle; where the owner makes the rest only once the first pods
run, what is there is planned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.domain.kube import Pod
from controller.domain.plan import Explanation, Snapshot
from controller.domain.reason import Reason
from controller.planning.gangs import Gang, Members, located
from controller.planning.quota import blocked


def assemble(
    snapshot: Snapshot,
    members: Mapping[str, Members],
    demand: Collection[Pod],
    told: dict[str, Explanation],
    gangs: dict[str, Gang],
    wakes: list[float],
) -> None:
    """Tell the members of gangs that are not planned now, and measure those that are."""
    asking = {pod.key for pod in demand}
    nodes = {node.name: node for node in snapshot.nodes}
    for gang in members.values():
        waiting = [pod for pod in gang.pods if pod.key in asking]
        if not waiting:
            continue
        why = _not_now(snapshot, gang, waiting, told, wakes)
        if why is not None:
            told |= {pod.key: why for pod in waiting}
            continue
        others = _others(gang, waiting, told)
        planned = Gang(
            key=gang.key,
            name=gang.name,
            size=gang.size,
            needed=min(len(waiting), max(0, gang.size - others))
            if gang.strict and gang.size
            else len(waiting),
            one_location=gang.one_location,
            location=located(gang, nodes) if gang.one_location else "",
        )
        gangs |= {pod.key: planned for pod in waiting}


def _others(gang: Members, waiting: Collection[Pod], told: Mapping[str, Explanation]) -> int:
    """Members that run, are being placed, or ask for nothing that we could buy."""
    out = {pod.key for pod in waiting} | {pod.key for pod in _held(gang, told)}
    return sum(pod.key not in out for pod in gang.there)


def _held(gang: Members, told: Mapping[str, Explanation]) -> list[Pod]:
    """Waiting members that are no demand now; one with a place by preemption is as good as placed."""
    return [pod for pod in gang.there if pod.key in told and not pod.node and not pod.nominated]


def _not_now(
    snapshot: Snapshot,
    gang: Members,
    waiting: Collection[Pod],
    told: Mapping[str, Explanation],
    wakes: list[float],
) -> Explanation | None:
    if gang.problem:
        return Explanation(Reason.GANG_INCOMPLETE, f"nothing is bought by guess: {gang.problem}")
    if gang.quota:
        return blocked(f"{gang.name}: {gang.quota}")
    held = _held(gang, told)
    if any(told[pod.key].code is Reason.TOO_YOUNG for pod in held):
        return Explanation(
            Reason.WAITS_FOR_SIBLINGS, f"a pod of {gang.name} asked to grow older; they are planned together"
        )
    there = len(waiting) + _others(gang, waiting, told)
    if there >= gang.size:
        return None
    until = gang.first + snapshot.policy.deadlines.job_wait
    if snapshot.now < until and not held:
        wakes.append(until)
        return Explanation(
            Reason.WAITS_FOR_SIBLINGS,
            f"pods of {gang.name} are still being created; they are planned together",
        )
    if not gang.strict:
        return None
    for pod in held:
        if told[pod.key].code is Reason.QUOTA_BLOCKED:
            return told[pod.key]
    words = f"{there} of the {gang.size} pods that {gang.name} needs are there, so nothing is bought for it"
    if held:
        first = min(held, key=lambda pod: pod.key)
        return Explanation(
            Reason.GANG_INCOMPLETE,
            f"{words}; {len(held)} more must not be bought for: {told[first.key].message}",
        )
    if any(pod.gated for pod in gang.pods):
        words += "; others are held back by scheduling gates"
    return Explanation(Reason.GANG_INCOMPLETE, words)
