"""Courses of events that once ended badly for a switched machine, or for what ran there."""

from __future__ import annotations

import contextlib

import pytest
from msgspec.structs import replace

from controller.cluster.protocol import ClusterError
from controller.domain import names
from controller.domain.outcome import Refused
from controller.domain.policy import Deadlines
from controller.domain.reason import Reason
from controller.domain.switching import Fall, Power, Switched
from controller.fleet.ledger import LedgerError
from controller.fleet.switching.lever import Lever
from controller.fleet.switching.life import step
from controller.fleet.switching.seeing import Seen
from tests.fleet.fakes import make_node
from tests.fleet.power import Cabinet, switch

HARD = (names.TAINT_DRAINING, "NoSchedule")


async def test_a_call_that_was_answered_and_acts_late_takes_no_gpu_after_a_blink_of_the_node() -> None:
    world = Cabinet(switch("w1", 1, off_within=600.0))
    box = world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    world.room.faults["w1"] = ["nothing"]  # answered 202; it acts in 300 s
    await world.wait_for(operator, "w1", Power.FALLING, step=1.0)
    while not world.room.calls:
        await world.run(operator, 1, step=1.0)
    box.due, box.due_on = world.time.now + 300.0, False
    world.town.lose("w1")  # its kubelet restarts, or the network is away, for 40 s
    await world.run(operator, 40, step=1.0)
    world.town.nodes["w1"] = replace(world.town.nodes["w1"], ready=True)
    world.town.work = 1e5
    world.town.add_pod("train")
    await world.run(operator, 400, step=1.0)
    assert world.room.broken == []


async def test_a_boot_with_a_restart_in_it_hides_no_call_that_may_act() -> None:
    """Answered while the Node was silent; the Node comes, reboots once (a driver), comes again; the call acts."""
    world = Cabinet(switch("w1", 1, on_within=120.0, off_within=600.0))
    box = world.room.add("w1", 1, boots=False)
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    world.room.faults["w1"] = ["ok", "nothing"]
    await world.wait_for(operator, "w1", Power.FALLING, step=1.0)
    while not world.room.wishes(False):
        await world.run(operator, 1, step=1.0)
    box.due, box.due_on = world.time.now + 400.0, False
    box.boots, box.power, box.since = (
        True,
        "booting",
        world.time.now - 55,
    )  # late, and before the Node is taken for off
    await world.run(operator, 15, step=1.0)
    world.town.lose("w1")
    await world.run(operator, 45, step=1.0)
    world.town.nodes["w1"] = replace(world.town.nodes["w1"], ready=True)
    world.town.work = 1e5
    await world.run(operator, 500, step=1.0)
    assert world.room.broken == []


async def test_one_whose_endpoint_says_on_is_not_off_because_its_node_is_silent() -> None:
    world = Cabinet(switch("w1", 1, asked=True, off_within=120.0))
    world.room.add("w1", 1, power="on", stops=False)
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.FALLING, step=1.0)
    while not world.room.calls:
        await world.run(operator, 1, step=1.0)
    world.town.lose("w1")  # its kubelet ended; the power did not
    await world.run(operator, 1200)
    assert world.room.boxes["w1"].power == "on"
    assert len(world.room.wishes(False)) > 1, (operator.record("w1"), operator.fleet.reports)


async def test_one_that_never_came_and_is_said_to_be_on_is_called_off_again() -> None:
    world = Cabinet(switch("w1", 1, asked=True, on_within=120.0, off_within=120.0))
    world.room.add("w1", 1, boots=False)
    operator = world.begin()
    await world.run(operator, 10)
    pod = world.town.add_pod("train")
    world.room.faults["w1"] = ["ok", "nothing"]
    await world.wait_for(operator, "w1", Power.FALLING)
    del world.town.pods[pod.key]
    await world.run(operator, 3000)
    assert (world.room.boxes["w1"].power, operator.power("w1")) == ("off", Power.OFF), operator.fleet.reports


@pytest.mark.parametrize("field", ["hand_until", "refused_until"])
def test_a_clock_that_is_set_back_keeps_no_machine_waiting_for_ever(field: str) -> None:
    later = 1_900_000_000.0
    record = Switched(name="w1", off_since=later, **{field: later + 1800.0})
    now = 1_800_000_000.0
    after = step(record, Seen(), switch("w1", left_alone=1800.0), Deadlines(), now)
    assert getattr(after, field) <= now + 3600.0


