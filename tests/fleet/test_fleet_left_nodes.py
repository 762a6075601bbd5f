"""A Node that a machine left behind, and the ledger that knew of it was lost: it goes, and no other one does."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain import names
from tests.fleet.fakes import make_node
from tests.fleet.scene import Controller, World
from tests.fleet.test_fleet_removal import ready, retired


async def left_behind(*, ledger: bool = False) -> tuple[World, Controller, str]:
    """The machine is gone from the cloud, its controller died, and the ConfigMap was deleted."""
    world, controller, machine = await ready()
    await controller.die()
    world.account.end(machine.instance_id, "deleting")
    if not ledger:
        del world.town.maps[names.LEDGER_CONFIGMAP]
    return world, world.start(), machine.name


def silent(world: World, name: str) -> None:
    node = world.town.nodes[name]
    world.town.nodes[name] = replace(node, ready=False, ready_since=world.time.now)


async def test_the_node_of_a_machine_that_nobody_knows_any_more_is_deleted_once_it_is_silent_for_long() -> (
    None
):
    world, controller, name = await left_behind()
    await world.run(controller, 60)
    silent(world, name)
    await world.run(controller, 1780)
    assert name in world.town.nodes
    await world.run(controller, 120)
    assert name not in world.town.nodes
    assert controller.ledger.machines == {}
    assert [float(cost) for cost in controller.heard.of("removed")] == [0]


async def test_a_death_in_between_changes_nothing() -> None:
    world, controller, name = await left_behind()
    silent(world, name)
    for _ in range(6):
        await world.run(controller, 300)
        await controller.die()
        controller = world.start()
    await world.run(controller, 400)
    assert name not in world.town.nodes
    assert controller.ledger.machines == {}


async def test_it_stays_while_another_one_works_whose_machine_no_list_shows() -> None:
    """Then the lists are wrong."""
    world, controller, name = await left_behind()
    silent(world, name)
    labels = {names.LABEL_POOL: "a100"}
    world.town.nodes["home-a100-bbbbbbbbbb"] = make_node(
        "home-a100-bbbbbbbbbb", world.time.now, labels=labels
    )
    await world.run(controller, 2400)
    assert name in world.town.nodes
    assert not controller.hands.did("delete_node")


NOT_OURS: dict[str, dict[str, Any]] = {
    "no provider ID of ours": {"provider_id": "aws:///one"},
    "none at all": {"provider_id": ""},
    "that of another machine": {"provider_id": "verda://home-a100-bbbbbbbbbb"},
    "another cluster's name": {
        "name": "other-a100-cccccccccc",
        "provider_id": "verda://other-a100-cccccccccc",
    },
    "no name of ours": {"name": "worker-1", "provider_id": "verda://worker-1"},
    "of a cluster whose id begins like ours": {
        "name": "home-two-a100-cccccccccc",
        "provider_id": "verda://home-two-a100-cccccccccc",
    },
    "without the label of its pool": {"labels": {}},
    "silent not for long": {"ready_since": 0.0},
    "nobody knows since when": {"ready_since": None},
}


@pytest.mark.parametrize("what", NOT_OURS)
async def test_any_other_silent_node_is_left_alone(what: str) -> None:
    world = World()
    controller = world.start()
    values: dict[str, Any] = {
        "name": "home-a100-cccccccccc",
        "provider_id": "verda://home-a100-cccccccccc",
        "labels": {names.LABEL_POOL: "a100"},
        "ready_since": world.time.now - 9000,
        "ready": False,
    } | NOT_OURS[what]
    if values["ready_since"] == 0.0:
        values["ready_since"] = world.time.now - 1500
    name = str(values.pop("name"))
    world.town.nodes[name] = replace(make_node(name, world.time.now - 10000), **values)
    await world.run(controller, 300)
    assert name in world.town.nodes
    assert not controller.hands.did("delete_node")


async def test_a_machine_that_shows_up_again_while_its_node_was_about_to_go_is_adopted() -> None:
    world, controller, name = await left_behind()
    silent(world, name)
    key = next(iter(world.account.instances))
    await world.run(controller, 1830)
    world.account.set(key, status="running")
    world.account.ended.pop(key, None)
    await world.run(controller, 300)
    assert name in world.town.nodes
    assert [m.name for m in controller.ledger.machines.values()] == [name]


async def test_such_a_node_that_is_ours_by_all_of_them_goes() -> None:
    """So the ones above are left alone for what they lack."""
    world = World()
    controller = world.start()
    name = "home-a100-cccccccccc"
    node = make_node(name, world.time.now - 10000, labels={names.LABEL_POOL: "a100"})
    world.town.nodes[name] = replace(node, ready=False, ready_since=world.time.now - 9000)
    await world.run(controller, 300)
    assert name not in world.town.nodes


async def test_a_node_that_comes_again_after_its_machines_end_was_booked_is_deleted_once_it_is_silent_for_long() -> (
    None
):
    """Its kubelet registered once more while the machine shut down."""
    world, controller, machine = await ready()
    await retired(world, controller, machine, 120)
    assert machine.name not in world.town.nodes
    again = make_node(machine.name, world.time.now, labels={names.LABEL_POOL: "a100"})
    world.town.nodes[machine.name] = replace(again, provider_id=f"verda://{machine.name}")
    silent(world, machine.name)
    await world.run(controller, 3600, step=30)
    assert machine.name not in world.town.nodes
