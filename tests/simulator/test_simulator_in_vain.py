"""Machines that never become usable are paid for ever more seldom, whoever asks for them; and what works again runs all."""

from __future__ import annotations

from typing import Any

import pytest

from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.workload import Work
from tests.simulator.days import Day

HOURS = 12.0
POOL: dict[str, Any] = {"name": "all", "instance_types": ["1V100.6V"], "market": "on_demand_only", "max": 15}


def for_long(knob: str) -> list[dict[str, Any]]:
    return [{"at_s": 0, "cluster_knobs": {knob: ["*"]}, "for_s": HOURS * 3600}]


def bought(day: Day) -> int:
    """While nothing became usable."""
    return sum(float(line.split(" ", 1)[0]) < HOURS * 3600 for line in day.told("bought"))


@pytest.mark.parametrize(
    ("knob", "least"),
    [
        ("never_join", 3),
        pytest.param("never_ready", 5, marks=pytest.mark.life),
        pytest.param("gpus_never", 4, marks=pytest.mark.life),
    ],
)
def test_a_minimum_of_several_machines_is_tried_ever_more_seldom(knob: str, least: int) -> None:
    """Each is replaced when it fails, so some order always is older than the last failure."""
    settings = {"pools": [{**POOL, "min": least}]}
    day = Day(1, HOURS, works=[], settings=settings, faults=for_long(knob))
    assert day.result["violations"] == []
    assert least < bought(day) <= 2 * least + 4  # each once and again, then one after 1, 2 and 4 hours


@pytest.mark.parametrize("knob", ["never_join", pytest.param("gpus_never", marks=pytest.mark.life)])
def test_pods_that_come_one_after_the_other_are_not_bought_for_one_after_the_other(knob: str) -> None:
    day = Day(1, HOURS, faults=for_long(knob))
    assert day.result["violations"] == []
    assert day.result["pods_run"] == day.result["pods"] == 100
    assert bought(day) <= 16


def test_a_pod_that_is_made_anew_again_and_again_is_bought_for_ever_more_seldom() -> None:
    def owner(simulation: Simulation) -> None:
        def again() -> None:
            for want in simulation.owner.wants:
                if want.waits and simulation.loop.time() < HOURS * 3600:
                    path = f"/api/v1/namespaces/default/pods/{want.pod}?gracePeriodSeconds=0"
                    simulation.worlds.ask_cluster("DELETE", path)
            simulation.loop.call_later(600, again)

        simulation.loop.call_later(630, again)

    works = [Work("train", 30.0, 300.0, 1, 2000, 8192)]
    day = Day(1, HOURS, works=works, faults=for_long("never_join"), before=owner)
    assert day.result["violations"] == []
    assert bought(day) <= 7


@pytest.mark.parametrize("status", [403, 500])
def test_a_machine_that_joins_while_no_node_can_be_seen_is_neither_replaced_nor_condemned(
    status: int,
) -> None:
    path = "*/api/v1/nodes"
    fault = {"method": "GET", "path": path, "fault": "answer", "status": status, "body": "", "times": 0}
    blind = [{"at_s": 60, "cluster_fault": fault, "for_s": 1800}, {"at_s": 60, "cluster": "disconnect"}]
    settings = {"timing": {}, "lease": {}, "pools": [{**POOL, "min": 1}]}
    day = Day(1, 1.0, works=[], settings=settings, faults=blind)
    assert day.result["violations"] == []
    assert day.result["launches"] == 1
