"""The lower bound lies below what was paid, whatever faults make cheaper."""

from __future__ import annotations

from typing import Any

import pytest

from controller.sandbox.simulator.workload import Work
from tests.simulator.days import Day

HOURS = 2.0
SIX = [Work(f"pod-{n}", 30.0 if n == 0 else 600.0, 6000.0, 1, 100, 100) for n in range(6)]
CHEAP = {"1V100.6V": {"price_per_hour": 0.02, "spot_price": 0.01}}


@pytest.mark.parametrize(
    "fault",
    [
        {"cluster_knobs": {"gpus_sliced": {"*": 8}}, "for_s": 8000},
        {"cloud_knobs": {"prices": CHEAP}, "for_s": 8000},
        {"cloud_event": {"event": "settings", "values": {"prices": CHEAP}}},
        {"cloud_event": {"event": "catalogue", "prices": CHEAP}},
        {"cloud_knobs": {"added_types": {"1V100.7V": "1V100.6V"}, "prices": {"1V100.7V": CHEAP["1V100.6V"]}}, "for_s": 8000},
    ],
    ids=["cut GPUs", "knobs", "settings", "catalogue", "a new type"],
)  # fmt: skip
def test_the_bound_is_below_what_was_paid_where_a_fault_makes_it_cheap(fault: dict[str, Any]) -> None:
    result = Day(1, HOURS, works=SIX, faults=[{"at_s": 0, **fault}]).result
    assert (result["violations"], result["pods_run"]) == ([], 6)
    assert 0 < result["cost_lower_bound"] <= result["cost"]


def test_a_boot_that_a_fault_makes_shorter_is_in_the_bound() -> None:
    quick = {"boot": 0, "ready": 0, "gpu": 0, "pod_start": 0}
    faults = [
        {"at_s": 0, "cluster_knobs": quick, "for_s": 8000},
        {
            "at_s": 0,
            "cloud_knobs": {"ordered_s": 0, "provisioning_s": 0, "volume_gb_month": 0},
            "for_s": 8000,
        },
    ]
    one = [Work("pod", 30.0, 60.0, 1, 100, 100)]
    usual, short = (Day(1, 0.1, works=one, faults=part).result["cost_lower_bound"] for part in ([], faults))
    assert 0 < short < usual / 2
