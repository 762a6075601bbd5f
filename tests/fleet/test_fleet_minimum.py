"""Machines that a pool's minimum asks for, and that never become of use: paid for less and less often."""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.plan import InVain
from controller.domain.reason import Reason
from tests.fleet.scene import POOL, World

HOUR = 3600.0


def kept(least: int = 1) -> World:
    return World(pools=(replace(POOL, min=least),))


async def test_a_minimum_that_never_joins_is_ordered_less_and_less_often() -> None:
    world = kept()
    world.town.joins = False
    controller = world.start()
    await world.run(controller, 6 * HOUR, step=60)
    assert len(world.account.orders) == 4  # at once, again, after an hour, after two more
    why = controller.plan.pools["a100"]
    assert why.code is Reason.JOIN_DEADLINE
    assert "next is ordered at" in why.message
    assert "the controller starts with other settings" in why.message
    await world.run(controller, 5 * 24 * HOUR, step=300)
    assert len(world.account.orders) <= 11  # in the end one a day
    assert world.most_alive == 1


async def test_a_larger_minimum_is_tried_with_one_machine_once_two_tries_were_in_vain() -> None:
    world = kept(3)
    world.town.joins = False
    controller = world.start()
    await world.run(controller, 6 * HOUR, step=60)
    assert len(world.account.orders) == 3 + 3 + 1 + 1


async def test_a_new_controller_does_not_begin_to_count_anew() -> None:
    world = kept()
    world.town.joins = False
    for _ in range(6):
        controller = world.start()
        await world.run(controller, HOUR, step=60)
        await controller.die()
    assert len(world.account.orders) == 4


async def test_a_machine_that_becomes_usable_ends_the_count_and_the_minimum_is_filled() -> None:
    world = kept(2)
    world.town.joins = False
    controller = world.start()
    await world.run(controller, 1.5 * HOUR, step=60)
    assert controller.plan.pools
    ordered = len(world.account.orders)
    world.town.joins = True
    await world.run(controller, HOUR, step=30)
    assert len(world.account.orders) == ordered + 2
    assert len(world.account.alive()) == 2
    assert not controller.ledger.failures.in_vain
    assert not controller.plan.pools


async def test_a_failure_at_a_moment_to_come_holds_nothing_up() -> None:
    world = kept()
    controller = world.start()
    await controller.look(decide=False)
    controller.ledger.failures.in_vain["a100"] = InVain(tries=9, last=1e300, reason=Reason.JOIN_DEADLINE)
    await world.run(controller, 120)
    assert len(world.account.orders) == 1


async def test_a_mended_token_ends_the_pause_at_the_next_start_and_a_start_alone_does_not() -> None:
    world = kept()
    world.town.joins = False
    controller = world.start()
    await world.run(controller, 3 * HOUR, step=60)
    await controller.die()
    ordered = len(world.account.orders)
    world.town.joins = True
    controller = world.start()
    await world.run(controller, 60)
    assert len(world.account.orders) == ordered
    await controller.die()
    world.town.secrets["join"] = "19"
    controller = world.start()
    await world.run(controller, HOUR, step=30)
    assert len(world.account.orders) == ordered + 1
    assert not controller.plan.pools


async def test_the_machine_of_a_waiting_pod_ends_the_pause_as_well() -> None:
    world = kept()
    world.town.joins = False
    controller = world.start()
    await world.run(controller, 3 * HOUR, step=60)
    assert controller.plan.pools
    world.town.joins = True
    world.town.add_pod()
    await world.run(controller, 600, step=10)
    assert not controller.ledger.failures.in_vain
    assert not controller.plan.pools
