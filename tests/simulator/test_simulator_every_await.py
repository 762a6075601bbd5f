"""Our own death at every await of one whole story: bought, booted, used, removed.

The story is told once. At each await that is tried the process forks, and the controller of the child dies there: so
what came before is shared, and only what follows is told again. `make test` tries some of the awaits, spread over
the story; `EVERY_AWAIT=1` (as `make soak` sets it) tries all.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from controller.sandbox.simulator.workload import Work
from tests.simulator.days import Day

STORY = [Work("train", 5.0, 120.0, 1, 2000, 8192)]
QUICK = {"scale_down": {"cooldown": "60s"}}
STEP = 1 if os.environ.get("EVERY_AWAIT") else 150
TOGETHER = 2  # children


class Forks:
    """At every await that is tried, a child in which the controller dies."""

    def __init__(self, folder: Path) -> None:
        self.tried: list[int] = []
        self.point = 0  # at which this process died: it is a child
        self._folder = folder
        self._children: set[int] = set()

    def __call__(self, point: int) -> bool:
        if self.point or point % STEP:
            return False
        while len(self._children) >= TOGETHER:
            self._reap()
        self.tried.append(point)
        loop = asyncio.get_running_loop()
        child = os.fork()
        if child:
            self._children.add(child)
            return False
        asyncio._set_running_loop(loop)  # which asyncio believes to run in the parent only
        self.point = point
        return True

    def _reap(self) -> None:
        child, _ = os.waitpid(-1, 0)
        self._children.discard(child)

    def told(self) -> dict[int, dict[str, Any]]:
        """What each child saw, when all are done; nothing of one that did not come to its end."""
        while self._children:
            self._reap()
        paths = {point: self._folder / str(point) for point in self.tried}
        return {
            point: json.loads(path.read_text()) if path.exists() else {"trace": "it did not come to its end"}
            for point, path in paths.items()
        }

    def tell(self, found: dict[str, Any]) -> None:
        (self._folder / str(self.point)).write_text(json.dumps(found))


def test_a_death_at_any_await_of_a_story_leaves_one_machine_for_the_pod_and_nothing_at_the_end(
    tmp_path: Path,
) -> None:
    began, forks = time.monotonic(), Forks(tmp_path)
    try:
        whole = Day(hours=0.05, works=STORY, settings=QUICK, dies=forks)
        if forks.point:
            seen = {key: whole.result[key] for key in ("violations", "pods_run", "launches")}
            forks.tell(seen | {"trace": whole.trace})
    except BaseException as error:
        if forks.point:
            forks.tell({"trace": repr(error)})
        raise
    finally:
        if forks.point:
            os._exit(0)
    points = whole.simulation.awaits
    assert whole.result["violations"] == []
    assert forks.tried == list(range(STEP, points + 1, STEP))
    assert len(forks.tried) >= 5
    for point, found in forks.told().items():
        told = f"death at await {point} of {points}:\n{found['trace']}"
        assert found.get("violations") == [], told
        assert found["pods_run"] == 1, told
        assert found["launches"] == 1, told
    print(f"{points} awaits, a death at each of {len(forks.tried)}, {time.monotonic() - began:.0f} s")
