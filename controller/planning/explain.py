"""Why a pod is not served: the furthest stage that any candidate reached, and the number to change.

The slow path, for pods that were not placed only. The sentence is the one that events, `plan`, the
status and the logs all print.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from controller.domain import names
from controller.domain.plan import Explanation, Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import Resources, fits, is_accelerator, missing
from controller.planning.choice import Candidate
from controller.planning.fit import Ask, selected, unmet_selector, untolerated
from controller.planning.room import Room

_GPUS, _SELECTOR, _TAINT, _RESOURCES, _HINDRANCE = range(5)
_NAMES = (names.LABEL_HOSTNAME, names.LABEL_MACHINE, "metadata.name")

Template = Callable[[Candidate], Room]


def why_not(snapshot: Snapshot, ask: Ask, options: Sequence[Candidate], template: Template) -> Explanation:
    """Explain a pod that no buyable candidate holds. `template` tells the empty machine of a candidate."""
    if not snapshot.policy.pools:
        return Explanation(Reason.NO_POOLS, "no pool is configured: add one under pools")
    if not options:
        listed = ", ".join(pool.name for pool in snapshot.policy.pools)
        return Explanation(
            Reason.NO_CAPACITY,
            f"the catalogue offers nothing that the pools may buy ({listed}): check their types",
        )
    gpus = {n: u for n, u in ask.needs.items() if u and is_accelerator(n, snapshot.policy.gpu_resources)}
    stages = [_stage(ask, gpus, candidate, template(candidate)) for candidate in options]
    furthest = max(stages)
    if furthest == _GPUS:
        return _too_large(gpus, options, template)
    reached = [candidate for candidate, stage in zip(options, stages, strict=True) if stage == furthest]
    # What hinders is told of the smallest, whose number is the least to change; what is too small, of
    # the machine that comes closest.
    nearest = min(reached, key=_smallest if furthest != _RESOURCES else lambda c: _closest(ask, c, template))
    return _words(ask, furthest, nearest, template(nearest))


def _stage(ask: Ask, gpus: Resources, candidate: Candidate, room: Room) -> int:
    shape = ask.pod.shape
    if not fits(gpus, room.free):
        return _GPUS
    if not selected(shape, room.name, room.labels):
        return _SELECTOR
    if untolerated(shape, room.taints) is not None:
        return _TAINT
    return _HINDRANCE if fits(ask.needs, room.free) else _RESOURCES


def _smallest(candidate: Candidate) -> tuple[int, Decimal, int, str]:
    return (candidate.gpus, candidate.price, candidate.pool_rank, candidate.offer.key)


def _closest(ask: Ask, candidate: Candidate, template: Template) -> tuple[float, int, Decimal, int, str]:
    """By the resource that is furthest from enough."""
    free = template(candidate).free
    worst = max(units / max(free.get(name, 0), 0.001) for name, units in ask.needs.items())
    return (worst, *_smallest(candidate))


def _words(ask: Ask, stage: int, candidate: Candidate, room: Room) -> Explanation:
    shape, pool = ask.pod.shape, candidate.pool.name
    if stage == _SELECTOR:
        condition, key = unmet_selector(shape, room.name, room.labels)
        if key in _NAMES:
            there = "a new machine has a name of its own, so none is bought for it"
        elif key in room.labels:
            there = f"machines of pool {pool} have {key}={room.labels[key]}"
        else:
            there = f"machines of pool {pool} have no label {key}" if key else "it matches no node at all"
        return Explanation(Reason.SELECTOR, f"the pod asks for {condition}; {there}")
    if stage == _TAINT:
        taint = untolerated(shape, room.taints)
        return Explanation(
            Reason.TAINT, f"the pod does not tolerate {taint}, which machines of pool {pool} carry"
        )
    if stage == _RESOURCES:
        lacking = "; ".join(missing(ask.needs, room.free))
        return Explanation(
            Reason.RESOURCES,
            f"even {candidate.offer.type.name}, the machine of pool {pool} that comes closest, is too small: "
            f"{lacking}",
        )
    return candidate.hindrance or Explanation(Reason.NO_CAPACITY, "no offer is left")


def _too_large(gpus: Resources, options: Sequence[Candidate], template: Template) -> Explanation:
    words = []
    for name, units in sorted(gpus.items()):
        rooms = [(template(candidate).free.get(name, 0), candidate) for candidate in options]
        most, largest = max(rooms, key=lambda found: (found[0], found[1].offer.key, -found[1].pool_rank))
        if units > most and most:
            words.append(
                f"it needs {units} {name} on one machine; the largest machine that the pools may buy has {most} "
                f"({largest.offer.type.name}, pool {largest.pool.name}): ask for at most {most}, or allow larger "
                "types"
            )
        elif units > most:
            words.append(
                f"it needs {units} {name}; no machine that the pools may buy has any: declare it under a pool's "
                "resources, or ask for another"
            )
    asked = " and ".join(f"{units} {name}" for name, units in sorted(gpus.items()))
    return Explanation(
        Reason.TOO_LARGE,
        "; ".join(words) or f"no single machine that the pools may buy has {asked} at once",
    )
