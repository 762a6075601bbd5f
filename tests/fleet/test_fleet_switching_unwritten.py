"""Calls whose record is late, or cannot be written: what was not made is not counted, and what was made is timed by itself."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from msgspec.structs import replace

from controller.cluster.protocol import ClusterError
from controller.domain import names
from controller.domain.switching import Power
from controller.fleet.ledger import LedgerError
from tests.fleet.power import Cabinet, Operator, switch

HARD = (names.TAINT_DRAINING, "NoSchedule")


async def _looks(world: Cabinet, operator: Operator, seconds: int) -> None:
    for _ in range(seconds):
        world.happen()
        with contextlib.suppress(LedgerError, ClusterError):
            await operator.look()
        await world.time.advance(1.0)


@pytest.mark.parametrize("tries", [1, 3])
async def test_a_write_that_fails_uses_up_no_call_to_switch_on(tries: int) -> None:
    world = Cabinet(switch("w1", 1, tries=tries, on_within=900.0))
    box = world.room.add("w1", 1)
    operator = world.begin()
    await world.run(operator, 10)
    world.town.work = 1e5
    world.town.add_pod("train")
    failed = 0

    def fails(_: str) -> None:
        nonlocal failed
        record = operator.ledger.switched["w1"]
        if record.power is Power.RISING and record.unsure and failed < 6:
            failed += 1
            raise ClusterError("unreachable", "etcdserver: request timed out")

    operator.hands.on_call["write_config_map"] = fails
    await _looks(world, operator, 300)
    assert failed == 6
    assert len(world.room.wishes(True)) == 1, operator.record("w1")
    assert box.power == "on"
    assert operator.power("w1") is Power.ON


async def test_a_wish_to_switch_on_that_could_not_be_written_down_counts_as_not_made() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1)
    operator = world.begin()
    await world.run(operator, 10)
    pod = world.town.add_pod("train")

    def fails(_: str) -> None:
        record = operator.ledger.switched["w1"]
        if record.power is Power.RISING and record.unsure:
            raise ClusterError("unreachable", "etcdserver: request timed out")

    operator.hands.on_call["write_config_map"] = fails
    await _looks(world, operator, 5)
    del world.town.pods[pod.key]
    operator.hands.on_call.clear()
    await _looks(world, operator, 30)
    assert world.room.calls == []
    record = operator.record("w1")
    assert (record.power, record.unsure, record.called_at, record.rose_at) == (Power.OFF, False, 0.0, 0.0)


async def _off_with_a_slow_look(world: Cabinet, seconds: float) -> Operator:
    """It was on; the list of its pods, which stands between the write and the call, takes that long."""
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    world.room.faults["w1"] = ["unheard"]
    gate = asyncio.Event()

    def slow(_: str) -> None:
        if operator.record("w1").unsure:
            operator.hands.gates["list_pods_on"] = gate

    operator.hands.on_call["list_pods_on"] = slow
    await world.wait_for(operator, "w1", Power.FALLING, step=1.0)
    await world.run(operator, seconds, step=1.0)
    assert world.room.calls == []
    gate.set()
    while not world.room.calls:
        await world.run(operator, 1, step=1.0)
    return operator


async def test_what_a_call_may_do_is_waited_for_from_the_call_on_and_not_from_its_record() -> None:
    world = Cabinet(switch("w1", 1, off_within=120.0))
    world.room.add("w1", 1, power="on")
    operator = await _off_with_a_slow_look(world, 60)
    (call,) = world.room.calls
    fall, record = operator.record("w1").fall, operator.record("w1")
    assert fall is not None
    assert fall.until >= call.at + 120.0
    assert record.called_at >= call.at
    await world.run(operator, 15, step=1.0)
    fall = operator.record("w1").fall
    assert fall is not None
    assert fall.until >= call.at + 130.0  # it broke off after ten seconds, and may have been read in the last


@pytest.mark.parametrize("left", [False, True])
async def test_a_node_that_comes_while_its_machine_is_called_off_is_closed_also_where_nothing_can_be_written(
    left: bool,
) -> None:
    """Its call waits to act: a pod bound there would lose its GPU; also where it has `left` the settings since."""
    world = Cabinet(switch("w1", 1, on_within=60.0, off_within=300.0))
    world.room.add("w1", 1, node=False, boot=200.0)
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    world.room.delay = 250.0
    world.room.faults["w1"] = ["ok", "queued"]
    await world.wait_for(operator, "w1", Power.FALLING)
    while not world.room.wishes(False):
        await world.run(operator, 5)

    def fails(_: str) -> None:
        raise ClusterError("forbidden", "configmaps is forbidden")

    operator.hands.on_call["write_config_map"] = fails
    if left:
        operator.fleet.policy = operator.board.policy = replace(operator.fleet.policy, switches=())
    operator.ledger.look_again()
    while "w1" not in world.town.nodes:
        await _looks(world, operator, 1)
    await _looks(world, operator, 250)
    assert HARD in {(taint.key, taint.effect) for taint in world.town.nodes["w1"].taints}
    assert world.room.broken == []
    assert world.room.boxes["w1"].power in ("stopping", "off")
