"""Many clients at once meet no error that nobody asked for; `bench cloud` does it with two hundred for minutes."""

from __future__ import annotations

from controller.sandbox.bench.cloud import measure


async def test_a_small_crowd_meets_no_error_with_limits_or_without() -> None:
    found = await measure(seconds=1, clients=10, instances=200, pause=0.02)
    assert found["list"]["instances"] == 200
    for crowd in ("one project, no limits", "a project each, limits"):
        assert found[crowd]["errors"] == 0, found[crowd]
        assert found[crowd]["machines"] >= 10
        assert found[crowd]["requests"] > 80
