"""When a machine is ordered again for pods whose machines never became usable, or broke before the pods ran there: after a
pause, and one at a time.

What keeps machines from becoming usable may pass (the cluster did not answer, a registry was down), and nobody says
when; so it is tried again, ever more seldom, for the pod that costs the least to try. The pause counts from the last
failure of the same sorts of machine, for whomever; the fleet forgets the failures of a sort of which one becomes usable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from controller.domain.machine import ONCE_READY
from controller.domain.plan import Explanation, Snapshot, Tried
from controller.domain.reason import Reason
from controller.planning.evidence import IN_VAIN, Doubts, Evidence
from controller.planning.fit import Ask
from controller.planning.pauses import moment, until

_UNLESS = "unless one of the same type becomes usable there for somebody else, or there is another token"
_UNLESS_ANY = "unless a machine of the pool becomes usable for somebody else, or there is another token"
_BROKE = "for they became usable and broke, and so may the next one"
_LOOK = "(look at how machines start: join script, token, image, device plug-in)"
_LATE = "(the cloud did not start them within deadlines.launch)"


class Held(msgspec.Struct, frozen=True):
    """A pod that enough machines were bought for in vain, and what it is told."""

    ask: Ask
    names: frozenset[str]  # machines of it that never became usable
    code: Reason
    message: str  # up to what comes next
    # Where all that it could have is in doubt, for whomever it was tried: by pool, what speaks against that.
    against: Mapping[str, tuple[Evidence, ...]] = {}


class Would(msgspec.Struct, frozen=True):
    """What a pod would have, were it its turn."""

    sort: str
    pools: frozenset[str]
    failed: bool  # one like it came to nothing before


class _Unit(msgspec.Struct):
    """What is tried together: a pod, or the pods of a gang."""

    held: list[Held] = []
    pools: frozenset[str] | None = None  # that it would have machines of; None: none, whoever's turn it is
    sorts: frozenset[str] = frozenset()  # of these machines
    free: bool = False  # what it would have came to nothing for nobody
    tries: int = 0
    last: float = 0.0
    own_last: float = (
        0.0  # when these pods were tried last, or made: whoever waits longest since then comes first
    )
    broke: bool = False  # one had become usable before


class Turns(msgspec.Struct):
    """Keys of pods."""

    let: set[str] = set()  # may have a machine ordered now
    without: set[str] = set()  # may have none anyhow, which is for others to tell
    waiting: set[str] = set()  # are told that another one is tried now


def another_try(
    snapshot: Snapshot,
    doubts: Doubts,
    held: Sequence[Held],
    possible: Callable[[Ask], int],
    would_try: Callable[[Ask], Would],
    passed: Collection[str],
    taken: set[str],
    told: dict[str, Explanation],
    wakes: list[float],
) -> Turns:
    """Who may have a machine ordered now, and who may have none anyhow; the rest is told what it waits for.

    `possible`: what offers, limits and other pods allow. A pod that could not have one anyhow stands in the way
    of no other, and is told why it cannot. Who would have something that came to nothing for nobody waits after its own
    machines only. `passed`: pods of which it turned out that nothing is ordered for them. `taken`: pools that this plan
    orders from for nobody in particular; those of which one is tried are added.
    """
    tried = _by_machine(snapshot)
    units: dict[str, _Unit] = {}
    for one in held:
        ask = one.ask
        unit = units.setdefault(ask.gang.key if ask.gang is not None else ask.pod.identity, _Unit())
        unit.held.append(one)
    turns = Turns()
    due = []
    for unit in units.values():
        if all(possible(one.ask) for one in unit.held):
            would = [would_try(one.ask) for one in unit.held]
            unit.pools = frozenset().union(*(one.pools for one in would))
            unit.sorts = frozenset(one.sort for one in would)
            unit.free = not any(one.failed for one in would)
        _date(unit, tried, doubts, snapshot)
        moment_of_it = until(unit.tries, unit.last, snapshot) if unit.tries else None
        if moment_of_it is not None:
            wakes.append(moment_of_it)
            why = _BROKE if unit.broke else _UNLESS_ANY if any(one.against for one in unit.held) else _UNLESS
            _tell(unit, told, f"nothing more is bought before {moment(moment_of_it)}, {why}")
        elif unit.tries:
            due.append(unit)
        else:
            _tell(unit, told, "nothing more is bought now")
    taken |= _pools_that_are_tried(snapshot, doubts, held)
    coming = {m.sort for m in snapshot.machines if m.phase.on_the_way and m.sort in snapshot.tried}
    for unit in sorted(due, key=lambda u: (u.own_last, _cheapest(u))):
        keys = {one.ask.pod.key for one in unit.held}
        if unit.pools is None or not keys.isdisjoint(passed):
            turns.without |= keys
            continue
        if unit.pools & taken or unit.sorts & coming:
            _tell(unit, told, "one at a time is tried, and one is on its way")
            turns.waiting |= keys
            continue
        taken |= unit.pools
        turns.let |= keys
    return turns


def closed(
    snapshot: Snapshot, pool: str, against: Evidence, wakes: list[float], trying: Collection[str]
) -> Explanation | None:
    """Why nobody gets a machine now against whose sort something speaks, and until when, if time alone tells."""
    words = against.words(pool)
    pause = until(against.later, against.last, snapshot) if against.later else None
    if pause is not None:
        wakes.append(pause)
        words = f"{words}; no more of them are bought before {moment(pause)}, {_UNLESS_ANY}"
    elif pool in trying:
        words = f"{words}; one at a time is tried, and one is on its way"
    else:
        return None
    return Explanation(against.reason, f"{words} {_LOOK}")


def tried_now(snapshot: Snapshot, doubts: Doubts) -> set[str]:
    """Pools of which something that is in doubt is on its way."""
    return {m.pool for m in snapshot.machines if doubts.is_tried_by(m)}


def _by_machine(snapshot: Snapshot) -> dict[str, tuple[str, Tried]]:
    return {name: (sort, known) for sort, known in snapshot.tried.items() for name in known.machines}


def _date(unit: _Unit, tried: Mapping[str, tuple[str, Tried]], doubts: Doubts, snapshot: Snapshot) -> None:
    names = {name for one in unit.held for name in one.names if name in tried}
    dates = [tried[name][1].dates.get(name, tried[name][1].last) for name in names]
    unit.own_last = max(dates, default=0.0)
    unit.broke = any(tried[name][0].endswith(ONCE_READY) for name in names)
    if names:
        unit.tries = max(IN_VAIN, *(len(one.names & names) for one in unit.held))
        unit.last = unit.own_last
    if not unit.free:
        # What others tried in vain counts as well, where it is the same fault.
        for sort, known in dict(tried[name] for name in names).items():
            pool, kind, location = (*sort.removesuffix(ONCE_READY).split("/", 2), "", "")[:3]
            unit.tries, unit.last = max(unit.tries, known.tries), max(unit.last, known.last)
            if (found := doubts.against(pool, kind, location)) is not None:
                unit.tries, unit.last = max(unit.tries, found.tries), max(unit.last, found.last)
    for one in unit.held:
        if not one.against:
            continue
        # Of all that it could have, what may be tried first.
        next_one = min(
            (found for of_pool in one.against.values() for found in of_pool), key=lambda e: e.ends(snapshot)
        )
        # The first of them is tried at once: somebody may have mended what was wrong, and made the pod again.
        unit.tries = max(unit.tries, next_one.later, 1)
        unit.last = max(unit.last, next_one.last if next_one.later else 0.0)
    unit.own_last = max(unit.own_last, min(one.ask.pod.created for one in unit.held))


def _pools_that_are_tried(snapshot: Snapshot, doubts: Doubts, held: Sequence[Held]) -> set[str]:
    """By a machine of a sort that is in doubt, or by one on its way for a pod that had machines in vain."""
    keys = {one.ask.pod.key for one in held}
    reasons = {name: why for found in snapshot.given_up.values() for name, why in found.items()}
    # That the cloud starts one sort too late says nothing of the rest of the pool, nor does who orders it again.
    sorts = {
        sort
        for sort, known in snapshot.tried.items()
        if any(reasons.get(name) is not Reason.LAUNCH_DEADLINE for name in known.machines)
    }
    return {
        machine.pool
        for machine in snapshot.machines
        if doubts.is_tried_by(machine)
        or (machine.phase.on_the_way and (machine.sort in sorts or not keys.isdisjoint(machine.pods)))
    }


def _cheapest(unit: _Unit) -> tuple[int, float, str]:
    pods = [one.ask.pod for one in unit.held]
    gpus = sum(one.ask.scarce[1] for one in unit.held)
    return gpus, min(pod.created for pod in pods), min(pod.key for pod in pods)


def _tell(unit: _Unit, told: dict[str, Explanation], what: str) -> None:
    for one in unit.held:
        told[one.ask.pod.key] = Explanation(
            one.code, f"{one.message}; {what} {_LATE if one.code is Reason.LAUNCH_DEADLINE else _LOOK}"
        )
