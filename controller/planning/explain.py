"""Why a pod is not served: the furthest stage that any candidate reached, and the number to change.

The slow path, for pods that were not placed only. The sentence is the one that events, `plan`, the
status and the logs all print.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.domain.kube import Pod
from controller.domain.plan import Explanation, Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import fits, is_accelerator, missing
from controller.planning.choice import Candidate
from controller.planning.fit import selected, unmet_selector, untolerated, with_place
from controller.planning.room import new_room

_GPUS, _SELECTOR, _TAINT, _RESOURCES, _HINDRANCE = range(5)


def why_not(snapshot: Snapshot, pod: Pod, options: Sequence[Candidate]) -> Explanation:
    """Explain a pod that no buyable candidate holds."""
    if not snapshot.policy.pools:
        return Explanation(Reason.NO_POOLS, "no pool is configured: add one under pools")
    if not options:
        listed = ", ".join(pool.name for pool in snapshot.policy.pools)
        return Explanation(
            Reason.NO_CAPACITY,
            f"the catalogue offers nothing that the pools may buy ({listed}): check their types",
        )
    reached = [(stage, _distance(c), told) for c in options for stage, told in [_stage(snapshot, pod, c)]]
    stage = max(stage for stage, _, _ in reached)
    best = min((d, i) for i, (s, d, _) in enumerate(reached) if s == stage)[1]
    told = reached[best][2]
    if stage == _GPUS:
        return _too_large(snapshot, pod, options)
    return told


def _distance(candidate: Candidate) -> tuple[int, str, int, str]:
    return (-candidate.gpus, str(candidate.price).zfill(12), candidate.pool_rank, candidate.offer.key)


def _stage(snapshot: Snapshot, pod: Pod, candidate: Candidate) -> tuple[int, Explanation]:
    room = new_room(snapshot, candidate.pool, candidate.offer)
    requests = with_place(pod.shape.requests)
    declared = snapshot.policy.gpu_resources
    gpus = {name: units for name, units in requests.items() if is_accelerator(name, declared)}
    if not fits(gpus, room.free):
        return _GPUS, Explanation(Reason.TOO_LARGE, "")
    if not selected(pod.shape, room.name, room.labels):
        condition = unmet_selector(pod.shape, room.labels)
        key = condition.split("=", 1)[0].split(" ", 1)[0]
        return _SELECTOR, Explanation(
            Reason.SELECTOR,
            f"the pod asks for {condition}; machines of pool {candidate.pool.name} have "
            f"{key}={room.labels[key]}"
            if key in room.labels
            else f"the pod asks for {condition}; machines of pool {candidate.pool.name} have no label {key}",
        )
    taint = untolerated(pod.shape, room.taints)
    if taint is not None:
        return _TAINT, Explanation(
            Reason.TAINT,
            f"the pod does not tolerate {taint}, which machines of pool {candidate.pool.name} carry",
        )
    if not fits(requests, room.free):
        lacking = "; ".join(missing(requests, room.free))
        return _RESOURCES, Explanation(
            Reason.RESOURCES,
            f"even {candidate.offer.type.name}, the largest machine that pool {candidate.pool.name} may buy for it, "
            f"is too small: {lacking}",
        )
    return _HINDRANCE, candidate.hindrance or Explanation(Reason.NO_CAPACITY, "no offer is left")


def _too_large(snapshot: Snapshot, pod: Pod, options: Sequence[Candidate]) -> Explanation:
    declared = snapshot.policy.gpu_resources
    asked = {n: u for n, u in pod.shape.requests.items() if u and is_accelerator(n, declared)}
    words = []
    for name, units in sorted(asked.items()):
        rooms = [(new_room(snapshot, c.pool, c.offer).free.get(name, 0), c) for c in options]
        most, largest = max(rooms, key=lambda found: (found[0], found[1].offer.key))
        if units > most:
            there = (
                f"the largest machine that the pools may buy has {most} ({largest.offer.type.name}, "
                f"pool {largest.pool.name})"
                if most
                else "no machine that the pools may buy has it"
            )
            words.append(
                f"it needs {units} {name} on one machine; {there}: ask for at most {most}, or allow larger types"
            )
    sentence = "; ".join(words) or "no single machine has all the accelerators that it asks for at once"
    return Explanation(Reason.TOO_LARGE, sentence)