async def test_a_pause_that_comes_during_the_drain_stops_the_call() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.DRAINING, step=1.0)
    operator.fleet.policy = replace(operator.fleet.policy, pause="all")
    await world.run(operator, 120, step=1.0)
    assert world.room.calls == []


async def test_one_that_leaves_the_settings_while_it_is_drained_loses_no_pod() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    world.town.nodes["cpu-1"] = make_node("cpu-1", world.time.now - 5000, gpus=0)
    world.town.add_pod("web", gpus=0, node="w1", owner_kind="ReplicaSet")
    await world.wait_for(operator, "w1", Power.DRAINING, step=1.0)
    assert "default/web" in world.town.pods
    operator.fleet.policy = replace(operator.fleet.policy, switches=())
    await world.run(operator, 60, step=1.0)
    assert "default/web" in world.town.pods


async def test_one_that_a_driver_sent_off_is_called_again_although_a_pod_without_gpus_is_there() -> None:
    world = Cabinet(switch("w1", 1, off_within=120.0))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    lever = Lever(operator.board)
    await world.wait_for(operator, "w1", Power.ON)
    world.town.add_pod("agent", gpus=0, node="w1", owner_kind="ReplicaSet")  # it tolerates everything
    world.room.faults["w1"] = ["nothing"]
    await world.run(operator, 5)
    assert await lever.off("w1") is None
    await world.run(operator, 1200)
    assert len(world.room.wishes(False)) > 1, operator.record("w1")


async def test_nothing_is_off_because_a_call_was_written_down_that_was_never_made() -> None:
    world = Cabinet(switch("w1", 1, on_within=120.0))
    world.room.add("w1", 1, node=False, boots=False)
    operator = world.begin()
    await world.run(operator, 10)
    pod = world.town.add_pod("train")
    out: list[float] = []

    def outage(_: str) -> None:
        record = operator.ledger.switched["w1"]
        if record.power is Power.FALLING and not out:
            out.append(world.time.now)

    def fails(_: str) -> None:
        if out and world.time.now < out[0] + 60:
            raise ClusterError("unreachable", "etcdserver: request timed out")

    operator.hands.on_call["taint"] = outage
    operator.hands.on_call["write_config_map"] = fails
    for _ in range(600):
        world.happen()
        with contextlib.suppress(LedgerError, ClusterError):
            await operator.look()
        await world.time.advance(1.0)
        if out and pod.key in world.town.pods:
            del world.town.pods[pod.key]
    assert out
    assert world.room.wishes(False), operator.record("w1")


async def test_a_pod_waits_no_quarter_of_an_hour_for_one_that_a_late_call_has_ended() -> None:
    world = Cabinet(switch("w1", 1, off_within=600.0), switch("w2", 2))
    box = world.room.add("w1", 1)
    world.room.add("w2", 2)
    operator = world.begin()
    await world.run(operator, 10)
    now = world.time.now
    operator.ledger.put_switched(
        replace(
            operator.record("w1"), fall=Fall(since=now, until=now + 600.0, lost=True), off_since=now - 100
        )
    )
    box.due, box.due_on = now + 200.0, False
    world.town.work = 1e5
    world.town.add_pod("train")
    waited = 0
    while not world.town.pods["default/train"].node and waited < 3000:
        await world.run(operator, 5)
        waited += 5
    assert waited < 700, waited


async def test_one_that_failed_and_leaves_the_settings_while_it_is_drained_loses_no_further_pod() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    for name in ("web", "api"):
        world.town.add_pod(name, gpus=0, node="w1", owner_kind="ReplicaSet")
    node = world.town.nodes["w1"]
    world.room.boxes["w1"].gpus = 0  # they fell off the bus
    world.town.nodes["w1"] = replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": 0})
    operator.hands.faults["evict"] = [Refused(Reason.PDB, "its budget allows none")] * 6
    await world.wait_for(operator, "w1", Power.DRAINING, step=1.0)
    while not operator.hands.did("evict"):
        await world.run(operator, 1, step=1.0)
    operator.fleet.policy = replace(operator.fleet.policy, switches=())
    await world.run(operator, 120, step=1.0)
    assert {"default/web", "default/api"} <= world.town.pods.keys()
    assert world.room.calls == []


