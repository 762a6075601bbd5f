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
from controller.planning.board import Board, Profile
from controller.planning.census import POSSIBLE
from controller.planning.choice import Candidate
from controller.planning.fit import Ask, selected, unmet_selector, untolerated
from controller.planning.room import Room

_GPUS, _SELECTOR, _TAINT, _VOLUME, _RESOURCES, _HINDRANCE, _OTHERS = range(7)
_NAMES = (names.LABEL_HOSTNAME, names.LABEL_MACHINE, "metadata.name")

Template = Callable[[Candidate], Room]


def why_not(
    snapshot: Snapshot, ask: Ask, options: Sequence[Candidate], template: Template, board: Board | None = None
) -> Explanation:
    """Explain a pod that no buyable candidate holds. `template` tells the empty machine of a candidate."""
    profile = board.profiles.get(ask.profile) if board is not None else None
    if profile is not None and profile.held.wrong:
        return Explanation(Reason.VOLUME, f"no machine helps: {profile.held.wrong}")
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
    if profile is not None and board is not None:
        # What labels and taints let in, and volumes, ports or other pods do not.
        stages = [
            _VOLUME if stage > _VOLUME and not _open(board, profile, candidate, template) else stage
            for stage, candidate in zip(stages, options, strict=True)
        ]
    furthest = max(stages)
    if furthest == _HINDRANCE and profile is not None and board is not None:
        free_to_buy = any(
            stage == _HINDRANCE and candidate.hindrance is None
            for stage, candidate in zip(stages, options, strict=True)
        )
        if free_to_buy:
            return _other_pods(board, profile)
    if furthest == _VOLUME and profile is not None:
        return _out_of_reach(profile)
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


def _open(board: Board, profile: Profile, candidate: Candidate, template: Template) -> bool:
    """Whether volumes, and ports of daemons, let the pod onto a machine of this offer."""
    number = board.offer_number.get(id(template(candidate)))
    return number is None or bool(profile.offers >> number & 1)


def _out_of_reach(profile: Profile) -> Explanation:
    if profile.shape.volumes:
        return Explanation(
            Reason.VOLUME, "its volumes are where no machine that the pools may buy can be, or can use them"
        )
    return Explanation(
        Reason.RESOURCES, "a DaemonSet takes a host port that the pod asks for on every machine that could be bought"
    )


def _other_pods(board: Board, profile: Profile) -> Explanation:
    shape = profile.shape
    for spreading in profile.spreads:
        if not board.evenly(spreading, POSSIBLE)[2] & profile.offers & board.buyable:
            spread = spreading.spread
            return Explanation(
                Reason.TOPOLOGY,
                f"one more pod would exceed maxSkew {spread.max_skew} over {spread.topology_key} wherever a machine "
                "could be bought",
            )
    if shape.affinity:
        keys = ", ".join(sorted({term.topology_key for term in shape.affinity}))
        if not any(census.total for census in profile.affinity) and not profile.starts:
            return Explanation(
                Reason.AFFINITY, f"it must be near pods (by {keys}) that run nowhere; a machine would not help"
            )
        return Explanation(
            Reason.AFFINITY, f"it must be near other pods (by {keys}), where no machine with room can be bought"
        )
    if profile.anti:
        keys = ", ".join(sorted({census.key for census in profile.anti}))
        return Explanation(
            Reason.AFFINITY, f"it must not be near other pods (by {keys}), wherever a machine could be bought"
        )
    if shape.volumes:
        return _out_of_reach(profile)
    return Explanation(Reason.TOPOLOGY, "its rules about other pods hold wherever a machine could be bought")


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
