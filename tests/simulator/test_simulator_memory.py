"""Memory stays flat: hour after hour of the same, with deaths and faults in it, leaves nothing behind.

Counted is what Python holds, at the same moment of two hours, so that no allocator and no other process has a say. Caches
with a bound of their own are emptied before. `verda-gpu-autoscaler simulate --hours 720 --faults calm` is the whole
month; what it took is told in docs/simulate.md.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from controller.sandbox.simulator import simulation, worlds
from controller.sandbox.simulator.process import Process
from controller.sandbox.simulator.schedule import Entry
from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.workload import Work
from tests.simulator.days import Day

HOURS, EARLY, LATE = 6, 3, 6  # nothing is behind it yet at first: caches and histories fill
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


class Held:
    """What there is now, by type; and how many bytes, what only hangs on it included."""

    def __init__(self) -> None:
        gc.collect()
        for one in gc.get_objects():
            if isinstance(one, functools._lru_cache_wrapper):
                one.cache_clear()
        gc.collect()
        tracked = gc.get_objects()
        self.kinds = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in tracked)
        everything = {id(one): one for one in tracked}
        for one in tracked:
            everything |= {id(part): part for part in gc.get_referents(one)}
        self.bytes = sum(size for size in map(sys.getsizeof, everything.values()) if size < _NONSENSE)
        self.dead = [one.name for one in tracked if type(one) is Process and one.dead]

    @property
    def objects(self) -> int:
        return sum(self.kinds.values())


@pytest.mark.life
@pytest.mark.parametrize("deaths", [(), DEATHS], ids=["one process all the time", "it dies and starts again"])
def test_memory_is_flat(deaths: Sequence[tuple[int, Entry]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "TIDY", 600.0)
    monkeypatch.setattr(simulation, "KEPT", 1200.0)
    monkeypatch.setitem(worlds.CLUSTER, "history", 20)
    seen: list[Held] = []

    def before(course: Simulation) -> None:
        def look() -> None:
            day_notes.clear()
            seen.append(Held())

        for hour in (EARLY, LATE):
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
    early, late = seen
    grown = {kind: late.kinds[kind] - early.kinds[kind] for kind in late.kinds}
    told = sorted(((more, kind) for kind, more in grown.items() if more > 1), reverse=True)[:12]
    print(f"{early.objects} objects, {early.bytes} bytes; later {late.objects} and {late.bytes}; {told}")
    assert late.dead == [], "a dead process is held"
    assert late.objects < early.objects * 1.005, told
    assert late.bytes < early.bytes * 1.005, told
