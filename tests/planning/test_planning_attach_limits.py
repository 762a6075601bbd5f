"""How many volumes a machine takes that is no Node yet is known from a Node of the same pool and type."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.kube import CsiNode, PodVolume, Volume, VolumeClaim
from controller.domain.machine import Phase
from controller.domain.plan import Launch
from controller.planning.planner import plan
from tests.planning.worlds import A4, machine, node, offers, pod, world

DRIVER = "csi.example.com"
OLD = "home-a100-aaaaaaaaaa"
COMING = "home-a100-bbbbbbbbbb"


def bought(limits: dict[str, int], **more: Any) -> int:
    names = [f"p{n}" for n in range(4)]
    there = machine(OLD, A4)
    values: dict[str, Any] = {
        "offers": offers(A4),
        "machines": (there,),
        "nodes": (node(OLD, 4, cpu=88, memory=400, unschedulable=True),),
        "csi_nodes": (CsiNode(name=OLD, limits=limits),),
        "pods": tuple(pod(name, volumes=(PodVolume(claim=name),)) for name in names),
        "volume_claims": tuple(
            VolumeClaim(namespace="default", name=name, phase="Bound", volume=f"pv-{name}") for name in names
        ),
        "volumes": tuple(Volume(name=f"pv-{name}", driver=DRIVER) for name in names),
    }
    return sum(isinstance(action, Launch) for action in plan(world(**(values | more))).actions)


@pytest.mark.parametrize(
    ("limits", "machines"), [({}, 1), ({DRIVER: 4}, 1), ({DRIVER: 2}, 2), ({DRIVER: 1}, 4)]
)
def test_as_many_are_bought_as_the_volumes_need(limits: dict[str, int], machines: int) -> None:
    assert bought(limits) == machines


def test_a_machine_on_its_way_is_held_to_it_too() -> None:
    coming = machine(COMING, A4, Phase.BOOTING)
    assert bought({DRIVER: 2}, machines=(machine(OLD, A4), coming)) == 1
    assert bought({}, machines=(machine(OLD, A4), coming)) == 0
