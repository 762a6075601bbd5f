"""A pause stops a removal that has begun, at whatever step it is, and the machine works on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.machine import Phase
from controller.domain.reason import Reason
from tests.fleet.fakes import make_node, make_pod
from tests.fleet.scene import Controller, World

Pause = Callable[[World, Controller, str, str], None]
STEPS = ("soft taint", "hard taint", "annotate", "evict", "list_pods_on")


async def with_an_idle_machine() -> tuple[World, Controller, str]:
    world = World()
    world.town.add_pod()
    controller = world.start()
    machine = await world.until(controller, Phase.READY)
    world.town.nodes["cpu-1"] = make_node("cpu-1", world.time.now - 5000, gpus=0)
    web = make_pod("web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[web.key] = web
    return world, controller, machine.name


def _on_the_node(world: World, controller: Controller, name: str, wish: str) -> None:
    node = world.town.nodes[name]
    world.town.nodes[name] = replace(node, annotations={**node.annotations, names.PAUSE: wish})


def _everywhere(world: World, controller: Controller, name: str, wish: str) -> None:
    controller.fleet.policy = replace(world.policy, pause=wish)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("pause", [_on_the_node, _everywhere])
async def test_a_pause_that_comes_in_the_middle_of_a_removal_keeps_the_machine(
    step: str, pause: object
) -> None:
    world, controller, name = await with_an_idle_machine()
    begun: list[Phase] = []

    def happens(_: str) -> None:
        machine = controller.only
        due = Phase.READY if step == "soft taint" else Phase.DRAINING
        if step == "list_pods_on":
            due = Phase.DELETING
        if not begun and machine.phase is due and machine.ready_at and "default/train" not in world.town.pods:
            begun.append(due)
            pause(world, controller, name, "scale-down")

    controller.hands.on_call["taint" if step.endswith("taint") else step] = happens
    await world.run(controller, 900)
    assert begun
    assert len(world.account.alive()) == 1
    assert controller.only.phase is Phase.READY
    assert not any(taint.effect == "NoSchedule" for taint in world.town.nodes[name].taints)
    assert controller.plan.machines[name].code is Reason.PAUSED
    pause(world, controller, name, "")
    await world.run(controller, 300)
    assert world.account.alive() == []


async def test_a_new_controller_goes_on_with_no_removal_that_was_paused_meanwhile() -> None:
    world, controller, _ = await with_an_idle_machine()
    await world.until(controller, Phase.DRAINING)
    await controller.die()
    world.policy = replace(world.policy, pause="all")
    controller = world.start()
    await world.run(controller, 300)
    assert controller.only.phase is Phase.READY
    assert len(world.account.alive()) == 1


async def test_a_delete_that_the_cloud_has_accepted_is_not_taken_back_by_a_pause() -> None:
    world, controller, _ = await with_an_idle_machine()
    world.account.stuck_delete = True
    while not (controller.ledger.machines and controller.only.delete_at):
        await world.run(controller, 5)
    controller.fleet.policy = replace(world.policy, pause="all")
    await world.run(controller, 300)
    world.account.stuck_delete = False
    await world.run(controller, 300)
    assert world.account.alive() == []
