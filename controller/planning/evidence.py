"""What machines of a pool that came to nothing say of its other types and locations. Pure.

The fault may be in one type, in one location, or in how the whole pool's machines start. What failed says so itself: one
type in several locations speaks against the type, several types in one location against the location, several types in
several locations against the pool. What was of use since they began to fail speaks against no such wider fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from controller.domain.machine import ONCE_READY, Machine, Phase
from controller.domain.plan import Failing, InVain, Snapshot
from controller.domain.reason import Reason
from controller.domain.tries import ended_by_later, refuted, with_failure, with_use
from controller.planning.lost import silent_for_long
from controller.planning.pauses import pause_after

# A machine that came to nothing is replaced once; what did so in as many tries is in doubt.
IN_VAIN = 2


class Evidence(msgspec.Struct, frozen=True):
    """What speaks against one type in one location."""

    tries: int
    last: float
    later: int  # of the tries after the first, those for pods that had none before
    reason: Reason
    broke: bool = False  # they became usable first

    def words(self, pool: str) -> str:
        what = "became usable and broke soon" if self.broke else "did not become usable"
        return f"machines of pool {pool} {what}, {self.tries} times in a row"

    @property
    def is_enough(self) -> bool:
        return self.tries >= IN_VAIN

    def ends(self, snapshot: Snapshot) -> float:
        """When its pause ends, also where that is over; 0: there is none."""
        return self.last + pause_after(self.later, snapshot) if self.later else 0.0


class Doubt:
    """Of one pool."""

    def __init__(self, known: InVain, *, broke: bool = False) -> None:
        """`broke`: it is of machines that became usable first."""
        self.known = known
        self.broke = broke
        self._found: dict[tuple[str, str], Evidence | None] = {}
        self._failing = [(*_parts(kind), found) for kind, found in known.sorts.items()]
        self._fine = [(*_parts(kind), at) for kind, at in known.fine.items()]

    def against(self, kind: str, location: str) -> Evidence | None:
        """None: nothing that failed speaks against it."""
        sort = (kind, location)
        if sort not in self._found:
            self._found[sort] = self._judge(kind, location)
        return self._found[sort]

    def was_of_use(self, kind: str, location: str) -> bool:
        """Since the first of the pool came to nothing, and nothing of it failed after that."""
        sort, sorts = f"{kind}/{location}", self.known.sorts
        began = min((failing.since for failing in sorts.values()), default=math.inf)
        return sort not in sorts and self.known.fine.get(sort, 0.0) >= began

    def _judge(self, kind: str, location: str) -> Evidence | None:
        known = self.known
        if not known.sorts:
            return Evidence(known.tries, known.last, len(known.firsts), known.reason, self.broke)
        itself = known.sorts.get(f"{kind}/{location}")
        speak: list[Failing] = [itself] if itself is not None else []
        for of_type, of_place in ((kind, None), (None, location), (None, None)):
            speak += self._wider(of_type, of_place)
        if not speak:
            return None
        tries = {number for found in speak for number in found.tries}
        later = (tries - {min(tries)}) & set(known.firsts) if tries else ()
        last = max(found.last for found in speak)
        return Evidence(len(tries), last, len(later), known.reason, self.broke)

    def _wider(self, kind: str | None, location: str | None) -> Iterable[Failing]:
        """What failed of this type, in this location or of all, if it is of several types and locations, but for
        the one that is given, and nothing of these was of use since."""

        def within(a_kind: str, place: str) -> bool:
            return kind in (None, a_kind) and location in (None, place)

        of_use = max((at for a_kind, place, at in self._fine if within(a_kind, place)), default=0.0)
        found = [one for one in self._failing if within(one[0], one[1]) and one[2].since >= of_use]
        several_types = kind is not None or len({one[0] for one in found}) > 1
        several_places = location is not None or len({one[1] for one in found}) > 1
        return [one[2] for one in found] if several_types and several_places else []


def _parts(kind: str) -> tuple[str, str]:
    before, _, after = kind.partition("/")
    return before, after


class Doubts:
    """Of all pools: of machines that never became usable, and of those that broke soon."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._of = {
            key: Doubt(known, broke=key.endswith(ONCE_READY))
            for key, known in in_vain_by_now(snapshot).items()
            if known.tries >= IN_VAIN
        }
        self._failed = _moments(snapshot)

    def __bool__(self) -> bool:
        """Whether anything is in doubt."""
        return bool(self._of)

    def of_pool(self, pool: str) -> list[Doubt]:
        return [self._of[key] for key in (pool, f"{pool}{ONCE_READY}") if key in self._of]

    def against(self, pool: str, kind: str, location: str) -> Evidence | None:
        """What is enough to doubt of it, and lasts longest."""
        found = [
            one
            for d in self.of_pool(pool)
            if (one := d.against(kind, location)) is not None and one.is_enough
        ]
        return max(found, key=lambda e: (e.ends(self._snapshot), e.last), default=None)

    def failed_at(self, pool: str, kind: str, location: str) -> float:
        """When a machine of the very type and location came to nothing last; 0: none did, as far as is known."""
        return self._failed.get(f"{pool}/{kind}/{location}", 0.0)

    @property
    def any_failed(self) -> bool:
        return bool(self._failed)

    def is_tried_by(self, machine: Machine) -> bool:
        """Whether this machine, which is on its way or has not proven itself yet, is a try of what is in doubt."""
        against = self.against(machine.pool, machine.instance_type, machine.location)
        if against is None or machine.phase.on_the_way:
            return against is not None
        patience = self._snapshot.policy.deadlines.backoff_unusable
        return (
            against.broke
            and machine.phase is Phase.READY
            and machine.ready_at > against.last
            and machine.ready_at + patience > self._snapshot.now
        )


