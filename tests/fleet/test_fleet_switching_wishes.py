"""Wishes to switch a machine on that have reached nobody: every plan decides about them anew."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.outcome import Outcome, Refused
from controller.domain.reason import Reason
from controller.domain.switching import Power
from tests.fleet import power
from tests.fleet.power import Cabinet, Operator, switch


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """What refuses for sure does so after a time-out, as a connection that nobody accepts."""
    send = power.Wires._send

    async def late(self: power.Wires, machine: str, on: bool, key: str) -> Outcome:
        outcome = await send(self, machine, on, key)
        if isinstance(outcome, Refused):
            await self._room.time.sleep(8.0)
        return outcome

    monkeypatch.setattr(power.Wires, "_send", late)


def _switched_on(world: Cabinet) -> set[str]:
    return {call.name for call in world.room.calls if call.met == "ok" and call.on}


async def _ready(*names: str, **more: Any) -> tuple[Cabinet, Operator]:
    world = Cabinet(*(switch(name, 1, **more) for name in names))
    for name in names:
        world.room.add(name, 1)
    operator = world.begin()
    await world.run(operator, 10)
    return world, operator


@pytest.mark.usefixtures("slowly")
async def test_nobody_is_called_again_for_a_pod_that_went_while_a_call_hung() -> None:
    world, operator = await _ready("w1")
    pod = world.town.add_pod("train")
    world.room.faults["w1"] = ["away"] * 2
    await world.run(operator, 3, step=1.0)
    assert operator.record("w1").called_at
    del world.town.pods[pod.key]
    await world.run(operator, 100, step=1.0)
    assert _switched_on(world) == set()
    record = operator.record("w1")
    assert (record.power, record.ons) == (Power.OFF, ())


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("away", [0, 2])
@pytest.mark.parametrize("gone", [3, 9])
async def test_of_two_wishes_one_is_enough_when_a_pod_goes_while_calls_hang(away: int, gone: int) -> None:
    world, operator = await _ready("w1", "w2")
    first = world.town.add_pod("first")
    second = world.town.add_pod("second")
    world.room.faults |= {"w1": ["away"] * away, "w2": ["away"] * 2}
    await world.run(operator, gone, step=1.0)
    served = operator.record("w1").pods
    del world.town.pods[first.key if served == (first.key,) else second.key]
    world.town.work = 1e5
    await world.run(operator, 300, step=1.0)
    assert len(_switched_on(world)) == 1
    assert all(pod.node for pod in world.town.pods.values())


async def test_a_wish_is_given_to_a_machine_that_came_without_being_asked_for() -> None:
    """Somebody switches one on by hand, for nobody, while the endpoint of the wished one is away."""
    world, operator = await _ready("w1", "w2")
    world.town.add_pod("train")
    world.room.faults = {"w1": ["away"] * 4, "w2": ["away"] * 4}
    await world.run(operator, 3, step=1.0)
    (wished,) = [name for name in ("w1", "w2") if operator.power(name) is Power.RISING]
    other = "w2" if wished == "w1" else "w1"
    world.room.boxes[other].boot = 5.0
    world.room.press(other, True)
    world.town.work = 1e5
    await world.run(operator, 300, step=1.0)
    assert _switched_on(world) == set()
    assert world.town.pods["default/train"].node == other


async def test_a_pod_that_goes_while_the_wish_is_written_down_is_not_called_for() -> None:
    world, operator = await _ready("w1")
    pod = world.town.add_pod("train")
    write = operator.hands.write_config_map

    async def and_then_it_goes(*args: Any) -> Any:
        written = await write(*args)
        if operator.record("w1").unsure:
            world.town.pods.pop(pod.key, None)
        return written

    operator.hands.write_config_map = and_then_it_goes  # type: ignore[method-assign]
    await world.run(operator, 60, step=1.0)
    assert world.town.pods == {}
    assert world.room.calls == []
    assert operator.power("w1") is Power.OFF


async def test_a_machine_that_nobody_could_call_in_time_is_given_up_and_not_called_off() -> None:
    world, operator = await _ready("w1", on_within=120.0)
    world.town.add_pod("train")
    world.room.reading = 1e6
    await world.run(operator, 300)
    record = operator.record("w1")
    assert (record.power, record.reason) == (Power.OFF, Reason.SWITCH_FAILED)
    assert record.refused_until > world.time.now
    assert world.room.calls == []


async def test_the_time_to_come_up_counts_from_the_call() -> None:
    world, operator = await _ready("w1", on_within=120.0)
    world.town.work = 1e5
    world.town.add_pod("train")
    world.room.reading = 80.0
    await world.run(operator, 400)
    assert world.town.pods["default/train"].node == "w1"
    assert world.room.wishes(False) == []


async def test_a_wish_that_reached_nobody_ends_with_a_pause() -> None:
    world, operator = await _ready("w1")
    world.town.add_pod("train")
    world.room.faults["w1"] = ["away"]
    await world.run(operator, 1, step=1.0)
    assert len(world.room.calls) == 1
    assert operator.record("w1").unheard
    operator.fleet.policy = world.policy = replace(world.policy, pause="scale-up")
    await world.run(operator, 60, step=1.0)
    assert operator.power("w1") is Power.OFF
    assert _switched_on(world) == set()


async def test_a_wish_that_reached_nobody_yet_is_thought_over_when_a_machine_that_comes_is_free() -> None:
    """Two pods, two machines; one endpoint is away, and the other's pod goes: one machine is enough."""
    world = Cabinet(switch("w1", 1), switch("w2", 1))
    world.room.add("w1", 1)
    world.room.add("w2", 1)
    operator = world.begin()
    await world.run(operator, 10)
    first = world.town.add_pod("first")
    second = world.town.add_pod("second")
    world.room.faults["w2"] = ["away"] * 3
    await world.run(operator, 5, step=1.0)
    assert {operator.power(name) for name in ("w1", "w2")} == {Power.RISING}
    served = operator.record("w1").pods
    world.room.calls.clear()
    del world.town.pods[first.key if served == (first.key,) else second.key]
    world.town.work = 1e5
    await world.run(operator, 300, step=1.0)
    assert [call for call in world.room.calls if call.name == "w2" and call.met == "ok"] == []
    assert operator.power("w2") is Power.OFF
    (left,) = world.town.pods.values()
    assert left.node == "w1"


