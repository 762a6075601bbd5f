"""A pod that the scheduler never binds, on machines that are ready and then lose their Nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from controller.domain.machine import Phase
from controller.domain.reason import Reason
from tests.fleet.fakes import Town
from tests.fleet.scene import Controller, World


class Stubborn(Town):
    """Its scheduler has a reason that nobody else knows."""

    def _schedule(self, now: float) -> None:
        """Binds nothing."""


async def _broken(world: World, controller: Controller, minutes: int) -> int:
    """Each machine that is ready loses its Node within a minute, and its kubelet registers no more."""
    broken = 0
    for _ in range(minutes):
        await world.run(controller, 60)
        for machine in list(controller.ledger.machines.values()):
            if machine.phase is Phase.READY and machine.name in world.town.nodes:
                world.town.cut_off.add(machine.instance_id)
                del world.town.nodes[machine.name]
                broken += 1
    return broken


def _stubborn() -> World:
    world = World()
    world.town.__class__ = Stubborn
    world.town.add_pod()
    return world


def _only(known: Mapping[str, Any]) -> Any:
    (found,) = known.values()
    return found


async def test_machines_that_were_ready_and_broke_before_their_pod_ran_are_not_bought_a_third_time_at_once() -> (
    None
):
    world = _stubborn()
    controller = world.start()
    assert await _broken(world, controller, 30) == len(world.account.orders) == 2
    assert len(_only(controller.ledger.failures.given_up)) == 2
    assert not controller.ledger.failures.disappointed
    told = controller.plan.pods["default/train"]
    assert told.code is Reason.JOIN_DEADLINE
    assert "nothing more is bought before" in told.message


async def test_they_are_tried_again_ever_more_seldom_although_each_becomes_usable_first() -> None:
    world = _stubborn()
    controller = world.start()
    # The third after an hour, the fourth two hours after that, then after four, eight, sixteen.
    for hours, bought in ((1.8, 3), (2.5, 4), (4.5, 5), (8.5, 6), (16.5, 7)):
        broken = await _broken(world, controller, round(hours * 60))
        assert (len(world.account.orders), broken > 0) == (bought, True)
        assert bought == 3 or world.most_alive == 1
        world.most_alive = 0


async def test_a_pod_whose_ready_machines_broke_twice_runs_once_the_trouble_is_over() -> None:
    world = _stubborn()
    controller = world.start()
    await _broken(world, controller, 30)
    await controller.die()
    world.town.__class__ = Town
    controller = world.start()
    await world.run(controller, 5400, step=30)
    assert len(world.account.orders) == 3
    assert not world.town.pods  # it ran
    assert not controller.ledger.failures.given_up
    assert not controller.ledger.failures.tried


async def test_a_machine_that_goes_idle_because_its_node_is_silent_broke_and_was_not_too_small() -> None:
    world = _stubborn()
    controller = world.start()
    for _ in range(60):
        await world.run(controller, 60)
        for machine in list(controller.ledger.machines.values()):
            if machine.phase is Phase.READY and machine.name in world.town.nodes:
                world.town.cut_off.add(machine.instance_id)
                silent = replace(world.town.nodes[machine.name], ready=False, ready_since=world.time.now)
                world.town.nodes[machine.name] = silent
    assert len(world.account.orders) == 2
    assert not controller.ledger.failures.disappointed
    assert set(_only(controller.ledger.failures.given_up).values()) == {Reason.READY_DEADLINE}
