"""That the benchmark's own little world answers every call: how fast is for a quiet machine to say."""

from __future__ import annotations

from compat_grpc.bench import GOALS, judged, measure


def test_it_asks_everything_and_judges_every_goal() -> None:
    found = measure(machines=4, groups=2, calls=20)
    assert len(judged(found)) == len(GOALS)
    assert found["loop_calls"] > 4
