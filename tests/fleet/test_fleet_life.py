"""The life of a machine, as a table: what is seen, and what the record becomes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.cloudthings import Instance
from controller.domain.machine import Machine, Phase
from controller.domain.policy import Deadlines
from controller.domain.reason import Reason
from controller.fleet.life import Seen, followed_again, step
from controller.fleet.repair import brake
from tests.fleet.fakes import make_node, make_pod

NOW = 1_800_000_000.0
LIMITS = Deadlines()
GPU = {"nvidia.com/gpu": 1}
P = Phase


def machine(phase: Phase, **more: Any) -> Machine:
    values: dict[str, Any] = {
        "intent": "aaaaaaaaaa", "name": "home-a100-aaaaaaaaaa", "pool": "a100", "instance_type": "1A100.22V",
        "location": "FIN-01", "market": "on-demand", "price": Decimal("1.29"), "gpus": 1,
        "intended_at": NOW - 5000, "ordered_at": NOW - 4000, "instance_id": "i-1",
    }  # fmt: skip
    return Machine(phase=phase, **(values | more))


def instance(status: str = "running", **more: Any) -> Instance:
    values: dict[str, Any] = {
        "id": "i-1", "hostname": "home-a100-aaaaaaaaaa", "description": "", "instance_type": "1A100.22V",
        "location": "FIN-01", "market": "on-demand", "price": Decimal("1.29"), "created_at": NOW - 4000,
    }  # fmt: skip
    return Instance(status=status, **(values | more))


def node(gpus: int = 1, **more: Any) -> Any:
    return make_node("home-a100-aaaaaaaaaa", NOW - 1000, gpus=gpus, **({"uid": "u-1"} | more))


def seen(status: str | None = "running", **more: Any) -> Seen:
    found = instance(status) if status else None
    return Seen(instance=found, promised=more.pop("promised", GPU), **more)


FOLLOWED = [
    # id, record, what is seen, phase afterwards, reason
    ("the answer is lost, the list shows it", machine(P.INTENDED, instance_id="", ordered_at=0.0),
     seen("provisioning"), P.ORDERED, None),
    ("its order is still on the wire", machine(P.INTENDED, instance_id="", ordered_at=0.0),
     seen("provisioning", in_flight=True), P.INTENDED, None),
    ("no list shows it, and its Node is Ready", machine(P.INTENDED, instance_id="", ordered_at=0.0, absent_lists=9,
     absent_since=NOW - 900), seen(None, listed_at=NOW, node=node()), P.INTENDED, None),
    ("no list shows it, and its Node is silent", machine(P.INTENDED, instance_id="", ordered_at=0.0, absent_lists=9,
     absent_since=NOW - 900), seen(None, listed_at=NOW, node=node(ready=False)), P.TOMBSTONE, None),
    ("provisioning", machine(P.ORDERED, ordered_at=NOW - 1200), seen("provisioning"), P.ORDERED, None),
    ("provisioning for too long", machine(P.ORDERED, ordered_at=NOW - 1201), seen("provisioning"),
     P.DELETING, Reason.LAUNCH_DEADLINE),
    ("a status nobody knows", machine(P.ORDERED, ordered_at=NOW - 60), seen("dreaming"), P.ORDERED, None),
    ("no capacity after all", machine(P.ORDERED), seen("no_capacity"), P.DELETING, Reason.NO_CAPACITY),
    ("installation failed", machine(P.ORDERED), seen("installation_failed"), P.DELETING, Reason.LAUNCH_FAILED),
    ("it runs", machine(P.ORDERED), seen(), P.BOOTING, None),
    ("booting is timed from running, not from the order", machine(P.BOOTING, running_at=NOW - 900), seen(),
     P.BOOTING, None),
    ("it never joins", machine(P.BOOTING, running_at=NOW - 901), seen(), P.DELETING, Reason.JOIN_DEADLINE),
    ("it joins, not Ready", machine(P.BOOTING, running_at=NOW - 60), seen(node=node(0, ready=False)),
     P.JOINED, None),
    ("never Ready", machine(P.JOINED, joined_at=NOW - 301), seen(node=node(0, ready=False)),
     P.DRAINING, Reason.READY_DEADLINE),
    ("Ready, no GPUs yet", machine(P.JOINED, joined_at=NOW - 9), seen(node=node(0)), P.STARTED, None),
    ("GPUs are timed from Ready", machine(P.STARTED, node_ready_at=NOW - 600), seen(node=node(0)),
     P.STARTED, None),
    ("never any GPUs", machine(P.STARTED, node_ready_at=NOW - 601), seen(node=node(0)),
     P.DRAINING, Reason.GPU_DEADLINE),
    ("GPUs for less than the settling time", machine(P.STARTED, node_ready_at=NOW - 99, gpus_seen_at=NOW - 19),
     seen(node=node()), P.STARTED, None),
    ("GPUs for long enough", machine(P.STARTED, node_ready_at=NOW - 99, gpus_seen_at=NOW - 20),
     seen(node=node()), P.READY, None),
    ("GPUs for long enough, and a label that pods select by is missing",
     machine(P.STARTED, node_ready_at=NOW - 600, gpus_seen_at=NOW - 500), seen(node=node(), dressed=False),
     P.STARTED, None),
    ("a label that nobody lets us write", machine(P.STARTED, node_ready_at=NOW - 601, gpus_seen_at=NOW - 500),
     seen(node=node(), dressed=False), P.READY, None),
    ("a machine without GPUs needs none", machine(P.STARTED, node_ready_at=NOW, gpus=0),
     seen(node=node(0), promised={}), P.READY, None),
    ("ready and fine", machine(P.READY, node_uid="u-1"), seen(node=node()), P.READY, None),
    ("evicted, says the cloud", machine(P.READY), seen("discontinued"), P.DELETING, Reason.VANISHED),
    ("somebody else deletes it", machine(P.READY), seen("deleting"), P.DELETING, Reason.VANISHED),
    ("shut down a moment ago", machine(P.READY), seen("offline", node=node(ready=False)), P.READY, None),
    ("shut down, not for long", machine(P.READY, stopped_at=NOW - 600), seen("offline", node=node(ready=False)),
     P.READY, None),
    ("shut down for long", machine(P.READY, stopped_at=NOW - 601), seen("offline", node=node(ready=False)),
     P.DRAINING, Reason.STOPPED),
    ("shut down for long, its Node is gone", machine(P.READY, stopped_at=NOW - 601, node_missing_at=NOW - 9),
     seen("offline"), P.DRAINING, Reason.STOPPED),
    ("shut down for long, with work on it", machine(P.READY, stopped_at=NOW - 601),
     seen("offline", node=node(ready=False), pods=(make_pod("a", NOW, node="n"),)), P.DRAINING, Reason.STOPPED),
    ("shut down for long, and somebody keeps it", machine(P.READY, stopped_at=NOW - 601),
     seen("offline", node=node(ready=False), kept="the node says so"), P.READY, None),
    ("shut down for long, says the cloud, and its Node is Ready", machine(P.READY, stopped_at=NOW - 9999),
     seen("offline", node=node()), P.READY, None),
    ("started again", machine(P.READY, stopped_at=NOW - 9999, node_uid="u-1"), seen(node=node()), P.READY, None),
    ("started again while it is drained for that", machine(P.DRAINING, stopped_at=NOW - 601, reason=Reason.STOPPED),
     seen(node=node()), P.STARTED, None),
    ("in a status nobody knows after that", machine(P.DRAINING, stopped_at=NOW - 601, reason=Reason.STOPPED),
     seen("dreaming", node=node(ready=False)), P.DRAINING, Reason.STOPPED),
    ("switched off before it joined", machine(P.BOOTING), seen("offline"), P.DELETING, Reason.LAUNCH_FAILED),
    ("evicted while it is drained", machine(P.DRAINING, reason=Reason.IDLE), seen("discontinued"),
     P.DELETING, Reason.VANISHED),
    ("GPUs lost, not for long", machine(P.READY, gpus_lost_at=NOW - 600), seen(node=node(0)), P.READY, None),
    ("GPUs lost for long", machine(P.READY, gpus_lost_at=NOW - 601), seen(node=node(0)),
     P.DRAINING, Reason.GPU_LOST),
    ("GPUs lost, but busy", machine(P.READY, gpus_lost_at=NOW - 601),
     seen(node=node(0), pods=(make_pod("a", NOW, node="n"),)), P.READY, None),
    ("the Node is away for a moment", machine(P.READY, node_missing_at=NOW - 300), seen(), P.READY, None),
    ("the Node is gone", machine(P.READY, node_missing_at=NOW - 301), seen(), P.DELETING, Reason.JOIN_DEADLINE),
    ("two Nodes claim it: nothing is concluded", machine(P.READY, node_missing_at=NOW - 9999), seen(doubt=True),
     P.READY, None),
    ("a tombstone stays one", machine(P.TOMBSTONE), seen(), P.TOMBSTONE, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "sight", "phase", "reason"), [row[1:] for row in FOLLOWED], ids=[r[0] for r in FOLLOWED]
)
def test_a_machine_follows_what_is_seen(
    before: Machine, sight: Seen, phase: Phase, reason: Reason | None
) -> None:
    after = step(before, sight, LIMITS, NOW)
    assert after.phase is phase
    if phase is not P.DRAINING or before.phase is not P.DRAINING:
        assert after.reason is reason


def test_everything_that_happened_unseen_is_caught_up_in_one_step() -> None:
    after = step(machine(P.ORDERED), seen(node=node()), LIMITS, NOW)
    assert after.phase is P.STARTED
    assert after.node_uid == "u-1"
    assert after.running_at == after.joined_at == after.node_ready_at == after.gpus_seen_at == NOW


def test_a_flap_of_the_gpus_right_after_the_join_starts_the_settling_again() -> None:
    record = machine(P.STARTED, node_ready_at=NOW - 50, gpus_seen_at=NOW - 19)
    record = step(record, seen(node=node(0)), LIMITS, NOW)
    record = step(record, seen(node=node()), LIMITS, NOW + 1)
    assert record.phase is P.STARTED
    assert step(record, seen(node=node()), LIMITS, NOW + 20).phase is P.STARTED
    assert step(record, seen(node=node()), LIMITS, NOW + 21).phase is P.READY


def test_gpus_that_come_back_are_forgiven() -> None:
    record = step(machine(P.READY, gpus_lost_at=NOW - 500), seen(node=node()), LIMITS, NOW)
    assert record.gpus_lost_at == 0


ABSENT = seen(None)


@pytest.mark.parametrize("phase", [P.INTENDED, P.ORDERED, P.BOOTING, P.READY, P.DRAINING])
@pytest.mark.parametrize(
    ("lists", "believed"),
    [
        ([0, 30], False),  # two lists are not enough
        ([0, 10, 20, 59], False),  # nor are many within a minute
        ([0, 30, 60], True),
        ([0, 0, 0, 60], False),  # one list that is judged again and again is one list
    ],
)
def test_absence_takes_three_lists_over_a_minute(phase: Phase, lists: list[int], believed: bool) -> None:
    record = machine(phase, instance_id="" if phase is P.INTENDED else "i-1", ordered_at=NOW - 100)
    last = -1
    for at in lists:
        ready = node(ready=phase is not P.INTENDED)  # one that is Ready was ordered for certain
        sight = replace(ABSENT, listed_at=NOW + at, fresh_list=at > last, node=ready)
        last = at
        record = step(record, sight, LIMITS, NOW + at)
    gone = record.phase is P.TOMBSTONE or record.reason is Reason.VANISHED
    assert gone is believed


def test_time_alone_proves_no_absence() -> None:
    record = machine(P.INTENDED, instance_id="", ordered_at=0.0)
    for at in (0, 1, 2):
        record = step(record, replace(ABSENT, listed_at=NOW + at, fresh_list=True), LIMITS, NOW + at)
    record = step(record, replace(ABSENT, listed_at=NOW + 2), LIMITS, NOW + 3600)
    assert record.phase is P.INTENDED


def test_one_sight_of_it_starts_the_count_of_absences_again() -> None:
    record = machine(P.ORDERED, absent_lists=2, absent_since=NOW - 50)
    record = step(record, seen("provisioning"), LIMITS, NOW)
    assert (record.absent_lists, record.absent_since) == (0, 0.0)


@pytest.mark.parametrize(
    "sight",
    [
        replace(ABSENT, listed_at=NOW - 4001, fresh_list=True),  # older than the order
        replace(ABSENT, listed_at=NOW, fresh_list=True, in_flight=True),
        replace(ABSENT, listed_at=NOW, fresh_list=False),
    ],
)
def test_lists_that_prove_nothing_are_not_counted(sight: Seen) -> None:
    record = machine(P.ORDERED, ordered_at=NOW - 4000)
    assert step(record, sight, LIMITS, NOW - 3990).absent_lists == 0


def test_a_node_replaced_by_another_of_the_same_name_is_the_machines_node_from_now_on() -> None:
    record = step(machine(P.READY, node_uid="u-1"), seen(node=node(uid="u-2")), LIMITS, NOW)
    assert record.node_uid == "u-2"
    assert record.phase is P.READY


def test_every_system_disk_ever_seen_is_remembered_until_the_end() -> None:
    record = machine(P.BOOTING, running_at=NOW, disks=("d-0",))
    sight = replace(seen(), instance=instance(os_volume_id="d-1", volume_ids=("d-1", "data")))
    assert step(record, sight, LIMITS, NOW).disks == ("d-0", "d-1")


def test_a_record_to_be_deleted_that_knows_no_id_learns_it_from_the_list() -> None:
    record = step(machine(P.DELETING, instance_id=""), seen(), LIMITS, NOW)
    assert record.instance_id == "i-1"
    assert not record.gone_at


def test_a_record_to_be_deleted_that_knows_no_id_is_gone_when_lists_prove_it() -> None:
    record = machine(P.DELETING, instance_id="", absent_lists=2, absent_since=NOW - 70)
    record = step(record, replace(ABSENT, listed_at=NOW, fresh_list=True), LIMITS, NOW)
    assert record.gone_at == NOW


def test_what_is_there_after_all_is_followed_as_far_as_it_is() -> None:
    vanished = machine(
        P.DELETING, reason=Reason.VANISHED, absent_lists=5, absent_since=NOW - 90, node_uid="u-1"
    )
    record = step(followed_again(vanished, NOW), seen(node=node()), LIMITS, NOW)
    assert (record.phase, record.reason, record.absent_lists) == (P.STARTED, None, 0)


SICK = {"phase": P.DRAINING, "reason": Reason.GPU_LOST}


@pytest.mark.parametrize(
    ("sick", "well", "held"),
    [
        (0, 5, False),
        (2, 0, False),
        (3, 0, True),
        (3, 11, True),
        (3, 12, False),
        (4, 15, True),
        (4, 16, False),
    ],
)
def test_the_repair_brake_wants_more_than_a_fifth_and_at_least_three(
    sick: int, well: int, held: bool
) -> None:
    machines = [machine(P.DRAINING, reason=Reason.GPU_LOST)] * sick + [machine(P.READY)] * well
    found = brake(machines)
    assert (found is not None) is held
    if found:
        assert f"{sick} of {sick + well}" in found.message


@pytest.mark.parametrize("reason", [Reason.VANISHED, Reason.NO_CAPACITY, Reason.LAUNCH_DEADLINE])
def test_evictions_and_sold_out_clouds_do_not_pull_the_brake(reason: Reason) -> None:
    assert brake([machine(P.DELETING, reason=reason)] * 9) is None


@pytest.mark.parametrize(
    ("of_record", "status", "followed"),
    [
        ({"absent_lists": 3}, "running", True),
        ({"absent_lists": 3, "gone_at": NOW - 5}, "running", True),
        ({"absent_lists": 0}, "running", False),  # the cloud told its end: the list may lag behind that
        ({"absent_lists": 3, "delete_at": NOW - 5}, "running", False),
        ({"absent_lists": 3}, "deleting", False),
        ({"absent_lists": 3, "reason": Reason.JOIN_DEADLINE}, "running", False),
    ],
)
def test_what_lists_merely_did_not_show_is_followed_again_once_one_does(
    of_record: dict[str, Any], status: str, followed: bool
) -> None:
    record = machine(P.DELETING, **({"reason": Reason.VANISHED} | of_record))
    after = step(record, seen(status), LIMITS, NOW)
    assert (after.phase is not P.DELETING) is followed
    assert after.gone_at == 0.0 or not followed
