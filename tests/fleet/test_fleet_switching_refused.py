"""A failed machine whose calls to switch it off are refused: its state is known in the end, and nobody's hand is fought."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.policy import Deadlines
from controller.domain.reason import Reason
from controller.domain.switching import Fall, Power, Switched
from controller.fleet.switching.life import step
from controller.fleet.switching.seeing import Seen
from tests.fleet.fakes import make_node
from tests.fleet.power import Cabinet, Operator, switch

LONG = 4000.0


async def _never_came(world: Cabinet, *first: str, **box: Any) -> Operator:
    """It was called on and never showed that; the call that switches it off is answered 4xx, perhaps not at `first`."""
    world.room.add("w1", 1, boots=False, **box)
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    world.room.faults["w1"] = ["nothing", *first]
    world.room.usually = "refused"
    await world.wait_for(operator, "w1", Power.FALLING)
    return operator


@pytest.mark.parametrize("node", [False, True])
@pytest.mark.parametrize("asked", [False, True])
async def test_one_that_is_off_already_and_refuses_to_go_off_is_tried_again_later(
    node: bool, asked: bool
) -> None:
    world = Cabinet(switch("w1", 1, on_within=120.0, off_within=120.0, asked=asked))
    world.room.answers = False
    operator = await _never_came(world, node=node)
    await world.wait_for(operator, "w1", Power.OFF, within=LONG)
    record = operator.record("w1")
    assert record.reason is Reason.ON_DEADLINE
    assert "cannot be switched off" in record.note
    assert record.refused_until
    world.room.usually = "ok"
    world.room.boxes["w1"].boots = True
    world.town.work = 1e5
    await world.wait_for(operator, "w1", Power.ON, within=LONG)


@pytest.mark.parametrize("node", [False, True])
@pytest.mark.parametrize("asked", [False, True])
async def test_one_that_refuses_after_a_call_that_was_never_answered_is_tried_again_later(
    node: bool, asked: bool
) -> None:
    """That call may have acted, so no refusal says that none did; yet its Node is silent, and it will not go off again."""
    world = Cabinet(switch("w1", 1, on_within=120.0, off_within=120.0, asked=asked))
    world.room.answers = False
    operator = await _never_came(world, "unheard", node=node)
    await world.wait_for(operator, "w1", Power.OFF, within=LONG)
    assert operator.record("w1").reason is Reason.ON_DEADLINE
    world.room.usually = "ok"
    world.room.boxes["w1"].boots = True
    world.town.work = 1e5
    await world.wait_for(operator, "w1", Power.ON, within=LONG)


async def test_one_that_refuses_after_a_call_that_was_never_answered_and_says_that_it_is_on_is_called_off() -> (
    None
):
    world = Cabinet(switch("w1", 1, on_within=120.0, off_within=120.0, asked=True))
    operator = await _never_came(world, "unheard")
    world.room.boxes["w1"].power = "on"
    calls = len(world.room.calls)
    await world.run(operator, LONG)
    assert operator.power("w1") is Power.FALLING
    assert len(world.room.calls) > calls + 3


async def test_one_that_says_that_it_is_on_is_called_off_until_it_goes() -> None:
    world = Cabinet(switch("w1", 1, on_within=120.0, off_within=120.0, asked=True))
    operator = await _never_came(world)
    world.room.boxes["w1"].power = "on"
    calls = len(world.room.calls)
    await world.run(operator, LONG)
    assert operator.power("w1") is Power.FALLING
    assert len(world.room.calls) > calls + 3


async def test_one_whose_power_server_is_away_is_called_off_when_that_is_back() -> None:
    world = Cabinet(switch("w1", 1, on_within=120.0, off_within=120.0))
    operator = await _never_came(world)
    world.room.boxes["w1"].power = "booting"  # its call acted late; it hangs, and takes current
    world.room.usually = "away"
    pods = world.town.pods
    pods.pop("default/train")
    await world.run(operator, 1000)
    assert operator.power("w1") is Power.FALLING
    world.room.usually = "ok"
    await world.wait_for(operator, "w1", Power.OFF, within=LONG)
    assert world.room.boxes["w1"].power in ("stopping", "off")


async def _lost_its_gpus(world: Cabinet) -> Operator:
    box = world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    box.gpus_come = False
    node = world.town.nodes["w1"]
    world.town.nodes["w1"] = replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": 0})
    world.room.usually = "refused"
    await world.wait_for(operator, "w1", Power.FALLING, within=LONG)
    while not world.room.wishes(False):
        await world.run(operator, 5)
    await world.run(operator, 60)
    assert operator.power("w1") is Power.FALLING
    return operator


async def test_one_that_a_person_switches_off_is_off_and_left_alone() -> None:
    world = Cabinet(switch("w1", 1))
    operator = await _lost_its_gpus(world)
    world.room.press("w1", False)
    await world.wait_for(operator, "w1", Power.OFF, within=LONG)
    record = operator.record("w1")
    assert record.reason is Reason.SWITCHED_BY_HAND
    assert record.hand_until > world.time.now
    calls = len(world.room.calls)
    world.town.add_pod("train")
    await world.run(operator, 600)
    assert len(world.room.calls) == calls


@pytest.mark.parametrize("away", [60.0, 900.0])
async def test_one_that_a_person_mends_and_switches_on_again_is_not_fought(away: float) -> None:
    world = Cabinet(switch("w1", 1))
    operator = await _lost_its_gpus(world)
    calls = len(world.room.calls)
    world.room.press("w1", False)
    await world.run(operator, away)
    world.room.boxes["w1"].gpus_come = True
    world.room.press("w1", True)
    calls = len(world.room.calls)
    world.room.usually = "ok"
    await world.wait_for(operator, "w1", Power.ON, within=600)
    assert len(world.room.calls) == calls
    world.town.work = 1e5
    world.town.add_pod("train")
    await world.run(operator, 1200)
    assert world.room.broken == []
    assert len(world.room.calls) == calls


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("first", ["unheard", "refused"])
async def test_one_that_works_and_refuses_to_go_off_is_of_use_again(first: str, lost: bool) -> None:
    """Also where the first call was never answered: once it can have no effect any more, a refusal is one."""
    world = Cabinet(switch("w1", 1, off_within=120.0))
    box = world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    if lost:
        box.gpus_come = False
        node = world.town.nodes["w1"]
        world.town.nodes["w1"] = replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": 0})
    world.room.faults["w1"] = [first]
    world.room.usually = "refused"
    while not world.room.wishes(False):
        await world.run(operator, 5)
    await world.run(operator, 60)
    box.gpus_come = True
    world.town.work = 1e5
    world.town.add_pod("train")
    await world.run(operator, 1000)
    assert world.town.pods["default/train"].node == "w1"
    assert operator.power("w1") is Power.ON
    assert world.room.broken == []


@pytest.mark.parametrize("node", [False, True])
@pytest.mark.parametrize("asked", [False, True])
async def test_one_that_is_off_already_and_says_so_with_an_error_is_tried_again_later(
    node: bool, asked: bool
) -> None:
    """With 409, or 500: an answer that may mean anything, so it is asked for longer."""
    world = Cabinet(switch("w1", 1, on_within=120.0, off_within=120.0, asked=asked))
    world.room.answers = False
    operator = await _never_came(world, node=node)
    world.room.usually = "busy"
    await world.run(operator, 240)
    assert operator.power("w1") is Power.FALLING
    await world.wait_for(operator, "w1", Power.OFF, within=LONG)
    assert operator.record("w1").reason is Reason.ON_DEADLINE
    world.room.usually = "ok"
    world.room.boxes["w1"].boots = True
    world.town.work = 1e5
    await world.wait_for(operator, "w1", Power.ON, within=LONG)


@pytest.mark.parametrize("usually", ["unheard", "away"])
async def test_one_whose_power_server_never_answers_is_called_off_for_as_long(usually: str) -> None:
    world = Cabinet(switch("w1", 1, on_within=120.0, off_within=120.0))
    operator = await _never_came(world)
    world.room.usually = usually
    world.town.pods.pop("default/train")
    calls = len(world.room.calls)
    await world.run(operator, LONG)
    assert operator.power("w1") is Power.FALLING
    assert len(world.room.calls) > calls + 3


async def test_one_that_a_person_switches_off_is_off_also_where_its_status_endpoint_is_silent() -> None:
    world = Cabinet(switch("w1", 1, asked=True))
    operator = await _lost_its_gpus(world)
    world.room.answers = False
    world.room.press("w1", False)
    await world.wait_for(operator, "w1", Power.OFF, within=LONG)
    assert operator.record("w1").reason is Reason.SWITCHED_BY_HAND


@pytest.mark.parametrize("ahead", [30.0, 60.0, 90.0, 150.0])
async def test_a_hand_that_mends_it_when_it_is_due_again_is_not_fought(ahead: float) -> None:
    """Off, and on again a moment later: the next call to switch it off would fall into its start."""
    world = Cabinet(switch("w1", 1))
    operator = await _lost_its_gpus(world)
    pause, began = operator.board.turning._tasks._pauses["w1"]
    while world.time.now < began + pause - ahead:
        await world.run(operator, 5)
    calls = len(world.room.calls)
    world.room.usually = "ok"
    world.room.press("w1", False)
    await world.run(operator, 30)
    world.room.boxes["w1"].gpus_come = True
    world.room.press("w1", True)
    await world.run(operator, 600)
    assert len(world.room.calls) == calls
    assert operator.power("w1") is Power.ON


async def test_a_refusal_of_before_does_not_put_off_a_later_wish_to_switch_it_off() -> None:
    """Its GPUs came back, it worked, and now it is idle: its silence is not taken for that of a machine in other hands."""
    world = Cabinet(switch("w1", 1))
    operator = await _lost_its_gpus(world)
    node = world.town.nodes["w1"]
    world.room.boxes["w1"].gpus_come = True
    world.town.nodes["w1"] = replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": 1})
    await world.wait_for(operator, "w1", Power.ON, within=LONG)
    assert not operator.record("w1").refused_at
    calls = len(world.room.calls)
    world.room.usually, world.room.faults["w1"] = "ok", ["away"]
    await world.wait_for(operator, "w1", Power.FALLING, within=LONG)
    while len(world.room.calls) == calls:
        await world.run(operator, 1, step=1.0)
    world.town.lose("w1")
    await world.wait_for(operator, "w1", Power.OFF, within=120)


def _refused(**more: Any) -> Switched:
    """Every call of it was refused, and none is under way."""
    values: dict[str, Any] = {"reason": Reason.GPU_LOST, "call": "c", "wanted_at": 500.0, "on_since": 100.0}
    return Switched(name="w1", power=Power.FALLING, **(values | more))


def _step(record: Switched, now: float, **seen: Any) -> Switched:
    return step(record, Seen(promised={"nvidia.com/gpu": 1}, **seen), switch("w1", 1), Deadlines(), now)


def test_a_failed_machine_whose_gpus_are_back_is_of_use_where_no_call_can_end_it() -> None:
    node = make_node("w1", 0.0, gpus=1)
    assert _step(_refused(), 2000.0, node=node).power is Power.RISING
    assert _step(_refused(reason=Reason.ON_DEADLINE, on_since=0.0), 2000.0, node=node).power is Power.RISING
    gone = _step(_refused(called_at=1990.0, unsure=True), 2000.0, node=node)
    assert gone.power is Power.FALLING
    acked = _step(_refused(called_at=1990.0, acked_at=1991.0), 2000.0, node=node)
    assert acked.power is Power.FALLING
    earlier = _step(_refused(fall=Fall(since=1900.0, until=2500.0, lost=True)), 2000.0, node=node)
    assert earlier.power is Power.RISING
    assert _step(earlier, 2400.0, node=node).power is Power.RISING  # closed until no earlier call can end it


def test_a_failed_machine_without_its_gpus_is_not_kept() -> None:
    node = make_node("w1", 0.0, gpus=0)
    assert _step(_refused(), 2000.0, node=node).power is Power.FALLING


def test_silence_for_a_moment_is_no_hand_on_the_button() -> None:
    limits = Deadlines()
    assert _step(_refused(down_at=1000.0), 1000.0 + limits.ready - 1).power is Power.FALLING
    assert _step(_refused(down_at=1000.0), 1000.0 + limits.ready + 1).power is Power.OFF
