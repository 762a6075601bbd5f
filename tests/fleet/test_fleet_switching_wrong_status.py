"""A status endpoint that says one thing for ever, as one that looks at another outlet does: the Node is believed at last."""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.switching import Power
from tests.fleet.power import Cabinet, Operator, switch


def stuck(world: Cabinet, says: str) -> Operator:
    operator = world.begin()

    async def ask(_name: str) -> str:
        return says

    operator.means.endpoints.ask = ask  # type: ignore[method-assign]
    return operator


def ready(world: Cabinet) -> None:
    world.town.nodes["w1"] = replace(world.town.nodes["w1"], ready=True)


async def test_one_that_a_person_switches_on_is_used_though_its_endpoint_says_off_for_ever() -> None:
    world = Cabinet(switch("w1", asked=True))
    world.room.add("w1")
    operator = stuck(world, "off")
    await world.run(operator, 30)
    world.room.press("w1", True)
    await world.run(operator, 60 + 300)
    assert operator.power("w1") is Power.ON
    assert not world.room.calls
    await world.wait_for(operator, "w1", Power.OFF)
    assert world.room.boxes["w1"].power == "off"


async def test_a_node_that_was_silent_for_a_moment_is_on_though_its_endpoint_says_off_for_ever() -> None:
    world = Cabinet(switch("w1", asked=True))
    world.room.add("w1", power="on")
    operator = stuck(world, "off")
    world.town.work = 1e6
    world.town.add_pod("train")
    await world.run(operator, 60)
    world.town.lose("w1")
    await world.run(operator, 45)
    assert operator.power("w1") is Power.OFF
    ready(world)
    await world.run(operator, 300)
    assert operator.power("w1") is Power.ON
    del world.town.pods["default/train"]
    await world.wait_for(operator, "w1", Power.OFF)
    assert world.room.broken == []


async def test_a_node_that_looks_ready_for_a_moment_longer_is_not_on() -> None:
    world = Cabinet(switch("w1", asked=True))
    world.room.add("w1")
    operator = stuck(world, "off")
    await world.run(operator, 30)
    for _ in range(3):
        ready(world)
        await world.run(operator, 100)
        world.town.lose("w1")
        await world.run(operator, 100)
        assert operator.power("w1") is Power.OFF
