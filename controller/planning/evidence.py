"""What machines of a pool that came to nothing say of its other types and locations. Pure.

The fault may be in one type, in one location, or in how the whole pool's machines start. What failed says so itself: one
type in several locations speaks against the type, several types in one location against the location, several types in
several locations against the pool. What was of use since they began to fail speaks against no such wider fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from controller.domain.machine import ONCE_READY
from controller.domain.plan import Failing, InVain, Snapshot
from controller.domain.reason import Reason

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


class Doubt:
    """Of one pool."""

    def __init__(self, known: InVain, *, broke: bool = False) -> None:
        """`broke`: it is of machines that became usable first."""
        self.known = known
        self._broke = broke
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
        sort = f"{kind}/{location}"
        return sort in self.known.fine and sort not in self.known.sorts

    def _judge(self, kind: str, location: str) -> Evidence | None:
        known = self.known
        if not known.sorts:
            return Evidence(known.tries, known.last, len(known.firsts), known.reason, self._broke)
        itself = known.sorts.get(f"{kind}/{location}")
        speak: list[Failing] = [itself] if itself is not None else []
        for of_type, of_place in ((kind, None), (None, location), (None, None)):
            speak += self._wider(of_type, of_place)
        if not speak:
            return None
        tries = {number for found in speak for number in found.tries}
        later = (tries - {min(tries)}) & set(known.firsts) if tries else ()
        last = max(found.last for found in speak)
        return Evidence(len(tries), last, len(later), known.reason, self._broke)

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
        self._of = {
            pool: Doubt(known, broke=pool.endswith(ONCE_READY))
            for pool, known in snapshot.in_vain.items()
            if known.tries >= IN_VAIN
        }
        self._failed = _moments(snapshot)

    def __bool__(self) -> bool:
        """Whether anything is in doubt."""
        return bool(self._of)

    def against(self, pool: str, kind: str, location: str) -> Evidence | None:
        """What is enough to doubt of it."""
        doubts = (self._of[key] for key in (pool, f"{pool}{ONCE_READY}") if key in self._of)
        found = [one for d in doubts if (one := d.against(kind, location)) is not None and one.is_enough]
        return max(found, key=lambda one: one.last, default=None)

    def failed_at(self, pool: str, kind: str, location: str) -> float:
        """When a machine of the very type and location came to nothing last; 0: none did, as far as is known."""
        return self._failed.get(f"{pool}/{kind}/{location}", 0.0)

    @property
    def any_failed(self) -> bool:
        return bool(self._failed)


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
