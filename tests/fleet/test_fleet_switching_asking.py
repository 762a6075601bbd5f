"""Asking status endpoints: an answer is believed for two minutes, each for itself."""

from __future__ import annotations

from controller.domain.switching import Power
from tests.fleet.power import Cabinet, switch


async def test_an_endpoint_that_hangs_makes_no_answer_of_another_one_younger() -> None:
    world = Cabinet(switch("w1", asked=True), switch("w2", asked=True))
    for name in ("w1", "w2"):
        world.room.add(name, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)

    async def ask(name: str) -> str:
        if name == "w2":
            world.time.now += 300.0
            return "on"
        return "off"

    operator.means.endpoints.ask = ask  # type: ignore[method-assign]
    await operator.board.ask()
    told = {
        switch.name: operator.board._seen(switch, world.time.now).told for switch in operator.board.switches
    }
    assert told == {"w1": "", "w2": "on"}


async def test_one_answer_of_off_whose_successor_is_late_is_no_hand_on_the_button() -> None:
    """Another endpoint hangs for a minute, so this one is asked seldom; its firmware starts anew while it boots."""
    world = Cabinet(switch("w1", asked=True), switch("w2", asked=True))
    world.room.add("w1", boot=200.0)
    world.room.add("w2")
    operator = world.begin()
    says, asked = {"w1": "off", "w2": "off"}, [-1e9]
    ask_all = operator.board.ask

    async def ask(name: str) -> str:
        return says[name]

    async def seldom() -> bool:
        if world.time.now < asked[0] + 65:
            return False
        asked[0] = world.time.now
        return await ask_all()

    operator.means.endpoints.ask = ask  # type: ignore[method-assign]
    operator.board.ask = seldom  # type: ignore[method-assign]
    await world.run(operator, 20)
    world.town.work = 1e6
    world.town.add_pod("train")
    await world.run(operator, 10)
    says["w1"] = "on"
    await world.run(operator, 66)
    before = asked[0]
    says["w1"] = "off"
    while asked[0] == before:
        await world.run(operator, 5)
    says["w1"] = "on"
    await world.run(operator, 60)
    assert len(world.room.wishes(True)) == 1
