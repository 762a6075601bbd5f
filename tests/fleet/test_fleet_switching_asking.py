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
