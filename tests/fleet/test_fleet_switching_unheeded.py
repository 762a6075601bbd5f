"""Calls to switch a machine off that change nothing, however often they are made: what works is of use again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.reason import Reason
from controller.domain.switching import Power
from tests.fleet.power import Cabinet, Operator, switch


async def unheeded(usually: str, **more: float) -> tuple[Cabinet, Operator]:
    """It works, and is to go off because it is idle."""
    world = Cabinet(switch("w1", off_within=120.0, **more))
    world.room.add("w1", power="on", stops=False)
    world.room.usually = usually
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.FALLING)
    return world, operator


@pytest.mark.parametrize("usually", ["busy", "unheard", "nothing"])
async def test_one_that_works_and_never_goes_off_is_of_use_again(usually: str) -> None:
    world, operator = await unheeded(usually)
    await world.wait_for(operator, "w1", Power.ON, within=900)
    assert operator.record("w1").reason is Reason.SWITCH_FAILED
    assert "its Node is still Ready" in operator.fleet.reports["w1"]
    keys, calls = len(world.room.wishes(False)), len(world.room.calls)
    assert keys == 4
    world.town.work = 1e6
    world.town.add_pod("train")
    await world.run(operator, 30)
    assert world.town.pods["default/train"].node == "w1"
    await world.run(operator, 3600)
    assert len(world.room.calls) == calls
    assert world.room.broken == []


async def test_until_its_last_call_can_have_no_effect_any_more_it_takes_no_pod() -> None:
    world, operator = await unheeded("busy")
    world.town.add_pod("train")
    for _ in range(900):
        await world.run(operator, 1, step=1.0)
        if operator.power("w1") is not Power.FALLING:
            break
        assert not world.town.pods["default/train"].node
    assert operator.power("w1") is Power.ON
    last = max(call.at for call in world.room.calls)
    assert world.time.now > last + 120.0


async def test_the_next_time_one_round_of_calls_is_enough() -> None:
    world, operator = await unheeded("nothing")
    await world.wait_for(operator, "w1", Power.ON, within=900)
    before = len(world.room.wishes(False))
    await world.wait_for(operator, "w1", Power.FALLING)
    await world.wait_for(operator, "w1", Power.ON, within=200)
    assert len(world.room.wishes(False)) == before + 1
    world.room.boxes["w1"].stops, world.room.usually = True, "ok"
    await world.wait_for(operator, "w1", Power.OFF)


async def test_one_that_failed_and_never_goes_off_is_of_use_when_its_gpus_are_back() -> None:
    world = Cabinet(switch("w1", off_within=120.0, min_on=1e5))
    box = world.room.add("w1", power="on", stops=False)
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    world.room.usually = "busy"
    box.gpus_come = False
    node = world.town.nodes["w1"]
    world.town.nodes["w1"] = replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": 0})
    await world.wait_for(operator, "w1", Power.FALLING)
    await world.run(operator, 900)
    assert operator.power("w1") is Power.FALLING  # of no use, so it is called off for as long as that
    box.gpus_come = True
    await world.wait_for(operator, "w1", Power.ON, within=300)


async def test_one_that_may_be_on_its_way_down_is_of_use_again_when_a_pause_keeps_it() -> None:
    world, operator = await unheeded("busy")
    await world.run(operator, 60)
    node = world.town.nodes["w1"]
    world.town.nodes["w1"] = replace(node, annotations={**node.annotations, names.PAUSE: "all"})
    await world.wait_for(operator, "w1", Power.ON, within=200)
    assert operator.record("w1").reason is None
