"""What the cloud does not show and the cluster does: nothing of it is taken away, and somebody is told."""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.machine import Phase
from tests.fleet.scene import Controller, World
from tests.fleet.test_fleet_launch import bought
from tests.fleet.test_fleet_removal import ready


async def hidden_order(world: World) -> Controller:
    """It was carried out, and no list shows it: it was believed absent before it joined."""
    world.town.joins = False
    controller = await bought(world, create="lost")
    world.account.list_lag = 1e9
    await world.run(controller, 120)
    assert controller.only.phase is Phase.TOMBSTONE
    world.town.joins = True
    await world.run(controller, 10)
    assert "its Node is Ready" in controller.fleet.reports[controller.only.name]
    return controller


async def test_the_disk_of_a_machine_that_came_into_sight_between_two_lists_stays() -> None:
    """Its Node is silent for reasons of its own, so only the cloud can say that it is there."""
    world, controller, _ = await ready()
    world.town.not_ready = 0
    here, disks = dict(world.account.instances), dict(world.account.volumes)
    lists: list[str] = []

    def shown_again(_: str) -> None:
        lists.append("")
        if len(lists) == 2:
            world.account.instances.update(here)
            world.account.volumes.update(disks)

    controller.hands.on_call["volumes"] = shown_again
    world.account.instances.clear()
    world.account.volumes.clear()
    for name in world.town.nodes:
        world.town.nodes[name] = replace(world.town.nodes[name], ready=False)
    await world.run(controller, 200)
    assert len(lists) > 1
    assert not [target for verb, target in controller.hands.calls if verb == "delete_volume"]


async def test_disks_that_every_other_list_hides_are_deleted_all_the_same() -> None:
    world, controller, _ = await ready()
    world.town.not_ready = 0
    lists, disks = 0, dict(world.account.volumes)

    def every_other(_: str) -> None:
        nonlocal lists
        lists += 1
        hidden = lists % 2 == 1 and "delete_volume" not in {verb for verb, _ in controller.hands.calls}
        world.account.volumes = {} if hidden else disks

    world.account.instances.clear()
    for name in world.town.nodes:
        world.town.nodes[name] = replace(world.town.nodes[name], ready=False)
    controller.hands.on_call["volumes"] = every_other
    await world.run(controller, 600)
    assert controller.hands.did("delete_volume")
    assert lists < 60


async def test_a_sweep_leaves_the_attached_disk_of_a_machine_whose_node_is_ready() -> None:
    world = World(cooldown=1e6)
    controller = await hidden_order(world)
    world.account.instances.clear()  # nor is it known by its id
    found = await controller.sweep()
    assert not controller.hands.did("delete_volume")
    assert [words for words in found.doubtful if "is Ready" in words]


async def test_an_attached_disk_stays_whose_node_was_silent_for_one_sweep_alone() -> None:
    """The cloud shows its machine to nobody, and pods run there all the while."""
    world = World(cooldown=1e6)
    controller = await hidden_order(world)
    world.account.instances.clear()
    name = controller.only.name
    for lit in (True, False, True, False, True):
        world.town.nodes[name] = replace(world.town.nodes[name], ready=lit)
        await controller.sweep()
    assert not controller.hands.did("delete_volume")


async def test_an_order_that_no_list_shows_and_whose_node_is_ready_is_told_beside_machines_that_are_known() -> (
    None
):
    world, controller, machine = await ready()
    controller.hands.faults["create"] = ["lost"]
    controller.buy()
    world.account.list_lag = 1e9
    await world.run(controller, 600)
    (other,) = [m for m in controller.ledger.machines.values() if m.name != machine.name]
    assert other.phase is Phase.INTENDED
    assert "its Node is Ready" in controller.fleet.reports[other.name]


async def test_a_machine_that_nobody_lists_is_told_for_as_long_as_its_node_is_ready() -> None:
    world = World(cooldown=1e6)
    controller = await hidden_order(world)
    await world.time.advance(2 * 86400)
    await world.run(controller, 10)
    assert "its Node is Ready" in controller.fleet.reports[controller.only.name]
