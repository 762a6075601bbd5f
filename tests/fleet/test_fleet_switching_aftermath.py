"""A call to switch off may act minutes later: until then no pod is bound to the machine, whatever it is wanted for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.reason import Reason
from controller.domain.switching import Fall, Power, Switched
from controller.fleet.switching.aftermath import answered, called, dated, kept, rebooted
from controller.fleet.switching.closing import taint_wanted
from controller.fleet.switching.lever import Lever
from controller.fleet.switching.seeing import Seen
from tests.fleet.fakes import make_node
from tests.fleet.power import Box, Cabinet, Operator, switch

HARD = (names.TAINT_DRAINING, "NoSchedule")


class Late:
    """A machine whose Node never came; it was asked to go off, and that call acts only when `acts` says so."""

    def __init__(self, *, asked: bool = False, off_within: float = 300.0) -> None:
        self.world = Cabinet(switch("w1", on_within=60.0, off_within=off_within, asked=asked))
        self.box: Box = self.world.room.add("w1", node=False, boots=False, show=0.0)
        self.operator: Operator = self.world.begin()
        self.lever = Lever(self.operator.board)

    async def asks_on(self) -> None:
        """A driver does, and its call goes out: no planner decides beside it."""
        assert await self.lever.on("w1") is None
        await self.world.time.advance(1.0)

    async def asked_off(self) -> None:
        """By a driver that gave it up."""
        await self.world.run(self.operator, 10)
        self.world.room.faults["w1"] = ["ok", "nothing"]
        await self.asks_on()
        await self.world.run(self.operator, 10, step=1.0)
        assert await self.lever.off("w1") is None
        await self.world.run(self.operator, 5, step=1.0)
        assert len(self.world.room.wishes(False)) == 1

    def acts(self, after: float) -> None:
        self.box.due, self.box.due_on = self.world.time.now + after, False

    async def is_off(self) -> None:
        await self.world.wait_for(self.operator, "w1", Power.OFF, step=1.0)

    def boots(self) -> None:
        self.box.boots, self.box.boot = True, 20.0
        if self.box.power == "booting":
            self.box.since = self.world.time.now

    @property
    def closed(self) -> bool:
        return self.world.town.nodes["w1"].has_taint(*HARD)


async def test_one_that_stays_on_after_all_takes_no_pod_while_an_earlier_call_may_act() -> None:
    late = Late()
    world, operator = late.world, late.operator
    await late.asked_off()
    await late.is_off()
    late.acts(150.0)
    late.boots()
    await late.asks_on()
    await world.run(operator, 40, step=1.0)
    assert world.town.nodes["w1"].ready
    world.room.faults["w1"] = ["refused"]
    assert await late.lever.off("w1") is None
    why = await late.lever.outcome("w1", 10.0)
    assert why is not None
    assert why.code is Reason.SWITCH_FAILED
    world.town.work = 1e5
    world.town.add_pod("train")
    assert operator.power("w1") is Power.RISING
    await world.run(operator, 200, step=1.0)
    assert world.room.broken == []


async def test_one_that_is_needed_after_all_opens_when_no_call_can_end_it_any_more() -> None:
    late = Late()
    world, operator = late.world, late.operator
    await late.asked_off()
    await late.is_off()
    late.boots()
    await late.asks_on()
    await world.run(operator, 40, step=1.0)
    fall = operator.record("w1").fall
    assert fall is not None
    world.room.faults["w1"] = ["refused"]
    await late.lever.off("w1")
    while world.time.now < fall.until - 1:
        await world.run(operator, 1, step=1.0)
        assert late.closed
    await world.wait_for(operator, "w1", Power.ON, within=60)
    await world.run(operator, 10, step=1.0)
    assert not late.closed


async def test_while_it_is_closed_for_a_call_that_may_act_yet_that_is_its_reason() -> None:
    late = Late()
    world, operator = late.world, late.operator
    await late.asked_off()
    await late.is_off()
    late.boots()
    world.town.work = 1e5
    world.town.add_pod("train")
    await world.run(operator, 10, step=1.0)
    assert operator.plan.machines["w1"].code is Reason.STARTING
    await world.run(operator, 40, step=1.0)
    assert world.town.nodes["w1"].ready
    why, fall = operator.plan.machines["w1"], operator.record("w1").fall
    assert fall is not None
    assert why.code is Reason.LATE_CALL
    assert f"{datetime.fromtimestamp(fall.until, UTC):%H:%M:%S} UTC" in why.message
    await world.wait_for(operator, "w1", Power.ON, within=600)
    assert operator.plan.machines["w1"].code is not Reason.LATE_CALL


def _out_of_the_settings(operator: Operator) -> None:
    operator.fleet.policy = replace(operator.fleet.policy, switches=())


@pytest.mark.parametrize("when", ["it is off", "the call was just made"])
async def test_one_that_leaves_the_settings_takes_no_pod_while_a_call_may_act(when: str) -> None:
    late = Late()
    world, operator = late.world, late.operator
    await late.asked_off()
    if when == "it is off":
        await late.is_off()
    else:
        assert operator.power("w1") is Power.FALLING
    late.acts(150.0)
    _out_of_the_settings(operator)
    await world.run(operator, 20, step=1.0)
    late.boots()
    world.room.press("w1", True)  # by hand
    world.town.work = 1e5
    world.town.add_pod("train")
    await world.run(operator, 40, step=1.0)
    assert world.town.nodes["w1"].ready
    assert late.closed
    await world.run(operator, 200, step=1.0)
    assert world.room.broken == []
    await world.run(operator, 300)
    assert operator.ledger.switched == {}
    assert not late.closed


async def test_a_status_endpoint_that_says_off_does_not_say_that_no_call_waits() -> None:
    late = Late(asked=True)
    world, operator = late.world, late.operator
    await late.asked_off()
    world.room.boxes["w1"].power = "off"
    await late.is_off()
    late.acts(150.0)
    await world.run(operator, 20, step=1.0)
    late.boots()
    await late.asks_on()
    world.town.work = 1e5
    world.town.add_pod("train")
    await world.run(operator, 250, step=1.0)
    assert world.room.broken == []


class Called:
    """A machine that was on, idle and called off once; the call was answered, and acts only when `acts` says so."""

    def __init__(self, *, asked: bool = False, **of_box: Any) -> None:
        self.world = Cabinet(switch("w1", 1, min_off=60.0, asked=asked))
        self.box: Box = self.world.room.add("w1", 1, power="on", **of_box)
        self.operator: Operator = self.world.begin()
        self.called_at = 0.0

    async def off(self, *met: str) -> None:
        self.world.room.faults["w1"] = list(met)
        while not self.world.room.calls:
            await self.run(1)
        self.called_at = self.world.time.now

    async def run(self, seconds: float) -> None:
        await self.world.run(self.operator, seconds, step=1.0)

    async def is_off(self) -> None:
        await self.world.wait_for(self.operator, "w1", Power.OFF, step=1.0)

    def acts(self, after: float) -> None:
        self.box.due, self.box.due_on = self.called_at + after, False

    def comes_back(self) -> None:
        self.world.town.nodes["w1"] = replace(self.world.town.nodes["w1"], ready=True)

    async def wanted(self) -> None:
        self.world.town.work = 1e5
        self.world.town.add_pod("train")
        while len(self.world.room.wishes(True)) < 1:
            await self.run(1)

    async def restart(self) -> None:
        await self.operator.die()
        self.operator = self.world.begin()

    async def bound(self) -> float:
        """Seconds from the call until a pod runs there."""
        while not self.world.town.pods["default/train"].node:
            await self.run(1)
            assert self.world.time.now < self.called_at + 3000, self.operator.record("w1")
        return self.world.time.now - self.called_at


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_call_that_is_late_takes_nothing_from_a_machine_that_was_dark_for_another_reason(
    restarts: bool,
) -> None:
    """Its network was away for as long as a wish takes to come; it never was off."""
    late = Called()
    await late.off("nothing")
    late.acts(400.0)
    late.world.town.lose("w1")
    await late.is_off()
    await late.wanted()
    if restarts:
        await late.restart()
    late.comes_back()
    await late.run(500)
    assert late.world.room.broken == []
    await late.world.run(late.operator, 2000)
    assert late.world.town.pods["default/train"].node == "w1"


async def test_a_reboot_of_one_that_came_back_as_it_was_proves_nothing() -> None:
    """As after a driver was updated: not the call has ended it."""
    late = Called()
    await late.off("nothing")
    late.acts(500.0)
    late.world.town.lose("w1")
    await late.is_off()
    await late.wanted()
    late.comes_back()
    await late.run(20)
    late.world.town.lose("w1")
    await late.run(60)
    late.box.since = late.world.time.now - 80
    late.world.town.nodes["w1"] = replace(late.world.town.nodes["w1"], boot=late.box.boot_id)
    late.comes_back()
    await late.run(500)
    assert late.world.room.broken == []


async def test_a_ledger_that_was_lost_opens_no_machine_that_was_being_called_off() -> None:
    late = Called()
    await late.off("nothing")
    late.acts(300.0)
    await late.run(3)
    await late.operator.die()
    late.world.town.maps.clear()
    late.operator = late.world.begin()
    late.world.town.work = 1e5
    late.world.town.add_pod("train")
    await late.run(400)
    assert late.world.room.broken == []


async def test_after_a_reboot_that_we_asked_for_nothing_is_waited_for() -> None:
    late = Called()
    await late.off("ok")
    await late.is_off()
    assert late.operator.record("w1").fall is not None
    await late.wanted()
    await late.restart()
    # 20 s to go dark, 30 s to be believed, 60 s of min_off; 60 s to boot, 20 s for the GPUs, 5 s to settle.
    assert 190 <= await late.bound() <= 215
    assert late.operator.record("w1").fall is None


async def test_where_no_kubelet_tells_of_a_reboot_the_time_of_the_call_is_waited_for() -> None:
    late = Called(tells=False)
    await late.off("ok")
    await late.is_off()
    await late.wanted()
    assert 600 <= await late.bound() <= 620


@pytest.mark.parametrize("met", ["busy", "lost"])
async def test_a_reboot_proves_nothing_where_more_than_one_call_was_made(met: str) -> None:
    late = Called()
    await late.off(met, "ok")
    while len(late.world.room.calls) < 2:
        await late.run(1)
    late.acts(400.0)
    await late.is_off()
    await late.wanted()
    await late.run(450)
    assert late.world.room.broken == []


async def test_a_reboot_of_its_own_proves_nothing() -> None:
    late = Called()
    await late.off("nothing")
    late.acts(500.0)
    late.world.town.lose("w1")
    await late.run(20)
    late.box.since = (
        late.world.time.now
    )  # it has rebooted, is back before it is believed to be off, and stumbles
    late.comes_back()
    late.world.town.nodes["w1"] = replace(late.world.town.nodes["w1"], boot=late.box.boot_id)
    await late.run(5)
    late.world.town.lose("w1")
    await late.is_off()
    await late.wanted()
    late.comes_back()
    await late.run(600)
    assert late.world.room.broken == []


async def test_a_refused_call_leaves_nothing_to_wait_for() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    world.room.faults["w1"] = ["refused"]
    while operator.ledger.switched.get("w1", Switched(name="w1")).reason is not Reason.SWITCH_FAILED:
        await world.run(operator, 1, step=1.0)
    assert (operator.power("w1"), operator.record("w1").fall) == (Power.ON, None)


@pytest.mark.parametrize(
    ("calls", "spent"),
    [
        ([("a", True)], True),
        ([("a", False)], False),  # unheard: it may arrive yet
        ([("a", False), ("a", True)], False),  # what it did may be the other's work
        ([("a", True), ("a", True)], False),  # the second may wait behind the first
        ([("a", True), ("", True)], False),  # also when it had gone dark by then
        ([("", True)], False),  # its Node was silent already
        ([("", True), ("a", True)], False),
    ],
)
def test_what_a_reboot_that_was_asked_for_proves(calls: list[tuple[str, bool]], spent: bool) -> None:
    fall = None
    for number, (boot, heard) in enumerate(calls):
        before, now = fall, 100.0 + number
        fall = called(before, now, now + 600.0, make_node("w1", 0.0, ready=bool(boot), boot=boot))
        if heard:
            fall = answered(Switched(name="w1", fall=fall), before)
    asked = Switched(name="w1", power=Power.RISING, call="c", called_at=200.0, fall=fall)
    left = rebooted(asked, make_node("w1", 0.0, boot="b")).fall
    assert (left is None) is spent
    assert left is None or left.until == 699.0 + len(calls)


@pytest.mark.parametrize(
    ("fields", "boot"),
    [
        ({"called_at": 200.0}, "a"),  # it was never off: if it reboots now, then by itself
        ({"power": Power.OFF}, "a"),
        ({"called_at": 200.0}, ""),  # nobody says
        ({"call": ""}, "b"),  # nobody asked for it
        ({}, "b"),  # before we have called
        ({"power": Power.OFF}, "b"),
        ({"power": Power.FALLING, "called_at": 200.0}, "b"),
    ],
)
def test_what_proves_nothing_of_a_call(fields: dict[str, object], boot: str) -> None:
    fall = Fall(since=100.0, until=700.0, lit=True, boot="a")
    record = replace(Switched(name="w1", power=Power.RISING, call="c", fall=fall), **fields)
    after = rebooted(record, make_node("w1", 0.0, boot=boot))
    assert after.fall is not None
    assert after.fall.until == 700.0
    again = replace(after, power=Power.RISING, call="c", called_at=300.0)
    assert (rebooted(again, make_node("w1", 0.0, boot="b")).fall is None) is (boot == "")


def test_before_it_goes_dark_its_boot_says_nothing_yet() -> None:
    fall = Fall(since=100.0, until=700.0, lit=True, boot="a")
    record = Switched(name="w1", power=Power.FALLING, call="c", called_at=100.0, fall=fall)
    assert rebooted(record, make_node("w1", 0.0, boot="a")) == record


def test_a_later_call_that_may_take_less_time_shortens_nothing() -> None:
    first = called(None, 100.0, 700.0, None)
    assert called(first, 110.0, 140.0, make_node("w1", 0.0)).until == 700.0


@pytest.mark.parametrize(
    ("now", "fall"),
    [
        (500.0, Fall(since=100.0, until=700.0)),
        (700.0, None),
        (40.0, Fall(since=40.0, until=640.0)),  # the clock was set back
    ],
)
def test_it_is_over_in_its_time_also_when_the_clock_is_set_back(now: float, fall: Fall | None) -> None:
    assert dated(Switched(name="w1", fall=Fall(since=100.0, until=700.0)), now).fall == fall


@pytest.mark.parametrize("back", [1.0, 500.0, 3600.0, 30 * 3600.0])
def test_many_calls_are_over_in_the_time_of_one_also_when_the_clock_is_set_back(back: float) -> None:
    fall, now = None, 1_800_000_000.0
    for _ in range(150):
        now += 590.0
        fall = called(dated(Switched(name="w1", fall=fall), now).fall, now, now + 600.0, None)
    now -= back
    after = dated(Switched(name="w1", fall=fall), now).fall
    assert after is not None
    assert after.until - now == 600.0
    assert called(after, now, now + 600.0, None).until - now == 600.0


def test_one_that_never_was_on_is_not_on_because_it_cannot_be_switched_off() -> None:
    rising = kept(Switched(name="w1", power=Power.FALLING, called_at=5.0), 10.0)
    assert (rising.power, rising.call, rising.wanted_at) == (Power.RISING, "", 10.0)
    on = kept(Switched(name="w1", power=Power.FALLING, on_since=1.0, called_at=5.0), 10.0)
    assert on.power is Power.ON


@pytest.mark.parametrize("power", [Power.OFF, Power.RISING, Power.ON, Power.DRAINING, Power.FALLING])
def test_while_a_call_may_act_the_node_is_closed(power: Power) -> None:
    record = Switched(name="w1", power=power, fall=Fall(since=0.0, until=600.0))
    assert taint_wanted(record, Seen(), 599.0) is True


@pytest.mark.parametrize("asked", [False, True])
async def test_one_that_somebody_switches_on_again_at_once_is_not_called_off_again(asked: bool) -> None:
    """Before its Node was silent for long enough, or its endpoint said that it is off."""
    late = Called(asked=asked, boot=20.0)
    world = late.world
    await late.off("ok")
    world.room.answers = False
    await late.run(25)
    assert (late.box.power, world.town.nodes["w1"].ready) == ("off", False)
    world.room.press("w1", True)
    await late.run(25)
    record = late.operator.record("w1")
    assert (record.power, record.reason) == (Power.RISING, Reason.SWITCHED_BY_HAND)
    assert world.town.nodes["w1"].has_taint(*HARD)
    await late.run(1400)
    assert len(world.room.wishes(False)) == 1
    assert late.operator.power("w1") is Power.ON
    assert not world.town.nodes["w1"].has_taint(*HARD)
