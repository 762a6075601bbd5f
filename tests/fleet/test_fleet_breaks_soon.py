"""Machines that become usable and break soon, in stories that no pod remembers: they are not bought one after the other."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain.machine import Phase
from controller.domain.reason import Reason
from controller.fleet.failures import Failures
from tests.fleet.scene import POOL, Controller, World
from tests.fleet.test_fleet_minimum_broken import falls_silent
from tests.planning.worlds import NOW
from tests.planning.worlds import machine as a_machine


async def made_anew(
    world: World, controller: Controller, hours: float, after: float, step: float = 20.0
) -> None:
    """The pod comes to run, its machine breaks, and its owner makes another pod."""
    made, broke = 0, dict[str, float]()
    end = world.time.now + hours * 3600
    while world.time.now < end:
        world.happen()
        await controller.look()
        await world.time.advance(step)
        now = world.time.now
        machines = {machine.name: machine for machine in controller.ledger.machines.values()}
        for pod in list(world.town.pods.values()):
            machine, node = machines.get(pod.node), world.town.nodes.get(pod.node)
            up = machine is not None and node is not None and node.ready and machine.phase is Phase.READY
            if up and machine is not None and now > machine.ready_at + after:
                world.town.cut_off.add(machine.instance_id)
                falls_silent(world, machine.name)
                broke[machine.name] = now
            if pod.node and now > broke.get(pod.node, now) + 300:
                del world.town.pods[pod.key]
                made += 1
                world.town.add_pod(f"train-{made}")


def scene() -> World:
    world = World(pools=(POOL,), cooldown=600.0)
    world.town.work = 1e9
    world.town.add_pod("train-0")
    return world


@pytest.mark.parametrize("after", [0.0, 60.0, 300.0])
async def test_pods_that_are_made_anew_get_no_machine_after_the_other_that_breaks_soon(after: float) -> None:
    world = scene()
    controller = world.start()
    await made_anew(world, controller, 24, after)
    assert len(world.account.orders) <= 8
    (told,) = controller.plan.pods.values()
    assert told.code is Reason.READY_DEADLINE
    assert "became usable and broke soon" in told.message


async def test_of_many_such_pods_one_at_a_time_finds_out_whether_a_machine_holds() -> None:
    """One that has become usable and has not held for long is still the try: the others followed as soon as it was ready."""
    world = World(pools=(replace(POOL, max=100),), cooldown=600.0)
    world.town.work = 1e9
    for number in range(4):
        world.town.add_pod(f"first-{number}")
    controller = world.start()
    await made_anew(world, controller, 12, 60.0, 40.0)
    assert len(world.account.orders) <= 3 * 4 + 5


async def test_machines_that_worked_for_hours_are_replaced_at_once_however_often_they_break() -> None:
    world = scene()
    controller = world.start()
    await made_anew(world, controller, 24, 7200.0)
    assert len(world.account.orders) >= 9
    assert not controller.ledger.failures.in_vain


async def test_one_that_served_and_went_in_order_ends_the_doubt() -> None:
    world = scene()
    controller = world.start()
    await made_anew(world, controller, 2, 60.0)
    assert controller.ledger.failures.in_vain
    world.town.work = 300.0
    await world.run(controller, 6 * 3600, step=30)
    assert not world.town.pods  # it ran
    assert not controller.ledger.failures.in_vain


@pytest.mark.parametrize(("came_up", "ended"), [(9.0, True), (50.0, False)])
def test_what_holds_ends_what_broke_for_a_pod_before_it_came_up(came_up: float, ended: bool) -> None:
    """Another pod would be bought for at once."""
    hour, failures = 3600.0, Failures(lambda: None)
    for number in range(2):
        at = NOW - (20 - 10 * number) * hour
        broken = a_machine(f"home-a100-broken{number}", intended_at=at - 900, ready_at=at - 300)
        failures.broke_soon(broken, Reason.READY_DEADLINE, at, at, first=True)
        failures.give_up("default/train uid", broken.name, Reason.READY_DEADLINE)
        failures.broke(broken, at, at)
    failures.holds(a_machine("home-a100-fine", ready_at=NOW - came_up * hour))
    assert bool(failures.tried) is not ended
    assert bool(failures.given_up) is not ended


async def test_one_that_held_for_long_ends_nothing_that_broke_after_it_came_up() -> None:
    world = World(pools=(replace(POOL, min=2),))
    controller = world.start()
    await world.run(controller, 3 * 3600, step=60)
    keep = next(iter(controller.ledger.machines.values())).name
    end = world.time.now + 24 * 3600
    while world.time.now < end:
        await world.run(controller, 60, step=20)
        for machine in list(controller.ledger.machines.values()):
            node = world.town.nodes.get(machine.name)
            up = machine.phase is Phase.READY and node is not None and node.ready
            if up and machine.name != keep and world.time.now > machine.ready_at + 60:
                world.town.cut_off.add(machine.instance_id)
                falls_silent(world, machine.name)
    assert len(world.account.orders) <= 10


async def test_a_clock_that_was_ahead_for_hours_ends_no_pause() -> None:
    world = World(pools=(POOL,))
    world.town.joins = False
    world.town.add_pod("train")
    controller = world.start()
    await world.run(controller, 1800, step=20)
    real = world.time.now
    world.time.now += 10 * 86400
    await world.run(controller, 2 * 3600, step=30)
    back = real + 2 * 3600
    world.time.back_to(back)
    for key, one in list(world.account.instances.items()):
        world.account.set(key, created_at=min(one.created_at, back))
    before = len(world.account.orders)
    await world.run(controller, 24 * 3600, step=30)
    assert len(world.account.orders) - before <= 8


@pytest.mark.parametrize(("alive", "dead"), [(240, 300), (280, 120), (200, 160)])
async def test_a_machine_that_never_joins_is_given_up_by_a_controller_that_dies_again_and_again(
    alive: int, dead: int
) -> None:
    world = World(pools=(POOL,), cooldown=600.0)
    world.town.add_pod("train")
    world.town.joins = False
    controller = world.start()
    await world.run(controller, 60, step=10)
    end, first = world.time.now + 6 * 3600, True
    while world.time.now < end:
        await controller.die()
        await world.time.advance(1500 if first else dead)
        first = False
        controller = world.start()
        await world.run(controller, alive, step=10)
    assert len(world.account.orders) > 1


async def test_the_node_of_a_second_instance_is_no_ghost() -> None:
    world = World(cooldown=1e9)
    controller = world.start()
    world.town.work = 1e9
    world.town.add_pod("train")
    machine = await world.until(controller, Phase.READY)
    await world.run(controller, 60)
    world.account.order(world.account.orders[0], name="i-second")
    world.account.set("i-second", status="running")
    await world.run(controller, 60)
    world.account.end(machine.instance_id, "discontinued")
    world.town.cut_off.add("i-second")
    world.town.nodes[machine.name] = replace(world.town.nodes[machine.name], ready=False)
    await world.run(controller, 20)
    assert machine.name in world.town.nodes
