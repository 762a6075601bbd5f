"""Lists are believed once each and in the order in which they were asked for; one answer by id is no proof."""

from __future__ import annotations

import asyncio
import contextlib

from controller.domain.machine import Phase
from controller.fleet.tasks import NotYet
from tests.fleet.scene import World
from tests.fleet.test_fleet_removal import ready


async def test_one_list_that_is_looked_at_often_counts_once() -> None:
    world = World()
    controller = world.start()
    await controller.look(decide=False)
    controller.hands.faults["create"] = ["never"]
    controller.buy()
    await world.time.advance(5)
    await controller.fleet.refresh_inventory()
    for _ in range(5):
        await controller.fleet.advance()
    assert controller.only.absent_lists == 1


async def test_a_list_that_is_overtaken_is_not_believed() -> None:
    world, controller, _ = await ready()
    gate = controller.hands.gates["inventory"] = asyncio.Event()
    slow = asyncio.ensure_future(controller.fleet.refresh_inventory())
    await world.time.settle()
    del controller.hands.gates["inventory"]
    world.time.now += 30
    await controller.fleet.refresh_inventory()
    later = controller.fleet.inventory.at
    gate.set()
    await slow
    assert controller.fleet.inventory.at == later


async def test_one_answer_that_does_not_know_a_machine_costs_it_no_node() -> None:
    world, controller, machine = await ready()
    controller.ledger.change(machine.intent, phase=Phase.DELETING, gone_at=world.time.now)
    world.town.lose(machine.name)
    with contextlib.suppress(NotYet):
        await controller.flights._leaving.free_node(machine.intent)
    assert machine.name in world.town.nodes
