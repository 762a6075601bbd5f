"""Why a pod is not served: the furthest stage that any candidate reached, and the number to change.

The slow path, for pods that were not placed only. The sentence is the one that events, `plan`, the
status and the logs all print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from controller.domain.kube import PodShape
from controller.domain.plan import Explanation, Snapshot
from controller.domain.quantity import show
from controller.domain.reason import Reason
from controller.domain.resources import Resources, fits, is_accelerator, missing
from controller.planning import unselected
from controller.planning.board import Board, Profile
from controller.planning.census import POSSIBLE, Spreading
from controller.planning.choice import Candidate
from controller.planning.device_claims import kept_off, no_plug_in
from controller.planning.fit import Ask, selected, untolerated
from controller.planning.limits import Tally
from controller.planning.room import Room
from controller.planning.storage import Held

# Between the first two: what meets all conditions but one is further than what lacks two.
_GPUS, _SELECTOR, _TAINT, _VOLUME, _RESOURCES, _HINDRANCE = range(0, 600, 100)
_POOLS = 4  # told of beside the nearest: the sentence becomes an event, and those are short

_SHAPES = 64  # that are remembered

Template = Callable[[Candidate], Room]
Users = Sequence[tuple[Held, Mapping[str, str]]]  # with the labels of their machines
Stages = dict[int, tuple[PodShape, list[int]]]  # by shape, which is held


@dataclass(frozen=True, slots=True)
class Question:
    """A pod that no buyable candidate holds. `template` tells the empty machine of a candidate."""

    snapshot: Snapshot
    ask: Ask
    template: Template
    board: Board | None = None
    tally: Tally | None = None  # with what is bought by the same plan
    users: Users = ()  # of its claims, that machines of the same plan are for
    stages: Stages | None = None  # that earlier questions about all of the same options came to
    apart: Mapping[str, str] = field(default_factory=dict)  # by pool: why some of it is not for this pod now

    @property
    def profile(self) -> Profile | None:
        return self.board.profiles.get(self.ask.profile) if self.board is not None else None


def why_not(
    question: Question, options: Sequence[Candidate], limit: Explanation | None = None
) -> Explanation:
    """What is in the way of the nearest machine of all, and then, pool by pool, of every other pool's nearest.

    `limit` is what was found to forbid it already.
    """
    snapshot, profile = question.snapshot, question.profile
    if profile is not None and profile.held.wrong:
        return Explanation(Reason.VOLUME, f"no machine helps: {profile.held.wrong}")
    if profile is not None and question.board is not None and profile.held.contested:
        taken = question.board.volumes_taken(profile, question.users)
        if taken:
            return Explanation(Reason.VOLUME, f"no machine helps: {taken}")
    if not snapshot.policy.pools:
        return Explanation(Reason.NO_POOLS, "no pool is configured: add one under pools")
    if not options:
        listed = ", ".join(pool.name for pool in snapshot.policy.pools)
        return Explanation(
            Reason.NO_CAPACITY,
            f"the catalogue offers nothing that the pools may buy ({listed}): check their types",
        )
    of_all, nearest = _nearest(question, options, question.stages)
    whole = limit or of_all
    others = []
    for pool in snapshot.policy.pools if len(snapshot.policy.pools) > 1 else ():
        mine = [candidate for candidate in options if candidate.pool.name == pool.name]
        if not mine:
            words = question.apart.get(pool.name, "the catalogue offers nothing that it may buy")
            others.append(f"pool {pool.name}: {words}")
        elif nearest is None or limit is not None or pool.name != nearest.pool.name:
            words = _nearest(question, mine, of_all=False)[0].message
            if words != whole.message:
                others.append(f"pool {pool.name}: {words}")
    if len(others) > _POOLS:
        others[_POOLS:] = [f"{len(others) - _POOLS} more pools do not help either"]
    return Explanation(whole.code, "; ".join((whole.message, *others)))


def _nearest(
    question: Question, options: Sequence[Candidate], known: Stages | None = None, *, of_all: bool = True
) -> tuple[Explanation, Candidate | None]:
    """Of these candidates the one that comes closest, where one can be named, and what is in its way.

    `of_all`: they are those of all pools, else of one, which is named beside what is told.
    """
    snapshot, ask, template, board = question.snapshot, question.ask, question.template, question.board
    profile = question.profile
    wanted = snapshot.policy.wanted_resources
    gpus = {n: u for n, u in ask.needs.items() if u and is_accelerator(n, wanted)}
    shape = ask.pod.shape
    shown = known.get(id(shape)) if known is not None else None
    stages = shown[1] if shown else [_stage(ask, gpus, each, template(each)) for each in options]
    if known is not None and shown is None:
        if len(known) >= _SHAPES:
            known.clear()
        known[id(shape)] = (shape, stages)
    if profile is not None and board is not None:
        # What labels and taints let in, and volumes, ports or other pods do not.
        stages = [
            _VOLUME if stage > _VOLUME and not _open(board, profile, candidate, template) else stage
            for stage, candidate in zip(stages, options, strict=True)
        ]
    furthest = max(stages)
    reached = [candidate for candidate, stage in zip(options, stages, strict=True) if stage == furthest]
    if furthest == _HINDRANCE:
        free = [candidate for candidate in reached if candidate.hindrance is None]
        if free and profile is not None and board is not None:
            is_open = _open_beside_others(question, board, profile, reached)
            if (limit := _limit(question, [c for c in free if c in is_open])) is not None:
                return limit
            if is_open and not any(c.hindrance is None for c in is_open):
                nearest = min(is_open, key=_smallest)
                return _words(question, furthest, nearest, is_open, options), nearest
            return _other_pods(board, profile), free[0]
    if furthest == _VOLUME and profile is not None:
        return _out_of_reach(profile), reached[0]
    if furthest == _GPUS:
        return _too_large(gpus, options, template, of_all)
    # What hinders is told of the smallest, whose number is the least to change; what is too small, of
    # the machine that comes closest.
    nearest = min(reached, key=_smallest if furthest != _RESOURCES else lambda c: _closest(ask, c, template))
    return _words(question, furthest, nearest, reached, options), nearest


def _open_beside_others(
    question: Question, board: Board, profile: Profile, options: Sequence[Candidate]
) -> list[Candidate]:
    """Those where other pods, as they are now, let it be."""
    fresh = board.allowed(profile, POSSIBLE)[2] if profile.ruled else -1
    return [c for c in options if fresh >> board.offer_number.get(id(question.template(c)), 0) & 1]


def _limit(question: Question, options: Sequence[Candidate]) -> tuple[Explanation, Candidate] | None:
    """What limits say of the smallest machine."""
    if question.tally is None or not options:
        return None
    smallest = min(options, key=_smallest)
    found = question.tally.objection(smallest, [question.ask])
    return (found, smallest) if found is not None else None


def _stage(ask: Ask, gpus: Resources, candidate: Candidate, room: Room) -> int:
    shape = ask.pod.shape
    if not fits(gpus, room.free):
        return _GPUS
    if not selected(shape, room.name, room.labels):
        lacks = len(unselected.unmet(shape, room.name, room.labels))
        return max(_GPUS + 1, _SELECTOR + 1 - lacks)
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
        Reason.RESOURCES,
        "a DaemonSet takes a host port that the pod asks for on every machine that could be bought",
    )


def _other_pods(board: Board, profile: Profile) -> Explanation:
    shape = profile.shape
    for spreading in profile.spreads:
        if not board.evenly(spreading, POSSIBLE)[2] & profile.offers & board.buyable:
            return _uneven(spreading)
    if shape.affinity:
        keys = ", ".join(sorted({term.topology_key for term in shape.affinity}))
        if not any(census.total for census in profile.affinity) and not profile.starts:
            return Explanation(
                Reason.AFFINITY,
                f"it must be near pods (by {keys}) that run nowhere; a machine would not help",
            )
        return Explanation(
            Reason.AFFINITY,
            f"it must be near other pods (by {keys}), where no machine with room can be bought",
        )
    beside = [census for census in profile.anti if not census.by_host]
    if profile.spreads and not beside:  # nobody repels it from a new machine but by where that is
        return _uneven(*profile.spreads)
    if profile.anti:
        keys = ", ".join(sorted({census.key for census in profile.anti}))
        return Explanation(
            Reason.AFFINITY, f"it must not be near other pods (by {keys}), wherever a machine could be bought"
        )
    if shape.volumes:
        return _out_of_reach(profile)
    return Explanation(Reason.TOPOLOGY, "its rules about other pods hold wherever a machine could be bought")


def _uneven(*spreads: Spreading) -> Explanation:
    rules = []
    for spread in (spreading.spread for spreading in spreads):
        least = f" (minDomains {spread.min_domains})" if spread.min_domains is not None else ""
        rules.append(f"maxSkew {spread.max_skew} over {spread.topology_key}{least}")
    return Explanation(
        Reason.TOPOLOGY,
        f"one more pod would exceed {' or '.join(rules)} wherever a machine could be bought",
    )


def _smallest(candidate: Candidate) -> tuple[int, Decimal, int, str]:
    return (candidate.gpus, candidate.price, candidate.pool_rank, candidate.offer.key)


def _closest(ask: Ask, candidate: Candidate, template: Template) -> tuple[float, int, Decimal, int, str]:
    """By the resource that is furthest from enough."""
    free = template(candidate).free
    worst = max(units / max(free.get(name, 0), 0.001) for name, units in ask.needs.items())
    return (worst, *_smallest(candidate))


def _words(
    question: Question,
    stage: int,
    candidate: Candidate,
    reached: Sequence[Candidate],
    options: Sequence[Candidate],
) -> Explanation:
    ask, room = question.ask, question.template(candidate)
    shape, pool = ask.pod.shape, candidate.pool.name
    if stage <= _SELECTOR:
        off = kept_off(question.snapshot)
        if unselected.unmet(shape, room.name, room.labels) == [off]:
            return no_plug_in(question.snapshot, shape, pool)
        close = [question.template(other) for other in reached if other.pool is candidate.pool]
        rooms = [question.template(other) for other in options if other.pool is candidate.pool]
        return Explanation(Reason.SELECTOR, unselected.words(shape, room, close, rooms, pool))
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


def _too_large(
    gpus: Resources, options: Sequence[Candidate], template: Template, every: bool
) -> tuple[Explanation, Candidate | None]:
    """`every`: of all pools, else of one. And the machine that is named, if any is."""
    words, named = [], None
    who = "the pools" if every else "it"
    for name, units in sorted(gpus.items()):
        rooms = [(template(candidate).free.get(name, 0), candidate) for candidate in options]
        most, largest = max(rooms, key=lambda found: (found[0], found[1].offer.key, -found[1].pool_rank))
        if units > most and most:
            named = largest
            words.append(
                f"it needs {show(name, units)} {name} on one machine; the largest machine that the pools may buy has "
                f"{show(name, most)} ({largest.offer.type.name}, pool {largest.pool.name}): ask for at most "
                f"{show(name, most)}, or allow larger types"
                if every
                else f"its largest machine has {show(name, most)} {name} ({largest.offer.type.name})"
            )
        elif units > most:
            words.append(
                f"it needs {show(name, units)} {name}; no machine that the pools may buy has any: declare it under a pool's "
                "resources, or ask for another"
                if every
                else f"no machine of it has any {name}"
            )
    asked = " and ".join(f"{show(name, units)} {name}" for name, units in sorted(gpus.items()))
    told = "; ".join(words) or f"no single machine that {who} may buy has {asked} at once"
    return Explanation(Reason.TOO_LARGE, told), named
