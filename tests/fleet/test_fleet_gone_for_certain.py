"""The place of a machine in the limits is free when its end is proven, and one answer that does not know it is no proof."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace

from controller.domain.cloudthings import Instance, Offer
from controller.domain.machine import Machine, Phase
from controller.domain.reason import Reason
from tests.fleet.fakes import A1
from tests.fleet.scene import POOL, Controller, World
from tests.fleet.test_fleet_account import at_work, moved
from tests.fleet.test_fleet_removal import NEVER

A8 = replace(A1, name="8A100.176V", gpus=8, vcpus=176, memory_gib=960, price=Decimal("10.32"))
ONE_PLACE = replace(POOL, instance_types=(A1.name, A8.name), max=1)


async def going_while_a_larger_one_is_wanted() -> tuple[World, Controller, Machine]:
    world = World(cooldown=NEVER, pools=(ONE_PLACE,))
    world.account.offers.append(Offer(type=A8, location="FIN-01", market="on-demand"))
    controller = world.start()
    await controller.look(decide=False)
    controller.buy()
    machine = await world.until(controller, Phase.READY)
    await world.time.advance(30)
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    world.town.add_pod("large", gpus=8)
    return world, controller, machine


def not_known_once(controller: Controller, *, asked: bool) -> list[str]:
    """One answer by id does not know a machine that is there, and the next ones take their time, so that plans are made
    before them; `asked`: after its delete was accepted."""
    really = controller.hands.instance
    wrong: list[str] = []

    async def once_unknown(instance_id: str) -> Instance | None:
        if not wrong and bool(controller.hands.did("delete")) is asked:
            wrong.append(instance_id)
            return None
        if wrong:
            await controller.world.time.sleep(2)
        return await really(instance_id)

    controller.hands.instance = once_unknown  # type: ignore[method-assign]
    return wrong


@pytest.mark.parametrize("asked", [False, True], ids=["before the delete", "after it was accepted"])
async def test_one_answer_that_does_not_know_a_machine_never_gives_its_place_to_another(asked: bool) -> None:
    world, controller, machine = await going_while_a_larger_one_is_wanted()
    world.account.stuck_delete = asked
    wrong = not_known_once(controller, asked=asked)
    await world.run(controller, 30, step=1)
    assert wrong == [machine.instance_id]
    world.account.stuck_delete = False
    await world.run(controller, 120, step=1)
    assert [order.instance_type for order in world.account.orders] == [A1.name, A8.name]
    assert world.most_alive == 1


async def test_the_place_of_a_machine_that_is_gone_is_given_within_seconds() -> None:
    world, controller, _ = await going_while_a_larger_one_is_wanted()
    while world.account.alive():
        await world.run(controller, 1, step=1)
    await world.run(controller, 5, step=1)
    assert len(world.account.orders) == 2


async def test_a_machine_that_a_list_shows_again_while_it_is_asked_for_is_not_gone() -> None:
    world = World(cooldown=NEVER)
    controller = await at_work(world)
    hidden = moved(world.account)
    asked: list[str] = []

    def shown_again(instance_id: str) -> None:
        """After this answer, so that the next list has it."""
        if controller.only.phase is Phase.DELETING:
            asked.append(instance_id)

    controller.hands.on_call["instance"] = shown_again
    while not asked:
        await world.run(controller, 1, step=1)
    world.account.instances.update(hidden)
    await controller.look()
    assert controller.only.phase is not Phase.DELETING
    await world.run(controller, 10, step=1)
    assert controller.only.gone_at == 0.0


async def test_answers_that_do_not_know_it_for_a_second_give_its_place_to_nobody() -> None:
    """Its delete was accepted, without effect."""
    world, controller, _ = await going_while_a_larger_one_is_wanted()
    world.account.stuck_delete = True
    really, first = controller.hands.instance, list[float]()

    async def unknown_for_a_second(instance_id: str) -> Instance | None:
        await world.time.sleep(0.1)
        if controller.hands.did("delete"):
            first.append(world.time.now)
            if world.time.now - first[0] < 1.0:
                return None
        return await really(instance_id)

    controller.hands.instance = unknown_for_a_second  # type: ignore[method-assign]
    await world.run(controller, 30, step=1)
    world.account.stuck_delete = False
    await world.run(controller, 120, step=1)
    assert world.most_alive == 1


@pytest.mark.parametrize("asked", [False, True], ids=["before the delete", "after it was accepted"])
async def test_answers_of_which_every_other_one_does_not_know_it_hold_up_no_delete(asked: bool) -> None:
    """Two replicas, one of which lacks it."""
    world, controller, _ = await going_while_a_larger_one_is_wanted()
    world.account.stuck_delete = True
    really, calls = controller.hands.instance, list[str]()

    async def every_other(instance_id: str) -> Instance | None:
        if bool(controller.hands.did("delete")) is asked:
            calls.append(instance_id)
            if len(calls) % 2:
                return None
        return await really(instance_id)

    controller.hands.instance = every_other  # type: ignore[method-assign]
    await world.run(controller, 60, step=1)
    assert controller.hands.did("delete")
    assert len(calls) < 60