def in_vain_by_now(snapshot: Snapshot) -> dict[str, InVain]:
    """With machines that broke soon and are still there: they are counted when they go, which is after the next is ordered."""
    found = dict(snapshot.in_vain)
    limits = snapshot.policy.deadlines
    nodes = {node.name: node for node in snapshot.nodes if silent_for_long(node, limits, snapshot.now)}
    if not nodes:
        return found
    waiting = {pod.key for pod in snapshot.pods if not pod.node}
    silent = [
        (nodes[m.name].ready_since or 0.0, m)
        for m in snapshot.machines
        if m.phase is Phase.READY and m.name in nodes and waiting.isdisjoint(m.pods)
    ]
    for since, machine in sorted(silent, key=lambda one: (one[0], one[1].name)):
        key = f"{machine.pool}{ONCE_READY}"
        soon = since - machine.ready_at <= limits.backoff_unusable
        if soon and not refuted(found.get(key), machine.kind, since):
            found[key] = with_failure(
                found.get(key),
                machine,
                Reason.READY_DEADLINE,
                since,
                first=bool(machine.pods),
                now=snapshot.now,
            )
    # One that has held since ends that, as it does for what the fleet has counted.
    up = {node.name for node in snapshot.nodes if node.ready}
    holding = [m for m in snapshot.machines if m.phase is Phase.READY and m.name in up]
    for machine in sorted(holding, key=lambda m: (m.ready_at, m.name)):
        key = f"{machine.pool}{ONCE_READY}"
        if key not in found or snapshot.now - machine.ready_at <= limits.backoff_unusable:
            continue
        if machine.ready_at > ended_by_later(found[key], machine.kind):
            left = with_use(found[key], machine.kind, machine.ready_at)
            if left is None:
                del found[key]
            else:
                found[key] = left
    return found


def _moments(snapshot: Snapshot) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for sort, tried in snapshot.tried.items():
        sort = sort.removesuffix(ONCE_READY)
        found[sort] = max(found.get(sort, 0.0), tried.last)
    for pool, known in snapshot.in_vain.items():
        for kind, failing in known.sorts.items():
            sort = f"{pool.removesuffix(ONCE_READY)}/{kind}"
            found[sort] = max(found.get(sort, 0.0), failing.last)
    found.pop("", None)
    return found