async def test_a_wish_is_not_given_up_for_a_machine_that_its_pod_cannot_use() -> None:
    world = Cabinet(switch("w1", 1), switch("w2", 2))
    world.room.add("w1", 1)
    world.room.add("w2", 2)
    operator = world.begin()
    await world.run(operator, 10)
    first = world.town.add_pod("first")
    world.town.add_pod("second", gpus=2)
    world.room.faults["w2"] = ["away"] * 3
    await world.run(operator, 5, step=1.0)
    del world.town.pods[first.key]
    world.town.work = 1e5
    await world.run(operator, 300, step=1.0)
    assert world.town.pods["default/second"].node == "w2"
    assert len([call for call in world.room.calls if call.name == "w2"]) == 4


async def test_a_machine_whose_endpoint_stays_away_is_given_up_although_others_get_free() -> None:
    world = Cabinet(switch("w1", 1), switch("w2", 2), switch("w3", 4))
    for name, gpus in (("w1", 1), ("w2", 2), ("w3", 4)):
        world.room.add(name, gpus)
    operator = world.begin()
    await world.run(operator, 10)
    first = world.town.add_pod("first")
    world.town.add_pod("second", gpus=2)
    world.room.faults["w2"] = ["away"] * 30
    await world.run(operator, 5, step=1.0)
    del world.town.pods[first.key]
    world.town.work = 1e5
    await world.run(operator, 400, step=1.0)
    assert world.town.pods["default/second"].node == "w3"


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("on", [True, False])
async def test_no_call_is_made_of_which_the_ledger_says_that_it_was_not(on: bool) -> None:
    """Who led before hears that its call was refused, and writes that down just when the next one calls."""
    world, former = await _ready("w1", off_within=120.0)
    if on:
        world.town.add_pod("train")
    else:
        world.room.press("w1", True)
        await world.wait_for(former, "w1", Power.ON)
    world.room.faults["w1"] = ["away"]
    while not world.room.calls:
        await world.run(former, 1, step=1.0)
    await world.run(former, 3, step=1.0)
    assert former.record("w1").unsure
    former.leads = False
    operator = world.begin()
    world.room.reading = 6.0
    written: list[bool] = []
    world.room.before = lambda call: written.append(operator.record(call.name).unsure)
    world.town.work = 1e5
    await world.run(operator, 300, step=1.0)
    assert written
    assert all(written)
    assert operator.power("w1") is (Power.ON if on else Power.OFF)
    assert [call.met for call in world.room.calls] == ["away", "ok"]


