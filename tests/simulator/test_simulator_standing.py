"""What the settings want although nothing runs: a course with it ends, and it is neither left over nor leaked."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from controller.domain.machine import Machine, Phase
from controller.domain.policy import Headroom, Policy, Pool
from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.standing import standing
from tests.simulator.days import ONE_POD, Day

ONE_TYPE = {
    "name": "all",
    "instance_types": ["1A100.22V"],
    "locations": ["FIN-01"],
    "market": "on_demand_only",
    "max": 9,
}


def machine(name: str, gpus: int, phase: Phase = Phase.READY, **more: object) -> Machine:
    return Machine(
        intent=name, name=name, pool="all", instance_type="x", location="FIN-01", market="on-demand", gpus=gpus,
        phase=phase, intended_at=0.0, **more,
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize(
    ("minimum", "free", "expected"),
    [
        (0, 0, set()),
        (1, 0, {"a"}),
        (2, 0, {"a", "b"}),
        (0, 1, {"a"}),
        (0, 2, {"a", "b"}),
        (0, 4, {"a", "b", "c"}),
        (2, 3, {"a", "b"}),
        (9, 9, {"a", "b", "c"}),
    ],
)
def test_as_few_machines_are_wanted_as_will_do(minimum: int, free: int, expected: set[str]) -> None:
    policy = Policy(
        cluster_id="home",
        pools=(Pool(name="all", max=9, min=minimum),),
        headroom=(Headroom(pool="all", gpus=free),) if free else (),
    )
    there = (machine("c", 4), machine("a", 1), machine("b", 2), machine("d", 1, Phase.DRAINING))
    assert standing(policy, (*there, machine("e", 1, surplus=True))).keys() == expected


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"pools": [{**ONE_TYPE, "min": 2}]}, 2),
        ({"pools": [ONE_TYPE], "headroom": [{"pool": "all", "gpus": 1}]}, 1),
    ],
)
def test_a_day_ends_with_what_the_settings_want(settings: dict[str, object], wanted: int) -> None:
    day = Day(1, 0.5, works=[ONE_POD], settings=settings)
    assert day.result["violations"] == []
    assert (day.result["leaked_machines"], day.result["leaked_disks"]) == (0, 0)
    assert day.simulation.loop.time() < 2 * 3600  # and is not waited out
    assert len(day.simulation.worlds.cloud.state.instances) >= wanted


def test_one_more_than_the_settings_want_is_left_over() -> None:
    settings = {"pools": [{**ONE_TYPE, "min": 1}], "scale_down": {"cooldown": "200h"}}
    day = Day(1, 0.5, works=[ONE_POD, ONE_POD._replace(name="other")], settings=settings)
    assert day.result["leaked_machines"] == 1


def test_a_disk_that_bears_the_name_of_a_wanted_machine_and_is_not_attached_to_it_is_left_over() -> None:
    """As that of a second machine for the same order would."""

    def before(simulation: Simulation) -> None:
        def left() -> None:
            volumes = simulation.worlds.cloud.state.volumes
            disk = next(d for d in volumes.values() if d.name.startswith("simulated-") and d.instance_id)
            volumes["left"] = replace(disk, id="left", instance_id=None, meter=replace(disk.meter))

        simulation.loop.call_at(1790, left)

    day = Day(1, 0.5, works=[], settings={"pools": [{**ONE_TYPE, "min": 1}]}, before=before)
    assert (day.result["leaked_machines"], day.result["leaked_disks"]) == (0, 1)


SECOND_POOL = {**ONE_TYPE, "name": "b", "instance_types": ["1V100.6V"], "locations": [], "max": 3}
ALL = {"name": "all", "min_gpu_memory_gb": 1, "market": "on_demand_only", "max": 15}
NEEDLESS = """
import sys
from tests.simulator.mutants import MUTANTS, _Wrong

sys.meta_path.insert(0, _Wrong(next(m for m in MUTANTS if m.name == "machines on their way are no capacity")))
from tests.simulator.days import Day
from tests.simulator.stories import SOME

result = Day(0, 0.5, works=SOME, settings={settings}).result
sys.exit(result["double_launches"] == 0 or result["violations"] == [])
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"pools": [ALL, {**SECOND_POOL, "min": 1}]},
        {"pools": [ALL], "headroom": [{"pool": "all", "gpus": 1}]},
    ],
    ids=["minimum", "headroom"],
)
def test_a_needless_purchase_is_seen_beside_what_the_settings_keep(settings: dict[str, object]) -> None:
    """By a controller to which machines on their way are no capacity; in a process of its own, because it is wrong."""
    script = NEEDLESS.format(settings=settings)
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr


def test_what_fills_a_minimum_up_is_needed_whoever_finds_a_place_there() -> None:
    """In the moment in which a pod waits for what is on its way the minimum asks for a machine of its own."""
    pool = {**SECOND_POOL, "instance_types": ["1A100.22V"]}
    lost = {"at_s": 700, "cloud_event": {"event": "delete", "hostname": "simulated-b-*", "disks": "keep"}}
    day = Day(
        1,
        1.0,
        works=[ONE_POD, ONE_POD._replace(name="other", arrives=702.0)],
        settings={"pools": [{**ONE_TYPE, "max": 2}, {**pool, "min": 1}]},
        faults=[lost],
    )
    assert day.result["violations"] == []
    assert len(day.told("bought simulated-b-")) == 2


def test_a_machine_that_waiting_pods_do_not_tolerate_is_no_place_for_them() -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    settings = {"pools": [{**ONE_TYPE, "max": 2}, {**SECOND_POOL, "min": 1, "taints": [taint]}]}
    day = Day(1, 0.5, works=[ONE_POD], settings=settings)
    assert day.result["violations"] == []
    assert day.result["launches"] == 2


def test_what_one_decision_buys_for_a_pod_and_for_headroom_are_two_machines_whichever_arrives_first() -> None:
    settings = {"pools": [{**SECOND_POOL, "max": 9, "min": 2}], "headroom": [{"pool": "b", "gpus": 2}]}
    for seed in range(4):
        works = [
            ONE_POD._replace(cpu_milli=1000, arrives=2.0),
            ONE_POD._replace(name="other", cpu_milli=1000),
        ]
        assert Day(seed, 0.2, works=works, settings=settings).result["violations"] == []
