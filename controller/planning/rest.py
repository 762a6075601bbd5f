"""The plan while no pod waits for anything that could be bought: most plans are of this kind.

They are made every few seconds beside thousands of pods that run, so only what may go is looked at. It is the same
plan, byte for byte, that the long way makes; whatever could make a difference sends it there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from controller.domain.kube import Pod
from controller.domain.plan import Action, Explanation, Snapshot
from controller.domain.resources import uses_accelerator
from controller.planning import fractions, scale_down
from controller.planning.consolidation import OFF
from controller.planning.demand import jobs_being_created
from controller.planning.lost import counted_on
from controller.planning.room import Room

by_name = attrgetter("namespace", "name", "uid")


def nobody_waits(snapshot: Snapshot) -> bool:
    """Whether no purchase could follow from this picture, and no work could be moved."""
    policy = snapshot.policy
    if policy.headroom or policy.consolidate != OFF or snapshot.device_claims:
        return False
    if any(pool.min for pool in policy.pools):
        staying = counted_on(snapshot)
        if any(staying[pool.name] < pool.min for pool in policy.pools):
            return False
    declared, kai = policy.wanted_resources, policy.fractions == "kai"
    for pod in snapshot.pods:
        if pod.node:
            continue
        if pod.shape.has_claims or uses_accelerator(pod.shape.requests, declared):
            return False
        if kai and fractions.asks_for_share(pod):
            return False
    return True


def at_rest(
    snapshot: Snapshot, rooms: Callable[[], Sequence[Room]]
) -> tuple[list[Action], dict[str, Explanation], list[float | None]]:
    """What to do, what to tell of machines, and when time alone could change it.

    The machines of `snapshot` are in order; `rooms` are the Ready nodes, asked for only where a machine may go.
    """
    bound: dict[str, list[Pod]] = {machine.name: [] for machine in snapshot.machines}
    for pod in snapshot.pods:
        there = bound.get(pod.node)
        if there is not None:
            there.append(pod)
    for pods in bound.values():
        if len(pods) > 1:
            pods.sort(key=by_name)
    wakes: list[float] = []
    if snapshot.jobs:
        jobs_being_created(snapshot, wakes)
    actions, told, wake = scale_down.decide(snapshot, {}, bound=bound, rooms=rooms)
    return actions, told, [wake, *wakes]