@pytest.mark.parametrize("met", ["away", "busy"])
async def test_a_machine_that_comes_again_after_a_late_call_has_ended_it_is_waited_for(met: str) -> None:
    """It was dark for a moment and taken for off, wished for again, ended by the call of before, and called on then."""
    world = Cabinet(*(switch(name, 1, min_off=60.0, on_within=900.0) for name in ("w1", "w2")))
    world.room.add("w1", 1, power="on", boot=400.0)
    world.room.add("w2", 1, boot=400.0)
    world.town.work = 1e5
    world.room.delay = 150.0
    operator = world.begin()
    world.room.faults["w1"] = ["queued"]
    await world.wait_for(operator, "w1", Power.FALLING)
    while not operator.record("w1").acked_at:
        await world.run(operator, 1, step=1.0)
    world.town.lose("w1")
    await world.wait_for(operator, "w1", Power.OFF, step=1.0)
    world.room.faults["w1"] = [met] * 4
    world.town.nodes["w2"] = replace(world.town.nodes["w2"], unschedulable=True)
    await world.run(operator, 65, step=1.0)
    world.town.add_pod("train")
    await world.run(operator, 4, step=1.0)
    world.town.nodes["w1"] = replace(world.town.nodes["w1"], ready=True)  # its network is back
    world.town.nodes["w2"] = replace(world.town.nodes["w2"], unschedulable=False)
    await world.run(operator, 1500, step=1.0)
    assert {call.name for call in world.room.calls if call.on} == {"w1"}
    assert world.town.pods["default/train"].node == "w1"


async def test_after_a_wish_that_was_given_up_a_hand_on_the_button_is_somebody_elses() -> None:
    world, operator = await _ready("w1")
    operator.ledger.change_switched("w1", rose_at=world.time.now - 100)  # an earlier wish was called for
    pod = world.town.add_pod("train")
    world.room.faults["w1"] = ["refused"]
    await world.run(operator, 10, step=1.0)
    assert operator.record("w1").reason is Reason.SWITCH_FAILED
    del world.town.pods[pod.key]
    world.room.press("w1", True)
    await world.wait_for(operator, "w1", Power.RISING)
    assert operator.record("w1").reason is Reason.SWITCHED_BY_HAND


async def test_nobody_is_called_once_more_for_a_pod_that_went_after_calls_of_unknown_outcome() -> None:
    world, operator = await _ready("w1", on_within=120.0)
    pod = world.town.add_pod("train")
    world.room.faults["w1"] = ["busy", "busy"]
    await world.run(operator, 3, step=1.0)
    del world.town.pods[pod.key]
    await world.run(operator, 60, step=1.0)
    assert len(world.room.wishes(True)) == 1
    assert _switched_on(world) == set()
    assert operator.power("w1") is Power.RISING  # an earlier call may act yet
    await world.wait_for(operator, "w1", Power.FALLING, within=120)  # whatever it did is undone


