from __future__ import annotations

import json
from decimal import Decimal

import pytest
from msgspec.structs import replace

from controller.config.policy import to_policy
from controller.domain.cloudthings import InstanceType
from controller.sandbox.simulator.baselines import Course, Prefers, always_on, baselines, poll_and_count
from controller.sandbox.simulator.bound import Sold
from controller.sandbox.simulator.command import Asked, simulate, told
from controller.sandbox.simulator.settings import default_settings, loaded_from
from controller.sandbox.simulator.workload import Work, standard


def sells(gpus: int, price: str) -> Sold:
    kind = InstanceType(
        name=f"{gpus}x", model="H100", gpus=gpus, vcpus=10 * gpus, memory_gib=100 * gpus,
        price=Decimal(price), spot_price=Decimal(0), images=("ubuntu-24.04",),
    )  # fmt: skip
    return Sold(kind, Decimal(price))


MARKET = [sells(1, "1.00"), sells(4, "3.60")]


def pod(arrives: float, lasts: float, gpus: int = 1, cpu_milli: int = 1000) -> Work:
    return Work(f"pod-{arrives}-{lasts}-{gpus}", arrives, lasts, gpus, cpu_milli, 1024)


def course(works: list[Work]) -> Course:
    """A machine is usable 100 s after its order, a pod runs 2 s after it has its place."""
    return Course(works, lambda: 100.0, lambda: 2.0)


def test_one_pod_is_polled_bought_for_and_its_machine_removed_at_the_next_look() -> None:
    # Comes at 5, bought at 10, usable at 110, runs from 112 to 412, removed at 420.
    assert poll_and_count(course([pod(5, 300)]), MARKET, 15) == {
        "pods_run": 1,
        "launches": 1,
        "cost": round(410 / 3600, 4),
        "gpu_hours_paid": round(410 / 3600, 4),
        "gpu_hours_used": round(300 / 3600, 4),
        "gpu_hours_unused": round(110 / 3600, 4),
        "wait_p50_s": 107.0,
        "wait_p99_s": 107.0,
    }


@pytest.mark.parametrize(
    ("works", "most", "run", "launches", "paid_gpu_s"),
    [
        ([], 15, 0, 0, 0),
        # What is on its way is counted: the second look buys for the second pod alone. 110+2+20 -> 140, 120+2+20 -> 150.
        ([pod(1, 20), pod(12, 20)], 15, 2, 2, 130 + 130),
        # Three GPUs pending are one machine of four.
        ([pod(1, 20), pod(2, 20), pod(3, 20)], 15, 3, 1, 4 * 130),
        # Five are the largest machine and one more.
        ([pod(1, 20, 4), pod(2, 20)], 15, 2, 2, 4 * 130 + 130),
        # Idle for a moment, gone: the next pod waits for a boot again.
        ([pod(5, 10), pod(200, 10)], 15, 2, 2, 120 + 120),
        # A pod that comes while the machine works on takes what is free on it. 110 -> 112 -> 312; bought at 10.
        ([pod(1, 200), pod(2, 20), pod(3, 20), pod(150, 20)], 15, 4, 1, 4 * 310),
        # No more machines than allowed: the second pod waits for the first. Removed at 132 -> 2 s -> 154 -> 160.
        ([pod(1, 20, 4), pod(2, 20, 4)], 1, 2, 1, 4 * 150),
        # What no machine could hold is neither bought for nor in the way of others.
        ([pod(1, 20, 8), pod(2, 20)], 15, 1, 1, 130),
        ([pod(1, 20, 1, cpu_milli=50_000)], 15, 0, 0, 0),
        # A pod that needs many CPUs gets the machine that has them.
        ([pod(1, 20, 1, cpu_milli=30_000)], 15, 1, 1, 4 * 130),
    ],
)
def test_what_poll_and_count_pays_for(
    works: list[Work], most: int, run: int, launches: int, paid_gpu_s: float
) -> None:
    found = poll_and_count(course(works), MARKET, most)
    assert (found["pods_run"], found["launches"]) == (run, launches)
    assert found["gpu_hours_paid"] == pytest.approx(paid_gpu_s / 3600, abs=1e-4)


@pytest.mark.parametrize(("prefers", "bought"), [("price", "many"), ("gpus", "few")])
def test_the_loop_that_prefers_few_gpus_buys_a_dearer_machine_that_has_fewer(
    prefers: Prefers, bought: str
) -> None:
    dear = sells(1, "4.00")
    market = [Sold(replace(dear.kind, name="few"), dear.price), sells(4, "3.60")]
    found = poll_and_count(course([pod(5, 300)]), market, 15, prefers)
    hourly = {"few": (1, 4.0), "many": (4, 3.6)}[bought]
    assert found["gpu_hours_paid"] == pytest.approx(hourly[0] * 410 / 3600, abs=1e-4)
    assert found["cost"] == pytest.approx(hourly[1] * 410 / 3600, abs=1e-4)


def test_pods_go_where_the_scheduler_puts_them_and_not_where_they_would_pack_best() -> None:
    """Two machines of four GPUs: three are in use on one, two on the other. The last pod keeps the second one."""
    works = [pod(1, 300, 3, 3000), pod(2, 600, 2, 2000), pod(200, 1000)]
    found = poll_and_count(course(works), MARKET, 15)
    assert found["launches"] == 2
    assert found["gpu_hours_paid"] == pytest.approx(4 * (410 + 1200) / 3600, abs=1e-4)


@pytest.mark.parametrize(
    ("works", "hours", "run", "paid_s", "longest_wait"),
    [
        ([pod(0, 60, 2)], 1.0, 1, 3600, 102),  # on until the end, however little it does
        ([pod(200, 60, 4), pod(201, 60, 1)], 0.0, 2, 324, 63),  # 200 + 2 + 60 = 262, + 2 + 60 = 324
        ([pod(200, 60, 8), pod(200, 60, 1)], 0.0, 1, 262, 2),  # what it cannot hold never runs
    ],
)
def test_one_machine_always_on_is_the_largest_and_pods_wait_for_each_other(
    works: list[Work], hours: float, run: int, paid_s: float, longest_wait: float
) -> None:
    found = always_on(course(works), works, MARKET, hours * 3600)
    assert (found["machine"], found["pods_run"], found["launches"]) == ("4x", run, 1)
    assert found["gpu_hours_paid"] == pytest.approx(4 * paid_s / 3600, abs=1e-4)
    assert found["cost"] == pytest.approx(3.6 * paid_s / 3600, abs=1e-4)
    assert found["wait_p99_s"] == longest_wait


def test_all_are_the_same_for_the_same_seed_and_run_every_pod_of_a_day() -> None:
    works, policy = standard(3, 24), to_policy(loaded_from(default_settings(15)).settings, cluster_id="x")
    found = baselines(works, policy, seed=3, hours=24)
    assert found == baselines(works, policy, seed=3, hours=24) != baselines(works, policy, seed=4, hours=24)
    assert [each["pods_run"] for each in found.values()] == [len(works)] * 3
    assert all(each["gpu_hours_unused"] > 0 for each in found.values())


@pytest.mark.parametrize("wanted", [True, False])
def test_they_stand_beside_the_result_only_when_asked_for(wanted: bool) -> None:
    asked = Asked(hours=0.05, faults="none", workload="standard", baselines=wanted)
    result = simulate(asked, 1)
    assert ("baselines" in json.loads(told(result, as_json=True))) is wanted
    assert ("always on" in told(result, as_json=False)) is wanted
