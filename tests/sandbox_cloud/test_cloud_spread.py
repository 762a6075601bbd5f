"""How long things take in the sandbox cloud: distributions, drawn from a seed."""

from __future__ import annotations

import random
from statistics import quantiles
from typing import Any

import pytest

from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.spread import LogNormal, Uniform, read_spread

from .world import Cloud


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (30, Uniform(30, 30)),
        ([60, 180], Uniform(60, 180)),
        ({"p50": 90, "p99": 600}, LogNormal(90, 600)),
        ({"p50": 90, "p99": 600, "low": 30, "high": 900}, LogNormal(90, 600, 30, 900)),
    ],
)
def test_a_duration_may_be_written_in_three_ways(written: Any, meant: Any) -> None:
    assert read_spread(written) == meant
    assert read_spread(meant.shown()) == meant


@pytest.mark.parametrize(
    "written",
    [-1, True, "60", [180, 60], [1], [1, 2, 3], {}, {"p50": 90}, {"p50": 0, "p99": 9}, {"p50": 9, "p99": 8},
     {"p50": 1, "p99": 2, "mean": 1}, {"p50": 1, "p99": 2, "low": 3, "high": 2}, float("inf"), None],
)  # fmt: skip
def test_anything_else_is_no_duration(written: Any) -> None:
    assert read_spread(written) is None


def test_half_of_a_log_normal_lies_below_p50_and_one_in_a_hundred_above_p99() -> None:
    spread, rng = LogNormal(90, 600), random.Random(1)
    cuts = quantiles((spread.draw(rng) for _ in range(20_000)), n=100)
    assert cuts[49] == pytest.approx(90, rel=0.05)
    assert cuts[98] == pytest.approx(600, rel=0.1)


def test_bounds_hold() -> None:
    spread, rng = LogNormal(90, 600, 80, 100), random.Random(1)
    drawn = [spread.draw(rng) for _ in range(1000)]
    assert (min(drawn), max(drawn)) == (80, 100)


def test_a_time_that_is_always_the_same_spends_no_randomness() -> None:
    rng = random.Random(1)
    before = rng.getstate()
    assert Uniform(7, 7).draw(rng) == 7
    assert rng.getstate() == before


def test_two_worlds_of_one_seed_boot_alike_and_no_two_machines_do() -> None:
    knobs = {"ordered_s": [5, 30], "provisioning_s": {"p50": 90, "p99": 600}, "boot_s": [60, 120]}
    clouds = [Cloud(**knobs) for _ in range(2)]
    for cloud in clouds:
        for number in range(20):
            cloud.create(hostname=f"m-{number}")
        cloud.wait(900)
    times = [[one["running_at"] for one in cloud.state()["instances"]] for cloud in clouds]
    assert times[0] == times[1]
    assert len(set(times[0])) > 15


def test_every_time_of_the_cloud_is_a_distribution() -> None:
    tail = {"p50": 9.0, "p99": 99.0}
    spans = [name for name, words in Settings.expected().items() if words.endswith("machine seconds")]
    assert {"boot_s", "delete_s", "volume_detach_s", "volume_gone_s", "provisioning_s"} <= set(spans)
    shown = Settings().changed(dict.fromkeys(spans, tail)).shown()
    assert {name: shown[name] for name in spans} == dict.fromkeys(spans, tail)
