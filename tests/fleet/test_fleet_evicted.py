"""Machines that the cloud takes away before they were of use: what they were is left alone for ever longer."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain.cloudthings import Offer
from controller.domain.machine import Phase
from tests.fleet.scene import A1, POOL, Controller, World

HOUR = 3600.0


def spot(market: str = "spot_only", **of_pool: object) -> World:
    world = World(pools=(replace(POOL, market=market, **of_pool),))
    world.account.offers = [Offer(type=A1, location="FIN-01", market=name) for name in ("spot", "on-demand")]
    world.town._schedule = lambda now: None  # type: ignore[method-assign]  # the scheduler takes its time
    return world


async def evicting(world: World, controller: Controller, hours: float, phase: Phase) -> int:
    """Each spot machine is taken away as soon as it has come so far; how many were ordered."""
    end = world.time.now + hours * HOUR
    while world.time.now < end:
        await world.run(controller, 20, step=10)
        for machine in controller.ledger.machines.values():
            if machine.phase is phase and machine.market == "spot":
                world.account.end(machine.instance_id)
    return len(world.account.orders)


@pytest.mark.parametrize("phase", [Phase.ORDERED, Phase.READY])
async def test_a_market_that_takes_its_machines_away_before_their_pod_runs_is_tried_ever_more_seldom(
    phase: Phase,
) -> None:
    world = spot()
    world.town.add_pod()
    controller = world.start()
    assert 4 <= await evicting(world, controller, 3, phase) <= 9


async def test_the_other_market_is_taken_at_once_where_the_pool_allows_it() -> None:
    world = spot("prefer_spot")
    world.town.add_pod()
    controller = world.start()
    await evicting(world, controller, 0.2, Phase.READY)
    assert [order.market for order in world.account.orders] == ["spot", "on-demand"]


async def test_a_minimum_of_machines_that_vanish_is_not_filled_up_without_a_pause() -> None:
    world = spot(min=1)
    controller = world.start()
    assert 4 <= await evicting(world, controller, 3, Phase.READY) <= 9


async def test_a_machine_whose_pod_ran_for_long_is_replaced_at_once_when_it_is_taken_away() -> None:
    world = World(pools=(replace(POOL, market="spot_only"),))
    world.account.offers = [Offer(type=A1, location="FIN-01", market="spot")]
    world.town.work, world.town.not_ready = 10 * HOUR, 0.0
    world.town.add_pod()
    controller = world.start()
    machine = await world.until(controller, Phase.READY)
    await world.run(controller, 2 * HOUR, step=60)
    del world.town.pods["default/train"]
    world.account.end(machine.instance_id)
    world.town.add_pod("train-again")
    await world.run(controller, 60)
    assert len(world.account.orders) == 2