async def test_one_that_was_called_off_in_vain_is_called_again_although_something_settled_there() -> None:
    """A pod without GPUs that tolerates everything, and is no daemon: after the first call nothing asks it to leave."""
    world = Cabinet(switch("w1", 1, off_within=120.0))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    world.room.faults["w1"] = ["nothing"]
    while not world.room.calls:
        await world.run(operator, 1, step=1.0)
    assert operator.record("w1").drain_at
    world.town.add_pod("agent", gpus=0, node="w1", owner_kind="ReplicaSet")
    await world.run(operator, 600)
    assert len(world.room.wishes(False)) == 2, operator.record("w1")
    assert operator.power("w1") is Power.OFF


async def test_one_that_was_called_off_in_vain_is_not_called_again_from_under_work() -> None:
    world = Cabinet(switch("w1", 1, off_within=120.0))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    world.room.faults["w1"] = ["nothing"]
    while not world.room.calls:
        await world.run(operator, 1, step=1.0)
    world.town.work = 1e5
    world.town.add_pod("train", node="w1")
    await world.run(operator, 600)
    assert len(world.room.wishes(False)) == 1
    assert world.room.broken == []


async def test_a_pod_that_comes_while_credentials_are_read_stops_the_call() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    world.room.reading = 10.0
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.FALLING, step=1.0)
    await world.run(operator, 5, step=1.0)
    assert world.room.calls == []
    world.town.work = 30.0
    pod = world.town.add_pod("train", node="w1")  # it was bound in the moment of the taint
    world.town.bound_at[pod.key] = world.time.now
    await world.run(operator, 20, step=1.0)
    assert world.room.broken == []
    assert world.room.calls == []
    await world.wait_for(operator, "w1", Power.OFF)


async def test_one_that_was_taken_back_while_credentials_are_read_is_not_written_to() -> None:
    """Its Node went dark and was believed to be off, and a wish to switch it on has come meanwhile."""
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    world.room.reading = 200.0
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.FALLING, step=1.0)
    operator.fleet.policy = replace(operator.fleet.policy, switches=())
    await world.run(operator, 5, step=1.0)
    operator.fleet.policy = world.policy
    await world.run(operator, 250, step=1.0)
    record = operator.record("w1")
    assert (world.room.calls, record.fall, record.unsure) == ([], None, False)


@pytest.mark.parametrize("node", [False, True])
@pytest.mark.parametrize("fault", ["busy", "unheard", "dies"])
async def test_silence_is_no_proof_where_no_call_was_acknowledged(fault: str, node: bool) -> None:
    """It was called on, its Node never showed that, and no call that switches it off is ever answered."""
    world = Cabinet(switch("w1", 1, on_within=120.0, off_within=120.0))
    box = world.room.add("w1", 1, node=node, boots=False)
    operator = world.begin()
    await world.run(operator, 10)
    pod = world.town.add_pod("train")
    world.room.faults["w1"] = ["ok", *[fault] * 13]
    await world.wait_for(operator, "w1", Power.FALLING, step=1.0)
    del world.town.pods[pod.key]
    while operator.hands.dead or operator.power("w1") is not Power.OFF:
        if operator.hands.dead:
            operator = world.begin()
        await world.run(operator, 1, step=1.0)
        assert world.time.now < 1_800_003_000
    assert world.room.faults["w1"] == []
    assert box.power in ("stopping", "off")
    if fault != "dies":
        assert len(world.room.wishes(False)) == 3  # each time with another key, five times with each


