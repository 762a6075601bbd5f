"""Memory stays flat: hour after hour of the same, with deaths and faults in it, leaves nothing behind.

Counted is what Python holds, at the same moment of many hours, so that no allocator and no other process has a say. What
was there before does not count, and what is remembered up to a bound is forgotten first, wherever it hides: what an earlier
test froze is not among the objects that Python names. `verda-gpu-autoscaler simulate --hours 720 --faults calm` is the
whole month; what it took is told in docs/simulate.md.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections import Counter
from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple, Union

import pytest

from controller.cloud.verda import pacing
from controller.domain.remembering import remembered
from controller.sandbox.simulator import simulation, worlds
from controller.sandbox.simulator.process import Process
from controller.sandbox.simulator.schedule import Entry
from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.workload import Work
from tests.simulator.days import Day

EARLY, LATE = (3, 4, 5), (14, 15, 16)  # hours; at first nothing is behind it yet, and histories fill
HOURS = max(LATE)
BETWEEN = sum(LATE) / len(LATE) - sum(EARLY) / len(EARLY)
PODS = ((100, 300, 1), (105, 600, 2), (1500, 200, 1))  # (seconds after the hour, how long, GPUs)
FAULTS = (
    (90, {"cloud_fault": {"method": "POST", "path": "/instances", "fault": "lose_after"}}),
    (1200, {"cluster": "disconnect"}),
    (2000, {"cluster": "compact"}),
    (3000, {"cloud_fault": {"path": "*", "fault": "answer", "status": 500, "body": "", "times": 2}}),
)
DEATHS = (
    (1300, {"controller": "second", "for_s": 600}),
    *((at, {"controller": "die", "awaits": 5}) for at in (400, 800, 2400, 2900)),
)
_NONSENSE = 2**30  # what some types of C say of their size


Cache = Union["functools._lru_cache_wrapper[object]", "remembered[object, object]"]


def _caches() -> list[Cache]:
    return [one for one in gc.get_objects() if isinstance(one, (functools._lru_cache_wrapper, remembered))]


@pytest.fixture
def caches() -> list[Cache]:
    """All that there were before. They and everything else of then stay out of the counts."""
    gc.unfreeze()
    gc.collect()
    found = _caches()
    gc.freeze()
    return found


def _size(one: object) -> int:
    """Of a set what its members need: how much room it keeps depends on what came and went when."""
    return sys.getsizeof(set(one) if type(one) is set else one)


class Held(NamedTuple):
    """What came since the test began, by type; and how many bytes, what only hangs on it included."""

    kinds: dict[str, int]
    bytes: int
    dead: int  # processes

    @classmethod
    def now(cls, caches: Sequence[Cache], seen: Sequence[Held]) -> Held:
        for one in (*caches, *_caches()):
            one.cache_clear()
        gc.collect()
        ours = {id(seen), *map(id, seen), *(id(one.kinds) for one in seen)}
        tracked = [one for one in gc.get_objects() if id(one) not in ours]
        everything: dict[int, object] = {id(one): one for one in tracked}
        for one in tracked:
            everything |= {id(part): part for part in gc.get_referents(one) if id(part) not in ours}
        return cls(
            dict(Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in tracked)),
            sum(size for size in map(_size, everything.values()) if size < _NONSENSE),
            sum(type(one) is Process and one.dead for one in tracked),
        )


@pytest.mark.life
@pytest.mark.parametrize("deaths", [(), DEATHS], ids=["one process all the time", "it dies and starts again"])
def test_memory_is_flat(
    deaths: Sequence[tuple[int, Entry]],
    caches: list[Cache],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulation, "TIDY", 600.0)
    monkeypatch.setattr(simulation, "KEPT", 1200.0)
    monkeypatch.setitem(worlds.CLUSTER, "history", 20)
    monkeypatch.setattr(pacing, "_MOST_ENDPOINTS", 8)
    seen: list[Held] = []

    def before(course: Simulation) -> None:
        def look() -> None:
            day_notes.clear()
            seen.append(Held.now(caches, seen))

        for hour in (*EARLY, *LATE):
            course.loop.call_at(hour * 3600.0 - 5, look)

    works = [
        Work(f"pod-{hour}-{n}", hour * 3600.0 + at, float(lasts), gpus, 2000 * gpus, 8192 * gpus)
        for hour in range(HOURS)
        for n, (at, lasts, gpus) in enumerate(PODS)
    ]
    faults = [
        {"at_s": hour * 3600 + at, **entry} for hour in range(HOURS) for at, entry in (*FAULTS, *deaths)
    ]
    day_notes: list[str] = []
    day = Day(
        1,
        HOURS,
        works=works,
        faults=faults,
        before=before,
        settings={"scale_down": {"cooldown": "300s"}},
        happened=day_notes,
    )
    assert day.result["violations"] == []
    early, late = seen[: len(EARLY)], seen[len(EARLY) :]
    kinds = {kind for one in seen for kind in one.kinds}
    grown = {
        kind: (mean(one.kinds.get(kind, 0) for one in late) - mean(one.kinds.get(kind, 0) for one in early))
        / BETWEEN
        for kind in kinds
    }
    more = (mean(one.bytes for one in late) - mean(one.bytes for one in early)) / BETWEEN
    print(f"{[(sum(one.kinds.values()), one.bytes) for one in seen]}; {more:.0f} bytes an hour")
    assert [one.dead for one in late] == [0] * len(LATE), "a dead process is held"
    # Three machines come and go in an hour: what keeps one object of each grows by three.
    assert {kind: by for kind, by in grown.items() if by >= 2} == {}
    assert more < 0.002 * early[0].bytes


def test_what_has_died_is_collected_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each death leaves a whole controller that holds itself; a long course made 15 MiB of them in half a month."""
    monkeypatch.setattr(simulation, "COLLECTED", 1800.0)
    faults = [{"at_s": at, "controller": "die", "awaits": 5} for at in range(300, 9000, 600)]
    held: list[int] = []

    def before(course: Simulation) -> None:
        def look() -> None:
            held.append(sum(type(one) is Process and one.dead for one in gc.get_objects()))

        for hour in (1, 2):
            course.loop.call_at(hour * 3600.0 + 60, look)

    gc.collect()
    assert Day(1, 2.5, works=[], faults=faults, before=before).result["violations"] == []
    assert max(held) <= 1  # the last one, until its last timer has fired: four and five without
