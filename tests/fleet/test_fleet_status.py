"""The status is written when something changed, not because time went by."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controller.app.loop import Loop, Timing
from controller.app.server import Health
from controller.app.window import Window
from controller.cluster.protocol import ClusterError
from controller.domain import names
from controller.report.metrics import Metrics
from tests.fleet.fakes import Account
from tests.fleet.scene import Controller, World

NEVER = 1e9


def loop_of(world: World, controller: Controller) -> Loop:
    clock = world.time.clock
    reporter: Any = SimpleNamespace(planned=lambda plan: None, on_leftovers=None)

    async def nothing() -> None:
        return None

    return Loop(
        policy=world.policy, timing=Timing(), fleet=controller.fleet, view=controller.hands,
        writer=controller.hands, reporter=reporter, metrics=Metrics(), health=Health(clock, 60.0),
        window=Window(0.1, 1.0, clock), leads=lambda: controller.leads, clock=clock, monotonic=clock,
        sleep=world.time.sleep, sweep=nothing,
    )  # fmt: skip


def version(world: World) -> int:
    """How many times it was written."""
    return world.town.maps.get(names.STATUS_CONFIGMAP, ({}, 0))[1]


async def at_work(**of_policy: Any) -> tuple[World, Controller]:
    world = World(**({"cooldown": NEVER} | of_policy))
    world.town.work = NEVER
    world.town.add_pod("train")
    controller = world.start()
    await world.run(controller, 120)
    return world, controller


def calm(world: World, controller: Controller) -> None:
    """A pod that runs and nothing else."""


def strange(world: World, controller: Controller) -> None:
    controller.hands.account = Account(world.time, name="another")
    controller.hands.logins += 1
    world.town.add_pod("next")


def unknown(world: World, controller: Controller) -> None:
    """Our own account knows none of the machines whose Nodes are Ready."""
    world.account.instances.clear()
    world.town.add_pod("next")


def sold_out(world: World, controller: Controller) -> None:
    world.account.available = False
    world.town.add_pod("next")


def idle(world: World, controller: Controller) -> None:
    world.town.pods.clear()


def unmarkable(world: World, controller: Controller) -> None:
    """Idle, and its mark cannot be written."""
    world.town.pods.clear()

    async def refused(node: str, changes: Any) -> None:
        raise ClusterError("forbidden", "nodes is forbidden")

    controller.hands.annotate = refused  # type: ignore[method-assign]


@pytest.mark.parametrize("trouble", [calm, strange, unknown, sold_out, idle, unmarkable])
async def test_a_state_that_lasts_is_written_once(trouble: Any) -> None:
    world, controller = await at_work()
    loop = loop_of(world, controller)
    trouble(world, controller)
    counts = []
    for _ in range(40):
        world.happen()
        await controller.fleet.refresh_inventory()
        await loop.look()
        await loop.publish()
        await world.time.advance(5.0)
        counts.append(version(world))
    assert counts[-1] >= 1
    assert counts[-1] == counts[25], counts  # by then it is known what there is to know
