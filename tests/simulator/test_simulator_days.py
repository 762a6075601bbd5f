"""Simulated hours, with and without trouble: nothing is violated, and a seed tells the whole story.

`SIMULATED_SEED=17` runs that seed alone where chance has a say; the seed of the fresh one is printed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from controller.sandbox.simulator import simulation
from controller.sandbox.simulator.owner import Owner
from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.workload import Work
from tests.simulator.days import ONE_POD, PRODUCT, Day

FRESH = int(os.environ.get("SIMULATED_SEED", random.SystemRandom().randrange(1_000_000)))


def test_an_hour_without_faults_runs_every_pod_and_leaves_nothing() -> None:
    result = Day(seed=1, hours=1).result
    assert result["violations"] == []
    assert result["pods_run"] == result["pods"] > 0
    assert (result["leaked_machines"], result["leaked_disks"], result["double_launches"]) == (0, 0, 0)
    assert result["gpu_hours_paid"] > result["gpu_hours_used"] > 0
    assert result["cost"] > result["cost_lower_bound"] > 0


@pytest.mark.parametrize(
    "seed", [11, pytest.param(12, marks=pytest.mark.life), pytest.param(13, marks=pytest.mark.life)]
)
def test_harsh_hours_violate_nothing(seed: int) -> None:
    result = Day(seed=seed, hours=1, faults="harsh").result
    assert result["violations"] == []
    assert result["pods_run"] == result["pods"]


TIGHT = {"pools": [{"name": "all", "min_gpu_memory_gb": 1, "market": "on_demand_only", "max": 4}]}


@pytest.mark.parametrize(
    ("seed", "hours"),
    [(37, 4.0), pytest.param(7, 24.0, marks=pytest.mark.life), pytest.param(8, 24.0, marks=pytest.mark.life)],
)
def test_harsh_days_in_a_tight_pool_violate_nothing(seed: int, hours: float) -> None:
    assert Day(seed=seed, hours=hours, faults="harsh", settings=TIGHT).result["violations"] == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_answer_that_does_not_know_an_idle_machine_buys_none_above_the_maximum(seed: int) -> None:
    """It is the first question for the machine, right before its delete; the pod that waits wants a larger one."""
    unknown = {
        "fault": "answer",
        "status": 404,
        "body": {"code": "not_found", "message": "Instance not found"},
    }
    day = Day(
        seed=seed,
        hours=0.5,
        works=[Work("first", 0.0, 300.0, 1, 100, 100), Work("second", 400.0, 600.0, 8, 100, 100)],
        faults=[{"at_s": 450, "cloud_fault": {"method": "GET", "path": "/instances/*", **unknown}}],
        settings={"pools": [{**TIGHT["pools"][0], "max": 1}], "limits": {"machines": 1}},
    )
    assert day.result["violations"] == []
    assert day.result["launches"] == 2


def test_a_fresh_harsh_hour_violates_nothing() -> None:
    print(f"SIMULATED_SEED={FRESH}")
    result = Day(seed=FRESH, hours=1, faults="harsh").result
    assert result["violations"] == [], f"SIMULATED_SEED={FRESH}"


def test_the_same_seed_gives_the_same_course_byte_by_byte() -> None:
    first, second = (Day(seed=5, hours=0.5, faults="harsh") for _ in range(2))
    assert first.trace == second.trace
    assert first.digest == second.digest


def test_who_watches_a_course_does_not_change_it() -> None:
    def watch(simulation: Simulation) -> None:
        simulation._look, simulation._look_every = lambda seen: None, 0.37

    watched = Day(seed=5, hours=0.5, faults="harsh", before=watch)
    assert watched.digest == Day(seed=5, hours=0.5, faults="harsh").digest


def test_a_day_on_which_nothing_can_happen_any_more_is_not_waited_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody is there any more who could buy."""
    monkeypatch.setattr(simulation, "STUCK", 1800.0)
    monkeypatch.setattr(Simulation, "_delays", lambda self: (0.0,))
    day = Day(hours=0.1, works=[ONE_POD], before=lambda seen: seen.loop.call_later(1, seen.stop, "a"))
    assert len(day.told("nothing happens any more")) == 1
    assert day.simulation.loop.time() < 3600
    assert any("train (1 GPU) has not run to its end" in text for text in day.result["violations"])


