"""A machine whose kubelet registers under another name than ours: work there is work, whatever the Node is called."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.machine import Phase
from controller.fleet.removal import CalledOff
from tests.fleet.fakes import make_node, make_pod
from tests.fleet.scene import World


async def test_a_machine_is_not_deleted_under_work_on_a_node_that_claims_it_under_another_name() -> None:
    world = World()
    world.town.joins = False
    world.town.work = 1e9
    world.town.add_pod()
    controller = world.start()
    machine = await world.until(controller, Phase.BOOTING)
    there = replace(make_node("ip-10-0-0-7", world.time.now), provider_id=names.provider_id(machine.name))
    world.town.nodes[there.name] = there
    await world.run(controller, 3600, step=30)
    assert world.town.pods["default/train"].node == "ip-10-0-0-7"
    assert len(world.account.alive()) == 1
    assert machine.name in controller.fleet.reports
    before = len(controller.hands.did("write_config_map"))
    await world.run(controller, 600, step=30)
    assert (
        len(controller.hands.did("write_config_map")) == before
    )  # nothing to write as long as the same keeps it
    del world.town.pods["default/train"]
    await world.run(controller, 600, step=30)
    assert world.account.alive() == []


async def test_a_machine_that_two_nodes_claim_is_not_deleted_under_the_work_on_the_other_one() -> None:
    world = World()
    world.town.work = 1e9
    controller = world.start()
    await controller.look(decide=False)
    controller.buy()
    machine = await world.until(controller, Phase.READY)
    other = replace(make_node("ip-10-0-0-7", world.time.now), provider_id=f"verda://{machine.instance_id}")
    world.town.nodes[other.name] = other
    busy = make_pod("train", world.time.now, node=other.name)
    world.town.pods[busy.key] = busy
    with pytest.raises(CalledOff) as stop:
        await controller.flights._leaving._removal.last_look(controller.fleet.policy, machine)
    assert busy.key in stop.value.why.message
    del world.town.pods[busy.key]
    await controller.flights._leaving._removal.last_look(controller.fleet.policy, machine)
