"""Everything that was bought is to go: work on machines that are only switched is left alone all the same."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain.switching import Power
from tests.fleet.fakes import make_pod
from tests.fleet.power import Cabinet, switch


@pytest.mark.parametrize("how", ["all", "force"])
async def test_work_that_comes_as_it_is_to_go_off_is_not_evicted(how: str) -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1)
    operator = world.begin()
    world.town.add_pod("first")
    await world.wait_for(operator, "w1", Power.ON)
    world.town.pods.clear()
    late = make_pod("late", world.time.now, node="w1", owner_kind="ReplicaSet")

    def comes(target: str) -> None:
        if target == "w1 +PreferNoSchedule":
            world.town.pods[late.key] = late

    operator.hands.on_call["taint"] = comes
    operator.fleet.policy = replace(operator.fleet.policy, retire=how)
    await world.run(operator, 900)
    assert late.key in world.town.pods
    assert not operator.hands.did("evict")
    assert operator.power("w1") is Power.ON
