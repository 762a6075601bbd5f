"""Our own death at every await of one whole story: bought, booted, used, removed.

`make test` tries some of them, spread over the story; `EVERY_AWAIT=1` (as `make soak` sets it) tries all.
"""

from __future__ import annotations

import os

from controller.sandbox.simulator.workload import Work
from tests.simulator.days import Day

STORY = [Work("train", 5.0, 120.0, 1, 2000, 8192)]
QUICK = {"scale_down": {"cooldown": "60s"}}
SAMPLE = 6


def story(dies_at: int = 0) -> Day:
    return Day(hours=0.05, works=STORY, settings=QUICK, dies_at=dies_at)


def test_a_death_at_any_await_of_a_story_leaves_one_machine_for_the_pod_and_nothing_at_the_end() -> None:
    whole = story()
    points = whole.simulation.awaits
    assert whole.result["violations"] == []
    step = 1 if os.environ.get("EVERY_AWAIT") else points // SAMPLE
    tried = range(1, points + 1, step)
    for point in tried:
        day = story(dies_at=point)
        told = f"death at await {point} of {points}:\n{day.trace}"
        assert day.result["violations"] == [], told
        assert day.result["pods_run"] == 1, told
        assert day.result["launches"] == 1, told
    print(f"{points} awaits, a death at each of {len(tried)}")
