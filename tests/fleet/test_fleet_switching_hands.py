"""Somebody has hands in a machine, or marks on its Node: it is not called meanwhile, and nobody else is called in its place."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.kube import Node, Taint
from controller.domain.switching import Power
from tests.fleet.power import Cabinet, Operator, switch


def mark(world: Cabinet, name: str, key: str) -> None:
    node = world.town.nodes[name]
    taints = (*node.taints, Taint(key=key, effect="NoSchedule"))
    world.town.nodes[name] = replace(node, taints=taints)


def hold(world: Cabinet, operator: Operator, how: str) -> None:
    policy, node = operator.fleet.policy, world.town.nodes["w1"]
    changes: dict[str, Node] = {
        "cordon": replace(node, unschedulable=True),
        "node": replace(node, annotations={**node.annotations, names.PAUSE: "all"}),
    }
    if how == "settings":
        operator.fleet.policy = replace(policy, pause="all")
    elif how == "switch":
        operator.fleet.policy = replace(policy, switches=(replace(policy.switches[0], pause="all"),))
    else:
        world.town.nodes["w1"] = changes[how]


@pytest.mark.parametrize("how", ["settings", "switch", "node", "cordon"])
async def test_a_call_to_switch_on_is_not_repeated_while_somebody_works_on_the_machine(how: str) -> None:
    world = Cabinet(switch("w1", tries=5, retry_first=10.0))
    world.room.add("w1")
    world.room.usually = "unheard"
    operator = world.begin()
    await world.run(operator, 20)
    world.town.work = 1e6
    world.town.add_pod("train")
    while not world.room.calls:
        await world.run(operator, 1, step=1.0)
    hold(world, operator, how)
    world.room.usually = "ok"
    await world.run(operator, 300)
    assert len(world.room.calls) == 1


@pytest.mark.parametrize("again", [True, False])
async def test_a_taint_that_a_machine_brings_along_at_its_first_boot_switches_no_second_one_on(
    again: bool,
) -> None:
    world = Cabinet(switch("w1", 2), switch("w2", 2))
    for name in ("w1", "w2"):
        world.room.add(name, 2, node=False)
    operator = world.begin()
    await world.run(operator, 20)
    world.town.work = 1e6
    pod = world.town.add_pod("train")
    while "w1" not in world.town.nodes:
        await world.run(operator, 5)
    mark(world, "w1", "example.com/starting")
    if again:
        del world.town.pods[pod.key]
    world.town.add_pod("again")
    await world.run(operator, 10)
    assert operator.power("w1") is Power.RISING
    assert len(world.room.wishes(True)) == 1


async def test_a_taint_on_a_machine_that_nobody_could_call_yet_holds_it_back() -> None:
    world = Cabinet(switch("w1", 1, tries=1000))
    world.room.add("w1", power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.OFF)
    await world.run(operator, 700)
    world.room.usually = "away"
    world.town.work = 1e6
    world.town.add_pod("train")
    await world.run(operator, 30)
    assert operator.record("w1").unheard
    mark(world, "w1", "example.com/broken")
    await world.run(operator, 60)
    world.room.usually = "ok"
    await world.run(operator, 300)
    assert world.room.boxes["w1"].power == "off"


async def test_the_node_of_a_machine_whose_status_endpoint_is_doubted_is_kept_each_time() -> None:
    async def says_on(_name: str) -> str:
        return "on"

    world = Cabinet(switch("w1", asked=True, off_within=120.0, delete_node=True))
    world.room.add("w1", power="on")
    operator: Any = world.begin()
    operator.means.endpoints.ask = says_on
    await world.wait_for(operator, "w1", Power.OFF)
    await world.run(operator, 1200)
    assert "w1" in world.town.nodes
    world.town.work = 60
    world.town.add_pod("train")
    await world.wait_for(operator, "w1", Power.ON)
    await world.wait_for(operator, "w1", Power.OFF)
    await world.run(operator, 1200)
    assert "w1" in world.town.nodes
