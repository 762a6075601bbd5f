"""A call to switch off may act minutes later: until then no pod is bound to the machine, whatever it is wanted for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.reason import Reason
from controller.domain.switching import Fall, Power, Switched
from controller.fleet.switching.aftermath import answered, called, dated, kept, unspent
from controller.fleet.switching.lever import Lever
from controller.fleet.switching.life import Seen, taint_wanted
from tests.fleet.power import Box, Cabinet, Operator, switch

HARD = (names.TAINT_DRAINING, "NoSchedule")


class Late:
    """A machine whose Node never came; it was asked to go off, and that call acts only when `acts` says so."""

    def __init__(self, *, asked: bool = False, off_within: float = 300.0) -> None:
        self.world = Cabinet(switch("w1", on_within=60.0, off_within=off_within, asked=asked))
        self.box: Box = self.world.room.add("w1", node=False, boots=False, show=0.0)
        self.operator: Operator = self.world.begin()
        self.lever = Lever(self.operator.board)

    async def asked_off(self) -> None:
        """By a driver that gave it up."""
        await self.world.run(self.operator, 10)
        self.world.room.faults["w1"] = ["ok", "nothing"]
        assert await self.lever.on("w1") is None
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
    assert await late.lever.on("w1") is None
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
    assert await late.lever.on("w1") is None
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
    assert await late.lever.on("w1") is None
    world.town.work = 1e5
    world.town.add_pod("train")
    await world.run(operator, 250, step=1.0)
    assert world.room.broken == []


async def test_after_an_answered_call_to_a_node_that_was_ready_nothing_is_waited_for_when_we_ask_again() -> (
    None
):
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.OFF, step=1.0)
    assert operator.record("w1").fall is not None
    world.town.add_pod("train")
    await world.wait_for(operator, "w1", Power.RISING, step=1.0)
    assert operator.record("w1").fall is None


async def test_a_refused_call_leaves_nothing_to_wait_for() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    world.room.faults["w1"] = ["refused"]
    while operator.ledger.switched.get("w1", Switched(name="w1")).reason is not Reason.SWITCH_FAILED:
        await world.run(operator, 1, step=1.0)
    assert (operator.power("w1"), operator.record("w1").fall) == (Power.ON, None)


@pytest.mark.parametrize(
    ("calls", "left"),
    [
        ([(True, True)], False),
        ([(True, False)], True),  # unheard: it may arrive yet
        ([(True, False), (True, True)], True),  # what it did may be the other's work
        ([(False, True)], True),  # its Node was silent already
        ([(False, True), (True, True)], True),  # the first may wait behind the second
        ([(True, True), (False, True)], False),  # repeated when it had gone dark
    ],
)
def test_what_is_left_to_wait_for_when_we_ask_for_the_machine(
    calls: list[tuple[bool, bool]], left: bool
) -> None:
    fall = None
    for number, (ready, heard) in enumerate(calls):
        before, now = fall, 100.0 + number
        fall = called(before, now, now + 600.0, ready=ready)
        if heard:
            fall = answered(Switched(name="w1", fall=fall), before)
    found = unspent(Switched(name="w1", fall=fall))
    assert (found is not None) is left
    assert found is None or (found.since, found.until) == (100.0, 699.0 + len(calls))


def test_a_later_call_that_may_take_less_time_shortens_nothing() -> None:
    first = called(None, 100.0, 700.0, ready=False)
    assert called(first, 110.0, 140.0, ready=True).until == 700.0


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


def test_one_that_never_was_on_is_not_on_because_it_cannot_be_switched_off() -> None:
    rising = kept(Switched(name="w1", power=Power.FALLING, called_at=5.0), 10.0)
    assert (rising.power, rising.call, rising.wanted_at) == (Power.RISING, "", 10.0)
    on = kept(Switched(name="w1", power=Power.FALLING, on_since=1.0, called_at=5.0), 10.0)
    assert on.power is Power.ON


@pytest.mark.parametrize("power", [Power.OFF, Power.RISING, Power.ON, Power.DRAINING, Power.FALLING])
def test_while_a_call_may_act_the_node_is_closed(power: Power) -> None:
    record = Switched(name="w1", power=power, fall=Fall(since=0.0, until=600.0))
    assert taint_wanted(record, Seen(), 599.0) is True
