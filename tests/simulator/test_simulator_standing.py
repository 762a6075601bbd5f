"""What the settings want although nothing runs: a course with it ends, and it is neither left over nor leaked."""

from __future__ import annotations

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
    assert standing(policy, (*there, machine("e", 1, surplus=True))) == expected


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