async def test_one_that_is_kept_on_is_called_again_whoever_waits() -> None:
    world, operator = await _ready("w1")
    pod = world.town.add_pod("train")
    world.room.faults["w1"] = ["busy", "busy"]
    await world.run(operator, 3, step=1.0)
    del world.town.pods[pod.key]
    operator.fleet.policy = replace(operator.fleet.policy, switches=(switch("w1", 1, keep_on=True),))
    await world.run(operator, 60, step=1.0)
    assert _switched_on(world) == {"w1"}


async def test_one_that_comes_up_for_a_pod_that_went_is_used_and_goes_off_when_it_is_idle() -> None:
    world, operator = await _ready("w1")
    pod = world.town.add_pod("train")
    world.room.faults["w1"] = ["lost", "busy"]
    await world.run(operator, 15, step=1.0)
    del world.town.pods[pod.key]
    await world.wait_for(operator, "w1", Power.ON, within=200)
    assert _switched_on(world) == set()
    await world.wait_for(operator, "w1", Power.OFF, within=400)


async def test_nobody_is_called_once_more_for_a_pod_that_runs_elsewhere() -> None:
    world = Cabinet(switch("w1", 1), switch("w2", 1))
    world.room.add("w1", 1, power="on")
    world.room.add("w2", 1)
    operator = world.begin()
    world.town.work = 30
    world.town.add_pod("first")
    await world.run(operator, 20, step=1.0)
    assert world.town.pods["default/first"].node == "w1"
    world.town.add_pod("train")
    world.room.faults["w2"] = ["busy"] * 3
    await world.run(operator, 120, step=1.0)
    assert _switched_on(world) == set()


async def test_a_call_of_which_only_the_record_is_left_is_not_made_for_a_pod_that_went() -> None:
    world, operator = await _ready("w1")
    pod = world.town.add_pod("train")
    world.room.faults["w1"] = ["dies"]
    await world.run(operator, 10, step=1.0)
    assert operator.hands.dead
    del world.town.pods[pod.key]
    operator = world.begin()
    await world.run(operator, 60, step=1.0)
    assert _switched_on(world) == set()


@pytest.mark.parametrize("waits", [0, 60])
async def test_it_is_called_again_for_another_pod_that_counts_on_it(waits: int) -> None:
    world, operator = await _ready("w1", "w2")
    pod = world.town.add_pod("train")
    world.room.faults = {"w1": ["busy"] * 2, "w2": ["busy"] * 2}
    await world.run(operator, 3, step=1.0)
    (name,) = {call.name for call in world.room.calls}
    del world.town.pods[pod.key]
    await world.run(operator, waits, step=1.0)
    world.town.work = 1e5
    other = world.town.add_pod("other")
    await world.run(operator, 10, step=1.0)
    assert operator.record(name).pods == (other.key,)
    await world.run(operator, 140, step=1.0)
    assert world.town.pods[other.key].node == name
    assert len(world.room.wishes(True)) == 1


async def test_a_pod_that_took_the_place_of_another_is_remembered_where_the_machine_did_not_hold_it() -> None:
    world, operator = await _ready("w1")
    pod = world.town.add_pod("train")
    world.room.faults["w1"] = ["away"] * 4
    await world.run(operator, 3, step=1.0)
    wanted = operator.record("w1").wanted_at
    await world.run(operator, 5, step=1.0)
    del world.town.pods[pod.key]
    other = world.town.add_pod("other")
    world.town._schedule = lambda _now: None  # type: ignore[method-assign]
    await world.wait_for(operator, "w1", Power.ON, step=1.0)
    assert other.created > operator.record("w1").wanted_at == wanted
    operator.board.retire("w1", Reason.IDLE, "")
    assert operator.ledger.failures.disappointed == {other.identity: ["w1"]}
