"""Machines that are not ours are never touched, and two clusters in one account never touch each other's."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.cloudthings import Instance
from controller.domain.machine import Phase
from controller.fleet.sightings import Sightings
from tests.fleet.fakes import A1, Town
from tests.fleet.scene import World, policy

INTENT = "aaaaaaaaaa"


def instance(world: World, **more: Any) -> Instance:
    values: dict[str, Any] = {
        "id": "x-1", "hostname": f"home-a100-{INTENT}", "description": "", "status": "running",
        "instance_type": A1.name, "location": "FIN-01", "market": "on-demand", "price": A1.price,
        "created_at": world.time.now - 5000,
    }  # fmt: skip
    return Instance(**(values | more))


FOREIGN: list[dict[str, Any]] = [
    {},  # the hostname alone
    {"hostname": "web-1", "description": f"gpuas home {INTENT}"},
    {"hostname": "web-1", "tags": (("gpuas-cluster", "home"), ("gpuas-intent", INTENT))},
    {"description": "gpuas home bbbbbbbbbb"},  # two marks that contradict each other
    {"tags": (("gpuas-cluster", "home"), ("gpuas-intent", "bbbbbbbbbb"))},
    {"description": f"gpuas home {INTENT}", "tags": (("gpuas-cluster", "other"),)},
    {"hostname": f"home-two-a100-{INTENT}", "description": f"gpuas home-two {INTENT}"},
    {"hostname": f"HOME-a100-{INTENT}", "description": f"gpuas home {INTENT} and more"},
]


@pytest.mark.parametrize("marks", FOREIGN)
async def test_what_is_not_provably_ours_is_neither_adopted_nor_deleted(marks: dict[str, Any]) -> None:
    world = World(cooldown=1.0)
    world.account.instances["x-1"] = instance(world, **marks)
    before = dict(world.account.instances)
    controller = world.start()
    await world.run(controller, 200)
    await controller.sweep()
    assert not controller.ledger.machines
    assert world.account.instances == before
    assert not controller.hands.did("delete", "taint", "evict", "delete_node")


@pytest.mark.parametrize("one", ["home", "a"])
async def test_two_clusters_in_one_account_with_the_same_pool_names_leave_each_other_alone(one: str) -> None:
    """The second id begins with the first, so that its hostnames parse as the first one's with another pool."""
    world = World()
    first = world.start(policy(one, cooldown=1e9))
    other_world = World()
    other_world.time, other_world.account = world.time, world.account
    other_world.town = Town(world.time, world.account)
    second = other_world.start(policy(f"{one}-a100", cooldown=5.0))
    world.town.add_pod("left")
    other_world.town.add_pod("right")
    world.town.work = 1e9
    for _ in range(60):
        world.happen()
        other_world.happen()
        await first.look()
        await second.look()
        await first.sweep()
        await second.sweep()
        await world.time.advance(5)
    mine = [i for i in world.account.alive() if dict(i.tags)["gpuas-cluster"] == one]
    assert [i.id for i in world.account.alive()] == [i.id for i in mine]
    assert len(mine) == 1
    assert len(world.account.orders) == 2
    assert first.only.phase is Phase.READY
    assert not second.ledger.machines
    deleted_by_first = [verb for verb, _ in first.hands.did("delete", "delete_volume")]
    assert deleted_by_first == []


def test_a_list_that_was_overtaken_by_a_later_one_is_dropped() -> None:
    from controller.domain.cloudthings import Inventory

    sightings = Sightings("home")
    later = Inventory(at=10.0)  # the clock was set back in between
    sightings.take(later, number=2)
    sightings.take(Inventory(at=20.0), number=1)
    assert sightings.inventory is later


async def test_a_node_of_a_stranger_with_our_providers_scheme_is_never_tainted() -> None:
    from tests.fleet.fakes import make_node

    world = World(cooldown=1.0)
    name = f"home-a100-{INTENT}"
    world.town.nodes[name] = make_node(name, world.time.now)
    controller = world.start()
    await world.run(controller, 200)
    assert not controller.hands.did("taint", "annotate", "delete_node", "evict")
