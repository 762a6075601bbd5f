"""Machines that were of use and are not for a while: nobody's repair is disturbed, and no single word is believed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.machine import Phase
from controller.domain.policy import Headroom
from tests.fleet.scene import POOL, Controller, World
from tests.fleet.test_fleet_removal import ready


def pause(world: World, controller: Controller, name: str, how: str, value: str) -> None:
    policy = controller.fleet.policy
    if how == "policy":
        controller.fleet.policy = replace(policy, pause=value)
    elif how == "pool":
        controller.fleet.policy = replace(policy, pools=tuple(replace(p, pause=value) for p in policy.pools))
    else:
        node = world.town.nodes[name]
        world.town.nodes[name] = replace(node, annotations={**node.annotations, names.PAUSE: value})


def takes_gpus_away(world: World, name: str) -> None:
    world.town.gpus = False
    node = world.town.nodes[name]
    left = {key: units for key, units in node.allocatable.items() if "gpu" not in key}
    world.town.nodes[name] = replace(node, allocatable=left)


@pytest.mark.parametrize("how", ["policy", "pool", "node"])
async def test_a_pause_keeps_an_idle_machine_whose_driver_is_being_repaired(how: str) -> None:
    world, controller, machine = await ready()
    pause(world, controller, machine.name, how, "all")
    takes_gpus_away(world, machine.name)
    await world.run(controller, 1500, step=10)
    assert controller.only.phase is Phase.READY
    pause(world, controller, machine.name, how, "")
    await world.run(controller, 600, step=10)
    assert world.account.alive() == []


@pytest.mark.parametrize("how", ["policy", "pool"])
async def test_a_pause_keeps_an_idle_machine_whose_node_was_deleted(how: str) -> None:
    world, controller, machine = await ready()
    pause(world, controller, machine.name, how, "scale-down")
    world.town.joins = False
    del world.town.nodes[machine.name]
    await world.run(controller, 1500, step=10)
    assert world.account.alive() != []


async def test_a_pause_that_begins_while_a_machine_without_gpus_is_drained_is_waited_for() -> None:
    world, controller, machine = await ready()
    world.town.add_pod("web", gpus=0)
    web = world.town.pods["default/web"]
    keeps = {names.DO_NOT_DISRUPT: "true"}
    shape = replace(web.shape, owner_kind="ReplicaSet", annotations=keeps)
    world.town.pods["default/web"] = replace(web, node=machine.name, phase="Running", shape=shape)
    takes_gpus_away(world, machine.name)
    await world.run(controller, 60)
    world.town.pods.clear()
    pause(world, controller, machine.name, "policy", "all")
    await world.run(controller, 1500, step=10)
    assert world.account.alive() != []


@pytest.mark.parametrize("works", [True, False])
async def test_one_list_that_says_error_of_a_machine_that_was_of_use_condemns_it_not(works: bool) -> None:
    world, controller, machine = await ready()
    if works:
        world.town.work = 1e9
        world.town.add_pod()
        await world.run(controller, 60)
    world.account.set(machine.instance_id, status="error")
    await world.run(controller, 6, step=5)
    world.account.set(machine.instance_id, status="running")
    await world.run(controller, 600, step=20)
    assert controller.only.phase is Phase.READY
    assert not world.town.nodes[machine.name].has_taint(names.TAINT_DRAINING, "NoSchedule")


async def test_headroom_in_doubt_is_tried_with_one_machine_at_a_time() -> None:
    world = World(pools=(replace(POOL, max=10),), headroom=(Headroom(pool="a100", gpus=4),))
    world.town.joins = False
    controller = world.start()
    await world.run(controller, 6 * 3600, step=60)
    assert 8 <= len(world.account.orders) <= 8 + 3


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("outage", [300, 1800])
async def test_a_machine_that_could_not_join_while_nothing_was_seen_is_given_time_afterwards(
    outage: int, again: bool
) -> None:
    """Its kubelet was as blind as the controller, and tries again a little later."""
    world = World(pools=(POOL,), cooldown=600.0)
    world.town.add_pod("train")
    world.town.joins = False
    controller = world.start()
    await world.run(controller, 25)
    controller.hands.old = lambda: "nothing was heard of nodes for 180 s, so nothing is decided"  # type: ignore[method-assign]
    for _ in range(outage // 10):  # the loop goes on, and decides nothing
        world.happen()
        await controller.look(decide=False)
        await world.time.advance(10)
    controller.hands.old = lambda: ""  # type: ignore[method-assign]
    await world.run(controller, 20)
    if again:  # for a moment, once more
        controller.hands.old = lambda: "nothing was heard of pods for 180 s, so nothing is decided"  # type: ignore[method-assign]
        await controller.look(decide=False)
        controller.hands.old = lambda: ""  # type: ignore[method-assign]
    await world.run(controller, 60)
    world.town.joins = True
    await world.run(controller, 300)
    assert len(world.account.orders) == 1
    assert not controller.ledger.failures.in_vain


async def nobody_leads(world: World, controller: Controller, how: str, seconds: int) -> Controller:
    if how == "lease":
        await controller.lose_lease()
    else:
        await controller.die()
    for _ in range(seconds // 10):
        world.happen()
        await controller.look(decide=False)
        await world.time.advance(10)
    controller.leads = True
    return controller if how == "lease" else world.start()


@pytest.mark.parametrize("how", ["lease", "restart"])
async def test_a_machine_that_could_not_join_while_nobody_led_is_given_time_afterwards(how: str) -> None:
    """Where the API server is away nobody holds the lease either, so nobody looks."""
    world = World(pools=(POOL,), cooldown=600.0)
    world.town.add_pod("train")
    world.town.joins = False
    controller = world.start()
    await world.run(controller, 25)
    controller = await nobody_leads(world, controller, how, 1800)
    await world.run(controller, 80)
    world.town.joins = True
    await world.run(controller, 300)
    assert len(world.account.orders) == 1
    assert not controller.ledger.failures.in_vain


async def test_a_machine_whose_time_is_over_soon_after_an_outage_is_given_as_much_more() -> None:
    world = World(pools=(POOL,), cooldown=600.0)
    world.town.add_pod("train")
    world.town.joins = False
    controller = world.start()
    machine = await world.until(controller, Phase.BOOTING)
    left = machine.running_at + controller.fleet.policy.deadlines.join - world.time.now
    controller = await nobody_leads(world, controller, "lease", int(left) - 20)
    await world.run(controller, 100)
    world.town.joins = True
    await world.run(controller, 100)
    assert controller.only.phase is Phase.READY
    assert len(world.account.orders) == 1


@pytest.mark.parametrize("how", ["lease", "restart"])
async def test_a_quick_change_of_leaders_gives_a_machine_that_never_joins_no_more_time(how: str) -> None:
    world = World(pools=(POOL,), cooldown=600.0)
    world.town.add_pod("train")
    world.town.joins = False
    controller = world.start()
    machine = await world.until(controller, Phase.BOOTING)
    end = machine.running_at + controller.fleet.policy.deadlines.join
    await world.run(controller, end - world.time.now - 20)
    controller = await nobody_leads(world, controller, how, 30)
    await world.run(controller, 20)
    assert "booting>deleting" in controller.heard.of("phase")