def test_another_seed_gives_another_course() -> None:
    assert Day(seed=5, hours=0.3).digest != Day(seed=6, hours=0.3).digest


@pytest.mark.life
def test_the_course_does_not_depend_on_how_python_hashes() -> None:
    told = []
    for hashes in ("1", "2"):
        script = "from tests.simulator.days import Day; print(Day(seed=5, hours=0.7, faults='harsh').digest)"
        environ = {**os.environ, "PYTHONHASHSEED": hashes}
        told.append(
            subprocess.run(
                [sys.executable, "-c", script], env=environ, capture_output=True, check=True, timeout=120
            ).stdout
        )
    assert told[0] == told[1] != b""


def test_one_pod_is_bought_one_machine_which_is_gone_afterwards() -> None:
    day = Day(hours=0.1, works=[ONE_POD])
    assert len(day.told("bought")) == 1
    assert len(day.told("deleted")) == 1
    assert day.result["violations"] == []


@pytest.mark.parametrize("seed", range(4))
def test_a_pod_that_waits_already_when_the_program_starts_waits_for_no_tick(seed: int) -> None:
    """The lease is won before the last watch is in step, and a look in between has nothing to decide on."""
    day = Day(seed, 0.02, works=[Work("p", 0.0, 60.0, 1, 100, 100)], settings=PRODUCT)
    (bought,) = day.told("bought")
    assert float(bought.split()[0]) < 2.0


def test_nothing_is_bought_on_a_picture_of_the_cluster_that_has_grown_old() -> None:
    """The API server answers nobody for three minutes, in which the pod that waits gets its place. The controller leads
    again before its watches tell it: their requests hang for longer."""
    story = Day(
        seed=3,
        hours=1,
        works=[Work("first", 5.0, 1300.0, 1, 2000, 8192), Work("second", 60.0, 900.0, 1, 2000, 8192)],
        faults=[
            {"at_s": 30, "cloud_knobs": {"gpu_quota": 1}, "for_s": 900},
            {"at_s": 1580, "cluster_fault": {"path": "*", "fault": "hang", "times": 0}, "for_s": 170},
            {"at_s": 1590, "cluster": "disconnect"},
        ],
        settings={"pools": [{"name": "all", "instance_types": ["1V100.6V"], "max": 3}]},
    )
    assert story.result["violations"] == []
    assert story.result["launches"] == 1


def test_a_pod_that_runs_for_two_days_is_waited_for() -> None:
    day = Day(hours=0.1, works=[Work("long", 0.0, 172_800.0, 1, 1000, 1024)])
    assert day.result["violations"] == []
    assert day.result["pods_run"] == 1
    assert day.result["gpu_hours_used"] >= 48
    assert day.result["cost"] >= day.result["cost_lower_bound"] > 0


def test_pods_that_run_one_after_the_other_for_days_are_waited_for() -> None:
    settings = {"pools": [{"name": "one", "instance_types": ["1V100.6V"], "max": 1}]}
    works = [Work(f"pod-{n}", float(n), 50_000.0, 1, 1000, 1024) for n in range(4)]
    result = Day(hours=0.1, works=works, settings=settings).result
    assert (result["violations"], result["pods_run"]) == ([], 4)


def test_of_a_course_that_was_cut_only_what_ran_is_used_and_bounds_the_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pod runs for an hour and is then not waited for."""
    monkeypatch.setattr(simulation, "AFTERWARDS", 3600.0)
    monkeypatch.setattr(Owner, "will_end", lambda self, now: False)
    result = Day(hours=0.1, works=[Work("long", 0.0, 172_800.0, 1, 1000, 1024)]).result
    assert result["pods_run"] == 0
    assert 0.8 < result["gpu_hours_used"] < result["gpu_hours_paid"] < 1.2
    assert result["cost"] > result["cost_lower_bound"] > 0


def test_where_nothing_was_bought_nothing_was_paid() -> None:
    result = Day(hours=0.1, works=[]).result
    assert str(result["cost"]) == "0.0"


def test_what_is_known_of_nodes_that_are_gone_is_forgotten() -> None:
    day = Day(seed=1, hours=2)
    assert day.result["launches"] > 3
    assert len(day.simulation.owner.used) < day.result["launches"]
