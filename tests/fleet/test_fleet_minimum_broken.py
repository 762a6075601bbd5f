"""A pool's minimum, or its headroom, whose machines become usable and break soon: the next one is tried ever more seldom."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.machine import Phase
from controller.domain.policy import Headroom
from controller.domain.reason import Reason
from tests.fleet.scene import POOL, Controller, World


def falls_silent(world: World, name: str) -> None:
    world.town.nodes[name] = replace(world.town.nodes[name], ready=False, ready_since=world.time.now)


def loses_its_node(world: World, name: str) -> None:
    del world.town.nodes[name]


async def _broken(world: World, controller: Controller, hours: float, *, after: float, how: Any) -> int:
    """Each machine breaks so many seconds after it became usable; how many machines are ordered meanwhile."""
    before, end = len(world.account.orders), world.time.now + hours * 3600
    while world.time.now < end:
        await world.run(controller, 60, step=20)
        for machine in list(controller.ledger.machines.values()):
            node = world.town.nodes.get(machine.name)
            held = machine.phase is Phase.READY and world.time.now > machine.ready_at + after
            if held and node is not None and node.ready:
                world.town.cut_off.add(machine.instance_id)
                how(world, machine.name)
    return len(world.account.orders) - before


WANTED: dict[str, dict[str, Any]] = {
    "min": {"pools": (replace(POOL, min=1),)},
    "headroom": {"headroom": (Headroom(pool="a100", gpus=1),)},
}


@pytest.mark.parametrize("how", [falls_silent, loses_its_node])
@pytest.mark.parametrize("what", WANTED)
async def test_machines_that_become_usable_and_break_at_once_are_not_bought_one_after_the_other(
    what: str, how: Any
) -> None:
    world = World(**WANTED[what])
    controller = world.start()
    assert await _broken(world, controller, 24, after=60, how=how) <= 8
    known = controller.ledger.failures.in_vain
    assert [found.reason for found in known.values()] != []
    assert world.most_alive <= 2


async def test_it_is_told_why_the_minimum_is_not_kept_and_one_that_holds_ends_it() -> None:
    world = World(**WANTED["min"])
    controller = world.start()
    await _broken(world, controller, 3, after=60, how=falls_silent)
    told = controller.plan.pools["a100"]
    assert told.code is Reason.READY_DEADLINE
    assert "became usable and broke soon" in told.message
    await world.run(controller, 30 * 3600, step=60)
    assert len([m for m in controller.ledger.machines.values() if m.phase is Phase.READY]) == 1
    assert not controller.ledger.failures.in_vain


async def test_those_that_worked_for_hours_are_replaced_at_once() -> None:
    world = World(**WANTED["min"])
    controller = world.start()
    ordered = await _broken(world, controller, 24, after=2 * 3600, how=falls_silent)
    assert ordered >= 9
    assert not controller.ledger.failures.in_vain


async def test_a_death_in_between_forgets_nothing() -> None:
    world = World(**WANTED["min"])
    controller = world.start()
    total = 0
    for _ in range(12):
        total += await _broken(world, controller, 2, after=60, how=falls_silent)
        await controller.die()
        controller = world.start()
    assert total <= 8


async def test_of_a_minimum_of_two_one_machine_is_tried_until_it_holds() -> None:
    world = World(pools=(replace(POOL, min=2),))
    controller = world.start()
    ordered = await _broken(world, controller, 96, after=60, how=falls_silent)
    assert ordered <= 2 * 2 + 8  # both and again, then one after 1, 2, 4, 8, 16, 24 hours
