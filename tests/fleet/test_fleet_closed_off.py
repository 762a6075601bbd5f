"""Taints of ours on machines that work: where the planner decides, those of cluster-autoscaler's time go."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain.kube import Taint
from controller.domain.machine import Phase
from controller.fleet.removal import CLOSED, HARD, UNSEEN
from tests.fleet.scene import World


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
