"""Machines of one location come to nothing, those of another work: whoever could have these has them, and soon."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.cloudthings import Offer
from controller.domain.machine import Machine, Phase
from controller.domain.policy import Headroom
from controller.domain.reason import Reason
from tests.fleet.fakes import A1, make_node
from tests.fleet.scene import POOL, Controller, World

HOUR = 3600.0


def sold(*places: str) -> list[Offer]:
    return [Offer(type=A1, location=where, market="on-demand") for where in places]


def world_of(*places: str, least: int = 0, **more: Any) -> World:
    world = World(pools=(replace(POOL, locations=places, min=least, max=6),), **more)
    world.account.offers = sold(*places)
    return world


def _suffer(world: World, controller: Controller, how: dict[str, str]) -> None:
    for instance in world.account.instances.values():
        fate = how.get(instance.location, "")
        if fate in ("never_join", "never_ready"):
            world.town.cut_off.add(instance.id)
        if fate == "never_ready" and instance.status == "running":
            node = make_node(instance.hostname, world.time.now, gpus=0, ready=False)
            world.town.nodes.setdefault(instance.hostname, node)
    for machine in list(controller.ledger.machines.values()):
        node = world.town.nodes.get(machine.name)
        late = machine.phase is Phase.READY and world.time.now > machine.ready_at + 120
        if how.get(machine.location) == "breaks" and late and node is not None and node.ready:
            world.town.cut_off.add(machine.instance_id)
            world.town.nodes[machine.name] = replace(node, ready=False, ready_since=world.time.now)


async def live(world: World, controller: Controller, hours: float, how: dict[str, str]) -> None:
    end = world.time.now + hours * HOUR
    while world.time.now < end:
        _suffer(world, controller, how)
        world.happen()
        _suffer(world, controller, how)
        await controller.look()
        await world.time.advance(60)


async def test_a_pod_whose_machines_never_got_ready_in_one_location_runs_in_another() -> None:
    world = world_of("FIN-01", "FIN-03")
    world.town.add_pod("train")
    controller = world.start()
    await live(world, controller, 24, {"FIN-01": "never_ready"})
    assert "default/train" not in world.town.pods  # it ran


async def test_a_pod_runs_in_another_location_that_was_sold_out_when_its_machines_failed() -> None:
    world = world_of("FIN-01", "FIN-03")
    world.account.offers = sold("FIN-01")
    world.town.add_pod("train")
    controller = world.start()
    await live(world, controller, 1.5, {"FIN-01": "never_join"})
    world.account.offers = sold("FIN-01", "FIN-03")
    await controller.fleet.refresh_catalogue()
    await live(world, controller, 24, {"FIN-01": "never_join"})
    assert "default/train" not in world.town.pods  # it ran


@pytest.mark.parametrize("what", ["min", "headroom"])
@pytest.mark.parametrize(
    "how", [{"FIN-01": "never_join", "FIN-02": "never_join"}, {"FIN-01": "breaks"}], ids=["join", "breaks"]
)
async def test_what_a_pool_keeps_is_tried_where_nothing_failed_yet(how: dict[str, str], what: str) -> None:
    entries = (Headroom(pool="a100", gpus=1),) if what == "headroom" else ()
    world = world_of("FIN-01", "FIN-02", "FIN-03", least=int(what == "min"), headroom=entries)
    controller = world.start()
    await live(world, controller, 30, how)
    working = {i.location for i in world.account.instances.values()} - how.keys()
    assert working, f"{len(world.account.orders)} orders, all of them in {sorted(how)}"


async def test_a_machine_that_works_ends_nothing_that_failed_in_another_location() -> None:
    world = world_of("FIN-01", "FIN-03")
    controller = world.start()
    await controller.look(decide=False)
    failed = Machine(
        intent="cccccccccc", name="home-a100-cccccccccc", pool="a100", instance_type=A1.name,
        location="FIN-01", market="on-demand", phase=Phase.BOOTING, intended_at=1.0,
    )  # fmt: skip
    controller.ledger.failures.tried_in_vain(failed, Reason.JOIN_DEADLINE, world.time.now, first=True)
    later = replace(failed, name="home-a100-dddddddddd", intended_at=world.time.now + 1)
    controller.ledger.failures.tried_in_vain(later, Reason.JOIN_DEADLINE, world.time.now + 2, first=True)
    up = replace(failed, location="FIN-03", name="home-a100-eeeeeeeeee")
    node = make_node(up.name, world.time.now)
    controller.fleet.lessons.learn(up, replace(up, phase=Phase.READY), node, world.time.now)
    assert controller.ledger.failures.in_vain["a100"].tries == 2
    here = replace(up, location="FIN-01", name="home-a100-ffffffffff")
    controller.fleet.lessons.learn(here, replace(here, phase=Phase.READY), node, world.time.now)
    assert not controller.ledger.failures.in_vain
