"""Gangs among the demand: complete ones are planned as one, the others wait and say for what.

A gang that lacks pods is waited for a few seconds. After that, a system that starts nothing before all
are there gets no machine, since it would idle; where the owner makes the rest only once the first pods
run, what is there is planned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal

from controller.domain.kube import Pod
from controller.domain.money import in_words
from controller.domain.plan import Explanation, Launch, Snapshot
from controller.domain.reason import Reason
from controller.planning.fit import Ask
from controller.planning.gangs import Gang, Members, located
from controller.planning.quota import blocked

_PLACED = frozenset({Reason.LAUNCHING, Reason.ON_THE_WAY, Reason.FITS_NOW, Reason.GPUS_FREED_SOON})


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
    bought = {machine.name: machine.location for machine in snapshot.machines}
    for gang in members.values():
        waiting = [pod for pod in gang.pods if pod.key in asking]
        if not waiting:
            continue
        why = _not_now(snapshot, gang, waiting, told, wakes)
        if why is not None:
            told |= {pod.key: why for pod in waiting}
            continue
        others = _others(gang, waiting, told)
        needed = gang.size - len(others) if gang.strict and gang.size else len(waiting)
        planned = Gang(
            key=gang.key,
            name=gang.name,
            size=gang.size,
            needed=min(len(waiting), max(0, needed)),
            beside=tuple(pod for pod in others if not (pod.node or pod.nominated or pod.finished)),
            spare=max(0, -needed),
            one_location=gang.one_location,
            location=located(gang, nodes, bought) if gang.one_location else None,
        )
        gangs |= {pod.key: planned for pod in waiting}


def _others(gang: Members, waiting: Collection[Pod], told: Mapping[str, Explanation]) -> list[Pod]:
    """Members that run, are being placed, or ask for nothing that we could buy."""
    out = {pod.key for pod in waiting} | {pod.key for pod in _held(gang, told)}
    return [pod for pod in gang.there if pod.key not in out]


def _held(gang: Members, told: Mapping[str, Explanation]) -> list[Pod]:
    """Waiting members that are no demand now; one whose place the scheduler holds is as good as placed."""
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
    there = len(waiting) + len(_others(gang, waiting, told))
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


def possible(
    left: Sequence[Ask], demand: Sequence[Pod], gangs: Mapping[str, Gang], told: dict[str, Explanation]
) -> list[Ask]:
    """Drop gangs of which too few can still get a place, because something else speaks against a member."""
    if not gangs:
        return list(left)
    waiting = {ask.pod.key for ask in left}
    lost: dict[str, list[str]] = {}
    members: dict[str, int] = {}
    for pod in demand:
        if pod.key in gangs:
            key = gangs[pod.key].key
            members[key] = members.get(key, 0) + 1
            if pod.key not in waiting and pod.key in told and told[pod.key].code not in _PLACED:
                lost.setdefault(key, []).append(pod.key)
    kept = []
    for ask in left:
        gang = gangs.get(ask.pod.key)
        bad = lost.get(gang.key, []) if gang is not None else []
        if gang is not None and bad and members[gang.key] - len(bad) < gang.needed:
            told[ask.pod.key] = told[bad[0]]  # `tell` says the rest
        else:
            kept.append(ask)
    return kept


def tell(
    demand: Sequence[Pod],
    gangs: Mapping[str, Gang],
    launches: Sequence[Launch],
    told: dict[str, Explanation],
) -> None:
    """Say of each gang what it costs as a whole, or what keeps it from being complete."""
    if not gangs:
        return
    waiting: dict[str, list[str]] = {}
    for pod in demand:
        if pod.key in gangs:
            waiting.setdefault(gangs[pod.key].key, []).append(pod.key)
    bought_for: dict[str, list[Launch]] = {}
    for launch in launches:
        for key in {gangs[pod].key for pod in launch.pods if pod in gangs}:
            bought_for.setdefault(key, []).append(launch)
    for pods in waiting.values():
        gang = gangs[pods[0]]
        if machines := bought_for.get(gang.key):
            price = sum((launch.offer.price for launch in machines), Decimal(0))
            words = f"{gang.name} as a whole gets {len(machines)} machine{'s' * (len(machines) != 1)}"
            for key in pods:
                if told[key].code is Reason.LAUNCHING:
                    message = f"{told[key].message}; {words} for {in_words(price)} an hour"
                    told[key] = Explanation(Reason.LAUNCHING, message)
        missing = [key for key in pods if told[key].code not in _PLACED]
        placed = len(pods) - len(missing)
        why = told[missing[0]] if missing else None
        if why is not None and why.code is not Reason.PAUSED and placed < gang.needed:
            many = f"{gang.needed} more pods" if gang.needed != 1 else "one more pod"
            for key in missing:
                told[key] = Explanation(
                    Reason.GANG_INCOMPLETE,
                    f"{gang.name} needs a place for {many} at once, so nothing is bought for it: {why.message}",
                )
