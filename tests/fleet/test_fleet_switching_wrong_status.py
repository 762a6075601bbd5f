"""A status endpoint that says one thing for ever, as one that looks at another outlet does: the Node is believed at last."""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.reason import Reason
from controller.domain.switching import Power
from tests.fleet.power import Cabinet, Operator, switch


def stuck(world: Cabinet, *says: str) -> Operator:
    return saying(world, list(says))


def saying(world: Cabinet, says: list[str]) -> Operator:
    operator = world.begin()

    async def ask(_name: str) -> str:
        return says[-1]

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


async def test_a_dark_node_is_off_at_last_though_its_endpoint_says_on_for_ever() -> None:
    world = Cabinet(switch("w1", asked=True, off_within=120.0))
    world.room.add("w1", power="on")
    operator = stuck(world, "on")
    await world.wait_for(operator, "w1", Power.FALLING)
    await world.run(operator, 200)
    assert operator.record("w1").reason is Reason.OFF_DEADLINE
    assert "its Node is silent, but its status endpoint says that it is on" in operator.fleet.reports["w1"]
    await world.wait_for(operator, "w1", Power.OFF, within=900)
    assert "counts as off" in operator.fleet.reports["w1"]
    assert len(world.room.wishes(False)) == 4


async def test_one_whose_endpoint_said_on_for_ever_is_called_on_and_off_again() -> None:
    world = Cabinet(switch("w1", asked=True, off_within=120.0, delete_node=True))
    world.room.add("w1", power="on")
    operator = stuck(world, "on")
    await world.wait_for(operator, "w1", Power.OFF)
    await world.run(operator, 600)
    assert "w1" in world.town.nodes  # nothing says that it is off for certain
    world.town.work = 60
    world.town.add_pod("train")
    await world.wait_for(operator, "w1", Power.ON, within=200)
    await world.run(operator, 100)
    assert not world.town.pods
    await world.wait_for(operator, "w1", Power.OFF, within=400)
    assert len(world.room.wishes(False)) == 5


async def test_an_endpoint_that_says_off_once_is_believed_again() -> None:
    world = Cabinet(switch("w1", asked=True, off_within=120.0))
    world.room.add("w1", power="on")
    says = ["on"]
    operator = saying(world, says)
    await world.wait_for(operator, "w1", Power.OFF)
    assert operator.record("w1").doubted
    says.append("off")
    await world.run(operator, 10)
    assert not operator.record("w1").doubted