@pytest.mark.parametrize(("lit", "tries"), [(False, 1), (True, 1), (False, 5)])
async def test_a_call_that_was_stored_and_never_made_switches_nothing_off(lit: bool, tries: int) -> None:
    """Whoever led before ended between the two."""
    world = Cabinet(switch("w1", 1, off_within=120.0))
    world.room.add("w1", 1, power="on")
    before = world.begin()
    await world.wait_for(before, "w1", Power.ON)
    now = world.time.now
    fall = Fall(since=now, until=now + 120.0, lit=lit, lost=True)
    stored = replace(
        before.record("w1"), power=Power.FALLING, call="calloff", called_at=now, unsure=True, tries=tries, fall=fall
    )  # fmt: skip
    before.ledger.put_switched(stored)
    await before.ledger.flush()
    await before.die()
    world.town.lose("w1")  # the network alone
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.OFF, step=1.0)
    assert world.room.boxes["w1"].power in ("stopping", "off")
    (key,) = world.room.wishes(False)
    assert key == ("calloff-off" if tries == 1 else "calloff-1-off")


@pytest.mark.parametrize("told", ["", "on", "off"])
@pytest.mark.parametrize("fall", [None, Fall(since=100.0, until=220.0, lost=True)])
def test_without_an_answer_only_the_endpoint_itself_says_that_it_is_off(fall: Fall | None, told: str) -> None:
    record = Switched(
        name="w1", power=Power.FALLING, call="c", called_at=100.0, unsure=True, tries=5, down_at=90.0, fall=fall
    )  # fmt: skip
    which = switch("w1", off_within=120.0, asked=bool(told))
    early = step(record, Seen(told=told), which, Deadlines(), 219.0)
    late = step(record, Seen(told=told), which, Deadlines(), 221.0)
    if told == "off":
        assert early.power is Power.OFF
        return
    assert (early.power, early.call_id, early.called_at) == (Power.FALLING, "c", 100.0)
    assert (late.power, late.call_id, late.called_at) == (Power.FALLING, "c-1", 0.0)


async def test_an_answer_that_comes_when_its_call_was_given_up_is_none_to_the_next() -> None:
    """It was taken for one to a call that had not been made yet, which then nobody made or waited for, for ever."""
    world = Cabinet(switch("w1", 1, off_within=5.0))
    box = world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    world.room.faults["w1"] = ["late"]  # answered after 8 s
    await world.wait_for(operator, "w1", Power.FALLING, step=1.0)
    await world.run(operator, 3000, step=1.0)
    record = operator.ledger.switched["w1"]
    assert (record.power, box.power) == (Power.OFF, "off")


@pytest.mark.parametrize(("called_at", "by_hand"), [(0.0, False), (1150.0, True)])
def test_a_reboot_is_a_hand_on_the_button_only_where_a_call_of_this_wish_went_out(
    called_at: float, by_hand: bool
) -> None:
    """Our own call may have caused it: one to switch on, before the wish to switch off."""
    record = Switched(
        name="w1", power=Power.FALLING, call="c", wanted_at=1150.0, called_at=called_at, rose_at=1100.0,
        unsure=bool(called_at), fall=Fall(since=1000.0, until=1600.0, lit=True, boot="b1"),
    )  # fmt: skip
    node = make_node("w1", 0.0, boot="b2", gpus=1)
    after = step(record, Seen(node=node), switch("w1", 1), Deadlines(), 1210.0)
    assert (after.power is not Power.FALLING) is by_hand


async def test_calls_that_were_all_refused_are_made_again_where_nothing_more_was_written_down() -> None:
    """The ledger failed just then, or a smaller number of tries came into force."""
    world = Cabinet(switch("w1", 1, off_within=600.0))
    box = world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.FALLING, step=1.0)
    record = operator.ledger.switched["w1"]
    refused = replace(record, tries=5, called_at=0.0, acked_at=0.0, unsure=False, call=record.call or "c")
    operator.ledger.put_switched(refused)
    await world.run(operator, 1500, step=1.0)
    assert (operator.ledger.switched["w1"].power, box.power) == (Power.OFF, "off")


@pytest.mark.parametrize("told", ["off", "on", ""])
def test_a_failed_machine_whose_calls_are_refused_is_off_where_its_endpoint_says_so(told: str) -> None:
    record = Switched(name="w1", power=Power.FALLING, call="c", reason=Reason.GPU_LOST, down_at=1000.0)
    after = step(record, Seen(node=None, told=told), switch("w1", 1, asked=True), Deadlines(), 2000.0)
    assert (after.power is Power.OFF) is (told == "off")
