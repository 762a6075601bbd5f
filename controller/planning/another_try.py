"""When a machine is ordered again for pods whose machines never became usable, or broke before the pods ran there: after a
pause, and one at a time.

What keeps machines from becoming usable may pass (the cluster did not answer, a registry was down), and nobody says
when; so it is tried again, ever more seldom, for the pod that costs the least to try. The pause counts from the last
failure of the same sorts of machine, for whomever; the fleet forgets the failures of a sort of which one becomes usable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from controller.domain.machine import ONCE_READY, Machine
from controller.domain.plan import Explanation, Snapshot, Tried
from controller.domain.reason import Reason
from controller.planning.evidence import Doubts, Evidence
from controller.planning.fit import Ask

LONGEST_PAUSE = 86400.0
_UNLESS = "unless one of the same type becomes usable there for somebody else, or there is another token"
_UNLESS_ANY = "unless a machine of the pool becomes usable for somebody else, or there is another token"
_BROKE = "for they became usable and broke, and so may the next one"
_LOOK = "(look at how machines start: join script, token, image, device plug-in)"


def pause_after(tries: int, snapshot: Snapshot) -> float:
    """What the settings say after two tries, and doubling from there."""
    return min(LONGEST_PAUSE, snapshot.policy.deadlines.backoff_unusable * 2.0 ** min(tries - 2, 32))


def until(tries: int, last: float, snapshot: Snapshot, *, more: float = 0.0) -> float | None:
    """When the pause ends; None: it is over, also where it began at a moment to come (a clock was corrected)."""
    pause = pause_after(tries, snapshot) + more
    return last + pause if 0 <= snapshot.now - last < pause else None


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


class Held(msgspec.Struct, frozen=True):
    """A pod that enough machines were bought for in vain, and what it is told."""

    ask: Ask
    names: frozenset[str]  # machines of it that never became usable
    code: Reason
    message: str  # up to what comes next
    # Where all that it could have is in doubt, for whomever it was tried: by pool, what speaks against that.
    against: Mapping[str, tuple[Evidence, ...]] = {}


class _Unit(msgspec.Struct):
    """What is tried together: a pod, or the pods of a gang."""

    held: list[Held] = []
    tries: int = 0
    last: float = 0.0
    own_last: float = (
        0.0  # when these pods were tried last, or made: whoever waits longest since then comes first
    )
    pools: set[str] = set()
    broke: bool = False  # one had become usable before


def another_try(
    snapshot: Snapshot,
    doubts: Doubts,
    held: Sequence[Held],
    possible: Callable[[Ask], int],
    welcome: Callable[[Ask], bool],
    taken: set[str],
    told: dict[str, Explanation],
    wakes: list[float],
) -> tuple[set[str], set[str]]:
    """Keys of the pods that may have a machine ordered now, and of those that may have none anyhow, which is for others to
    tell; the rest is told what it waits for.

    `possible`: what offers and the limits allow. A pod that could not have one anyhow stands in the way
    of no other, and is told why it cannot. `welcome`: whether other pods, as they are now, let it onto a new one; who is not
    comes last, since that may change only by what is ordered for somebody else. `taken`: pools that this plan orders from for
    nobody in particular; those of which one is tried are added.
    """
    tried = _by_machine(snapshot)
    units: dict[str, _Unit] = {}
    for one in held:
        ask = one.ask
        unit = units.setdefault(ask.gang.key if ask.gang is not None else ask.pod.identity, _Unit())
        unit.held.append(one)
    due = []
    for unit in units.values():
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
    let: set[str] = set()
    without: set[str] = set()
    for unit in sorted(
        due, key=lambda u: (not all(welcome(one.ask) for one in u.held), u.own_last, _cheapest(u))
    ):
        orders = all(possible(one.ask) for one in unit.held)
        if orders and unit.pools & taken:
            _tell(unit, told, "one at a time is tried, and one is on its way")
            continue
        if orders:
            taken |= unit.pools
        (let if orders else without).update(one.ask.pod.key for one in unit.held)
    return let, without


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
    return {m.pool for m in snapshot.machines if m.phase.on_the_way and _is_try(m, doubts)}


def _by_machine(snapshot: Snapshot) -> dict[str, tuple[str, Tried]]:
    return {name: (sort, known) for sort, known in snapshot.tried.items() for name in known.machines}


def _date(unit: _Unit, tried: Mapping[str, tuple[str, Tried]], doubts: Doubts, snapshot: Snapshot) -> None:
    known = dict(tried[name] for one in unit.held for name in one.names if name in tried)
    unit.tries = sum(one.tries for one in known.values())
    unit.last = max((one.last for one in known.values()), default=0.0)
    unit.pools = {sort.partition("/")[0] for sort in known}
    unit.own_last = max(unit.last, min(one.ask.pod.created for one in unit.held))
    for sort in known:
        # What others tried in vain counts as well, where it is the same fault.
        pool, kind, location = (*sort.removesuffix(ONCE_READY).split("/", 2), "", "")[:3]
        if (found := doubts.against(pool, kind, location)) is not None:
            unit.tries, unit.last = max(unit.tries, found.tries), max(unit.last, found.last)
    for one in unit.held:
        if not one.against:
            continue
        unit.pools |= one.against.keys()
        # Of all that it could have, what may be tried first.
        next_one = min(
            (found for of_pool in one.against.values() for found in of_pool),
            key=lambda e: e.last + pause_after(e.later, snapshot) if e.later else 0.0,
        )
        # The first of them is tried at once: somebody may have mended what was wrong, and made the pod again.
        unit.tries = max(unit.tries, next_one.later, 1)
        unit.last = max(unit.last, next_one.last if next_one.later else 0.0)
    unit.broke = any(sort.endswith(ONCE_READY) for sort in known)


def _pools_that_are_tried(snapshot: Snapshot, doubts: Doubts, held: Sequence[Held]) -> set[str]:
    """By a machine on its way of a sort that is in doubt, or for a pod that had machines in vain."""
    keys = {one.ask.pod.key for one in held}
    return {
        machine.pool
        for machine in snapshot.machines
        if machine.phase.on_the_way
        and (machine.sort in snapshot.tried or _is_try(machine, doubts) or not keys.isdisjoint(machine.pods))
    }


def _is_try(machine: Machine, doubts: Doubts) -> bool:
    return doubts.against(machine.pool, machine.instance_type, machine.location) is not None


def _cheapest(unit: _Unit) -> tuple[int, float, str]:
    pods = [one.ask.pod for one in unit.held]
    gpus = sum(one.ask.scarce[1] for one in unit.held)
    return gpus, min(pod.created for pod in pods), min(pod.key for pod in pods)


def _tell(unit: _Unit, told: dict[str, Explanation], what: str) -> None:
    for one in unit.held:
        told[one.ask.pod.key] = Explanation(one.code, f"{one.message}; {what} {_LOOK}")
