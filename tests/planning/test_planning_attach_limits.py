"""How many volumes a machine takes that is no Node yet is known from a Node of the same pool and type."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.kube import CsiNode, PodVolume, Volume, VolumeClaim
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Snapshot
from controller.planning.planner import plan
from tests.planning.worlds import A1, A4, kind, machine, node, offers, pod, policy, pool, world

DRIVER = "csi.example.com"
OLD = "home-a100-aaaaaaaaaa"
COMING = "home-a100-bbbbbbbbbb"
SMALL = "home-a100-cccccccccc"


def volumes_world(limits: dict[str, int], **more: Any) -> Snapshot:
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
    return world(**(values | more))


def bought(limits: dict[str, int], **more: Any) -> int:
    return sum(isinstance(a, Launch) for a in plan(volumes_world(limits, **more)).actions)


@pytest.mark.parametrize(
    ("limits", "machines"), [({}, 1), ({DRIVER: 4}, 1), ({DRIVER: 2}, 2), ({DRIVER: 1}, 4)]
)
def test_as_many_are_bought_as_the_volumes_need(limits: dict[str, int], machines: int) -> None:
    assert bought(limits) == machines


def test_a_machine_on_its_way_is_held_to_it_too() -> None:
    coming = machine(COMING, A4, Phase.BOOTING)
    assert bought({DRIVER: 2}, machines=(machine(OLD, A4), coming)) == 1
    assert bought({}, machines=(machine(OLD, A4), coming)) == 0


def test_no_machine_is_bought_for_a_pod_with_more_volumes_than_it_takes() -> None:
    names = [f"p{n}" for n in range(4)]
    hungry = pod("hungry", volumes=tuple(PodVolume(claim=name) for name in names))
    assert bought({DRIVER: 4}, pods=(hungry,)) == 1
    assert bought({DRIVER: 3}, pods=(hungry,)) == 0
    assert bought({"other.example.com": 1}, pods=(hungry,)) == 1


def test_a_machine_that_takes_enough_volumes_is_bought_where_the_smaller_one_does_not() -> None:
    """Of A1 it is known that it takes one volume only; of A4 that it takes four."""
    hungry = pod("hungry", volumes=(PodVolume(claim="p0"), PodVolume(claim="p1")))
    values: dict[str, Any] = {
        "offers": offers(A1, A4),
        "policy": policy(max_overshoot=3),
        "machines": (machine(OLD, A4), machine(SMALL, A1)),
        "nodes": tuple(node(name, unschedulable=True) for name in (OLD, SMALL)),
        "csi_nodes": (CsiNode(name=OLD, limits={DRIVER: 4}), CsiNode(name=SMALL, limits={DRIVER: 1})),
    }
    assert bought({}, pods=(hungry,), **values) == 1
    small = tuple(pod(f"s{n}", volumes=(PodVolume(claim=f"p{n}"),)) for n in range(2))
    assert bought({}, pods=small, **values) == 2
    assert bought({}, pods=(hungry, *small), **values) == 1, "the large one has room for them"


def test_a_machine_is_not_exchanged_for_one_that_takes_fewer_volumes() -> None:
    """What holds two pods is first bought large; of the small machine it is known that it takes one volume."""
    pods = tuple(pod(f"s{n}", requests={"cpu": 20000}, volumes=(PodVolume(claim=f"p{n}"),)) for n in range(2))
    cheap = kind("2A100.88V", 2, 88, 480, "1.00")
    values: dict[str, Any] = {
        "offers": offers(A4, cheap),
        "policy": policy(pool(max=1), max_overshoot=3),
        "machines": (machine(OLD, A4), machine(SMALL, cheap)),
        "nodes": tuple(node(name, unschedulable=True) for name in (OLD, SMALL)),
        "csi_nodes": (CsiNode(name=OLD, limits={DRIVER: 4}), CsiNode(name=SMALL, limits={DRIVER: 1})),
    }
    rules = policy(pool(max=3), max_overshoot=3)
    decided = plan(volumes_world({}, **(values | {"policy": rules, "pods": pods})))
    launches = [action for action in decided.actions if isinstance(action, Launch)]
    by_type = [(launch.offer.type.name, len(launch.pods)) for launch in launches]
    assert by_type in ([("4A100.88V", 2)], [("2A100.88V", 1)])
