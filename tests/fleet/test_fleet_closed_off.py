"""Taints of ours on machines that work: where the planner decides, those of cluster-autoscaler's time go."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain.kube import Taint
from controller.domain.machine import Phase
from controller.fleet.removal import CLOSED, HARD, UNSEEN
from tests.fleet.scene import Controller, World


@pytest.mark.parametrize("left", [CLOSED, UNSEEN, HARD])
async def test_what_another_driver_closed_is_open_again(left: Taint) -> None:
    world = World(cooldown=3600.0)
    controller = world.start()
    await controller.look()
    controller.buy()
    machine = await world.until(controller, Phase.READY)
    node = world.town.nodes[machine.name]
    world.town.nodes[machine.name] = replace(node, taints=(*node.taints, left))
    await world.run(controller, 30)
    assert left not in world.town.nodes[machine.name].taints


async def test_a_machine_of_a_removed_pool_has_the_planners_own_taint() -> None:
    world = World(cooldown=3600.0)
    controller = world.start()
    await controller.look()
    controller.buy()
    machine = await world.until(controller, Phase.READY)
    node = world.town.nodes[machine.name]
    world.town.nodes[machine.name] = replace(node, taints=(*node.taints, CLOSED))
    controller.fleet.policy = replace(world.policy, pools=())
    world.town.add_pod("stays", node=machine.name)
    await world.run(controller, 10, step=1)
    assert HARD in world.town.nodes[machine.name].taints
    assert CLOSED not in world.town.nodes[machine.name].taints


def offer(world: World, name: str, gpus: int) -> None:
    """Its device plug-in says so from now on."""
    node = world.town.nodes[name]
    world.town.gpus = gpus > 0
    world.town.nodes[name] = replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": gpus})


async def at_work(world: World) -> tuple[Controller, str]:
    world.town.work = 1e9
    world.town.add_pod()
    controller = world.start()
    machine = await world.until(controller, Phase.READY)
    await world.run(controller, 60)
    assert world.town.pods["default/train"].node == machine.name
    return controller, machine.name


async def test_a_busy_machine_that_lost_gpus_for_long_takes_nothing_new_until_they_are_back() -> None:
    world = World()
    controller, name = await at_work(world)
    offer(world, name, 0)
    await world.run(controller, 590)
    assert HARD not in world.town.nodes[name].taints
    await world.run(controller, 60)
    assert HARD in world.town.nodes[name].taints
    assert "nvidia.com/gpu: 0 of 1" in controller.fleet.reports[name]
    assert controller.only.phase is Phase.READY
    assert world.town.pods["default/train"].node == name
    await controller.die()
    controller = world.start()
    await world.run(controller, 60)
    assert HARD in world.town.nodes[name].taints
    offer(world, name, 1)
    await world.run(controller, 30)
    assert HARD not in world.town.nodes[name].taints
    assert name not in controller.fleet.reports


async def test_it_is_replaced_once_it_is_idle() -> None:
    world = World()
    controller, name = await at_work(world)
    offer(world, name, 0)
    await world.run(controller, 1200)
    assert len(world.account.orders) == 1
    del world.town.pods["default/train"]
    await world.run(controller, 120)
    assert world.account.alive() == []


async def test_where_many_lost_gpus_at_once_none_is_closed() -> None:
    """The fault is elsewhere, and others would be bought for what the closed ones can still hold."""
    world = World()
    world.town.work = 1e9
    for number in range(3):
        world.town.add_pod(f"train-{number}")
    controller = world.start()
    await world.run(controller, 300)
    assert len(world.town.nodes) == 3
    for name in world.town.nodes:
        offer(world, name, 0)
    await world.run(controller, 1200, step=30)
    assert not any(HARD in node.taints for node in world.town.nodes.values())
