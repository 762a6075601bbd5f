"""A machine that lost its GPUs, or never showed them, and may not go off yet: it may be mended meanwhile, by anybody."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.outcome import Outcome, Refused
from controller.domain.reason import Reason
from controller.domain.switching import Power
from tests.fleet.power import Cabinet, Operator, switch


async def at_work(**more: Any) -> tuple[Cabinet, Operator]:
    """It does not go off because it is idle."""
    world = Cabinet(switch("w1", 1, **({"min_on": 1e5} | more)))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    world.town.work = 1e6
    await world.wait_for(operator, "w1", Power.ON, step=1.0)
    return world, operator


def annotate(world: Cabinet, key: str, value: str = "true") -> None:
    node = world.town.nodes["w1"]
    world.town.nodes["w1"] = replace(node, annotations={**node.annotations, key: value})


def lose_gpus(world: Cabinet) -> None:
    node = world.town.nodes["w1"]
    world.room.boxes["w1"].gpus_come = False
    world.town.nodes["w1"] = replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": 0})


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("kept_by", [names.CA_SCALE_DOWN_DISABLED, names.DO_NOT_DISRUPT, "budget", "pod"])
async def test_one_whose_gpus_are_back_before_it_could_go_is_used_again(kept_by: str, restart: bool) -> None:
    """A driver that is renewed may take longer than a machine may be without its GPUs."""
    world, operator = await at_work()
    if kept_by == "budget":
        world.town.add_pod("db", gpus=0, node="w1", owner_kind="StatefulSet")

        async def evict(_pod: object) -> Outcome:
            return Refused(Reason.PDB, "its budget")

        operator.hands.evict = evict  # type: ignore[method-assign]
    elif kept_by == "pod":
        marks = {names.DO_NOT_DISRUPT: "true"}
        world.town.add_pod("db", gpus=0, node="w1", owner_kind="ReplicaSet", annotations=marks)
    else:
        annotate(world, kept_by)
    lose_gpus(world)
    await world.run(operator, 640)
    assert operator.power("w1") is Power.DRAINING
    world.room.boxes["w1"].gpus_come = True
    if restart:
        await operator.die()
        operator = world.begin()
    world.town.add_pod("train")
    await world.run(operator, 120)
    assert world.town.pods["default/train"].node == "w1", operator.plan.pods
    assert not world.room.wishes(False)


@pytest.mark.parametrize("asked", [False, True])
async def test_one_that_somebody_switches_off_before_it_could_go_is_off(asked: bool) -> None:
    world, operator = await at_work(asked=asked)
    annotate(world, names.CA_SCALE_DOWN_DISABLED)
    lose_gpus(world)
    await world.run(operator, 640)
    assert operator.power("w1") is Power.DRAINING
    world.room.press("w1", False)
    await world.run(operator, 100 if asked else 400)
    assert operator.power("w1") is Power.OFF
    assert operator.record("w1").reason is Reason.SWITCHED_BY_HAND
    assert not world.room.wishes(False)


def pause(world: Cabinet, operator: Operator, where: str, said: str = "all") -> None:
    if where == "node":
        annotate(world, names.PAUSE, said)
        return
    rules = operator.fleet.policy
    if where == "settings":
        rules = replace(rules, pause=said)
    else:
        rules = replace(rules, switches=tuple(replace(one, pause=said) for one in rules.switches))
    operator.fleet.policy = world.policy = rules


@pytest.mark.parametrize("where", ["node", "settings", "machine"])
async def test_one_that_somebody_pauses_is_not_switched_off_under_his_hands(where: str) -> None:
    world, operator = await at_work()
    pause(world, operator, where)
    lose_gpus(world)
    await world.run(operator, 900)
    assert operator.power("w1") is Power.DRAINING
    assert not world.room.wishes(False)


@pytest.mark.parametrize("where", ["node", "settings", "machine"])
async def test_a_pause_that_comes_while_a_failed_one_is_drained_stops_the_call(where: str) -> None:
    world, operator = await at_work()
    lose_gpus(world)
    await world.wait_for(operator, "w1", Power.DRAINING, step=1.0)
    pause(world, operator, where)
    await world.run(operator, 300, step=1.0)
    assert not world.room.wishes(False)


async def test_gpus_that_never_come_are_looked_for_in_peace() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, gpus_come=False)
    operator = world.begin()
    await world.run(operator, 20)
    world.town.add_pod("train")
    await world.run(operator, 120)
    assert world.town.nodes["w1"].ready
    pause(world, operator, "node")
    await world.run(operator, 1200)
    assert not world.room.wishes(False)


async def test_one_that_never_came_is_not_called_off_while_it_is_paused() -> None:
    world = Cabinet(switch("w1", 1, on_within=300.0))
    world.room.add("w1", 1, boots=False)
    operator = world.begin()
    await world.run(operator, 30)
    world.town.add_pod("train")
    await world.run(operator, 60)
    pause(world, operator, "settings")
    await world.run(operator, 900)
    assert operator.power("w1") is Power.FALLING
    assert not world.room.wishes(False)
    pause(world, operator, "settings", "")
    await world.run(operator, 60)
    assert len(world.room.wishes(False)) == 1


async def test_a_call_that_may_have_acted_is_not_repeated_while_it_is_paused() -> None:
    world, operator = await at_work(min_on=0.0)
    world.room.boxes["w1"].stops = False
    world.room.usually = "busy"
    await world.wait_for(operator, "w1", Power.FALLING, step=1.0)
    await world.run(operator, 3, step=1.0)
    pause(world, operator, "node")
    await world.run(operator, 1, step=1.0)
    calls = len(world.room.calls)
    await world.run(operator, 900)
    assert calls
    assert len(world.room.calls) == calls


async def test_pods_on_one_that_was_paused_for_long_get_their_time_to_leave() -> None:
    world, operator = await at_work()
    world.town.add_pod("web", gpus=0, node="w1", owner_kind="ReplicaSet")
    pause(world, operator, "machine")
    lose_gpus(world)
    await world.run(operator, 3600)
    pause(world, operator, "machine", "")
    await world.wait_for(operator, "w1", Power.OFF, within=200)
    assert world.room.broken == []
