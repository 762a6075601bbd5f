"""Who owes what for what: the bill at any time, for machines and disks, kept, thrown away or gone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.domain.names import TAG_CLUSTER

from .world import ORDER, Cloud, refusal

DISK = {"type": "NVMe", "name": "data", "size": 730, "location_code": "FIN-01"}  # 0.2 an hour
DISK_OF_10 = {"name": "more", "size": 10}
OURS = [{"key": TAG_CLUSTER, "value": "home"}, {"key": "gpuas-intent", "value": "abcdefghij"}]


def bill(cloud: Cloud) -> dict[str, Any]:
    found: dict[str, Any] = cloud.get("/_sandbox/bill")
    return found


def rows(cloud: Cloud) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in bill(cloud)["rows"]}


def close(amount: float) -> Any:
    return pytest.approx(amount, abs=2e-4)


def test_every_machine_and_disk_has_a_row_with_its_marks_and_its_time() -> None:
    cloud = Cloud()
    instance_id = cloud.running(
        tags=OURS, os_volume={"name": "home-a100-abcdefghij", "size": 730, "tags": OURS}
    )
    cloud.wait(3600 - 110)
    machine, disk = rows(cloud)[instance_id], next(r for r in bill(cloud)["rows"] if r["kind"] == "volume")
    assert machine == {
        "kind": "instance",
        "id": instance_id,
        "name": "home-a100-abcdefghij",
        "type": "1A100.22V",
        "market": "on-demand",
        "location": "FIN-03",
        "status": "running",
        "description": "gpuas home abcdefghij",
        "tags": {TAG_CLUSTER: "home", "gpuas-intent": "abcdefghij"},
        "cluster": "home",
        "instance_id": None,
        "owed_on_restore": 0.0,
        "running": True,
        "since": "2027-01-15T08:00:00.000Z",
        "until": None,
        "seconds": 3600.0,
        "increments": 6,
        "per_hour": 1.29,
        "cost": 1.29,
    }
    assert (disk["cluster"], disk["instance_id"], disk["per_hour"]) == ("home", instance_id, 0.2)
    assert disk["cost"] == close(0.2 * 3590 / 3600)


def test_sums_are_told_per_cluster_and_for_the_rest() -> None:
    cloud = Cloud()
    cloud.running(tags=OURS)
    cloud.create(hostname="stranger")
    cloud.wait(3600 - 110)
    found = bill(cloud)
    assert list(found["clusters"]) == ["home"]
    assert found["clusters"]["home"]["instances"] == close(1.29)
    assert found["clusters"]["home"]["volumes"] == 0.0  # its disk carries no tag
    assert found["rest"]["instances"] == close(1.29 * (3600 - 110) / 3600)
    assert found["total"] == close(found["clusters"]["home"]["total"] + found["rest"]["total"])
    assert found["total"] == close(sum(row["cost"] for row in found["rows"]))
    assert found["balance"] == close(found["paid_in"] - found["total"])
    assert found["per_hour"] == close(2 * 1.29 + 2 * 10 / 730)
    assert cloud.get("/balance")["amount"] == found["balance"]


def test_the_meter_of_everything_removed_has_stopped() -> None:
    cloud = Cloud()
    instance_id = cloud.running()
    os_id = cloud.get(f"/instances/{instance_id}")["os_volume_id"]
    cloud.delete(instance_id, volume_ids=[os_id], delete_permanently=True)
    assert bill(cloud)["per_hour"] == close(10 / 730)  # the disk, until it is gone
    cloud.wait(30 + 120)
    found = bill(cloud)
    assert (found["per_hour"], [row["running"] for row in found["rows"]]) == (0.0, [False, False])
    assert [row["until"] for row in found["rows"]] == ["2027-01-15T08:01:50.000Z", "2027-01-15T08:04:20.000Z"]
    cloud.wait(100_000)
    assert bill(cloud)["total"] == found["total"]


def test_a_disk_that_was_left_detached_goes_on_costing() -> None:
    cloud = Cloud()
    cloud.delete(cloud.running(), volume_ids=[])
    cloud.wait(3600)
    before = bill(cloud)
    assert [row["status"] for row in before["rows"]] == ["discontinued", "detached"]
    cloud.wait(730 * 3600)
    assert bill(cloud)["total"] == close(before["total"] + 10)


TRASH = [("on_restore", 0.0, 0.2), ("always", 0.2, 0.0), ("never", 0.0, 0.0)]


@pytest.mark.parametrize(("knob", "charged", "owed"), TRASH)
def test_the_trash_is_charged_as_it_is_configured(knob: str, charged: float, owed: float) -> None:
    cloud = Cloud(bill_trash=knob)
    volume_id = cloud.send("POST", "/volumes", DISK).body.decode()
    cloud.send("DELETE", f"/volumes/{volume_id}", {})
    cloud.wait(5)
    before = rows(cloud)[volume_id]
    cloud.wait(3600)
    after = rows(cloud)[volume_id]
    assert (after["status"], after["running"]) == ("trash", knob == "always")
    assert after["cost"] == close(before["cost"] + charged)
    assert after["owed_on_restore"] == close(owed)
    cloud.send("PUT", "/volumes", {"id": volume_id, "action": "restore"})
    assert rows(cloud)[volume_id]["cost"] == close(before["cost"] + charged + owed)
    assert rows(cloud)[volume_id]["running"]


def test_a_disk_destroyed_in_the_trash_costs_no_more() -> None:
    cloud = Cloud(bill_trash="always")
    volume_id = cloud.send("POST", "/volumes", DISK).body.decode()
    cloud.send("DELETE", f"/volumes/{volume_id}", {})
    cloud.wait(3605)
    cloud.send("DELETE", f"/volumes/{volume_id}", {"is_permanent": True})
    before = bill(cloud)["total"]
    cloud.wait(100 * 3600)
    assert bill(cloud)["total"] == before
    assert rows(cloud)[volume_id]["owed_on_restore"] == 0.0


def test_a_purge_ends_the_bill_of_the_trash() -> None:
    cloud = Cloud(bill_trash="always", trash_hours=1)
    volume_id = cloud.send("POST", "/volumes", DISK).body.decode()
    cloud.send("DELETE", f"/volumes/{volume_id}", {})
    cloud.wait(10 * 3600)
    row = rows(cloud)[volume_id]
    assert (row["status"], row["running"]) == ("destroyed", False)
    assert row["cost"] == close(0.2 * 3605 / 3600)


PREPAID = [  # machine seconds that are paid while it runs for 1000 s, and in the end
    ("per_second", 1000, 1000),
    ("prepaid_refunded", 1200, 1000),
    ("prepaid_kept", 1200, 1200),
]


@pytest.mark.parametrize(("scheme", "meanwhile", "afterwards"), PREPAID)
def test_the_balance_falls_as_the_scheme_wants(scheme: str, meanwhile: int, afterwards: int) -> None:
    cloud = Cloud(billing=scheme, volume_gb_month=0)
    instance_id = cloud.create()
    cloud.wait(1000)
    assert cloud.get("/balance")["amount"] == close(10_000 - 1.29 * meanwhile / 3600)
    cloud.delete(instance_id)
    cloud.wait(5000)
    row = rows(cloud)[instance_id]
    assert (row["cost"], row["increments"]) == (close(1.29 * afterwards / 3600), 2)
    assert cloud.get("/balance")["amount"] == close(10_000 - row["cost"])


@pytest.mark.parametrize("scheme", ["per_second", "prepaid_refunded", "prepaid_kept"])
def test_an_empty_balance_ends_everything_under_every_scheme(scheme: str) -> None:
    cloud = Cloud(billing=scheme, balance=0.9)
    instance_id = cloud.running()
    spare = cloud.send("POST", "/volumes", {**DISK, "size": 50}).body.decode()
    cloud.wait(24 * 3600)
    assert cloud.status(instance_id) == "discontinued"
    found = bill(cloud)
    assert found["balance"] >= 0
    assert (found["per_hour"], found["total"] > 0.5) == (0.0, True)
    assert {row["status"] for row in found["rows"] if row["kind"] == "volume"} == {"trash"}
    assert spare in {one["id"] for one in cloud.get("/volumes/trash")}


def test_disks_may_be_destroyed_when_the_money_ends() -> None:
    cloud = Cloud(balance=0.9, run_out_disks="destroy")
    cloud.running()
    cloud.wait(24 * 3600)
    assert (cloud.get("/volumes"), cloud.get("/volumes/trash")) == ([], [])
    assert bill(cloud)["per_hour"] == 0.0


def test_without_money_nothing_is_taken_out_of_the_trash() -> None:
    cloud = Cloud()
    volume_id = cloud.send("POST", "/volumes", DISK).body.decode()
    cloud.send("DELETE", f"/volumes/{volume_id}", {})
    cloud.wait(5)
    cloud.control("PUT", "settings", {"balance": 0})
    restore = {"id": volume_id, "action": "restore"}
    assert refusal(cloud.send("PUT", "/volumes", restore))[:2] == (402, "insufficient_funds")


def test_a_resized_disk_costs_more_from_then_on() -> None:
    cloud = Cloud()
    volume_id = cloud.send("POST", "/volumes", DISK).body.decode()
    cloud.wait(3600)
    cloud.send("PUT", "/volumes", {"id": volume_id, "action": "resize", "size": 1460})
    cloud.wait(3600)
    assert rows(cloud)[volume_id]["cost"] == close(0.2 + 0.4)
    assert rows(cloud)[volume_id]["seconds"] == 7200


def test_a_failed_create_is_billed_as_it_is_configured() -> None:
    for knob, running in ((False, False), (True, True)):
        cloud = Cloud(bill_no_capacity=knob)
        cloud.control("PUT", "outcomes", [{"outcome": "no_capacity"}])
        instance_id = cloud.create()
        cloud.wait(60)
        assert rows(cloud)[instance_id]["running"] is running


def test_a_machine_being_deleted_is_billed_as_it_is_configured() -> None:
    for knob, seconds in ((False, 110), (True, 140)):
        cloud = Cloud(bill_while_deleting=knob)
        instance_id = cloud.running()
        cloud.delete(instance_id)
        cloud.wait(100)
        assert rows(cloud)[instance_id]["seconds"] == seconds


def test_too_little_money_refuses_disks_too() -> None:
    cloud = Cloud(balance=0)
    assert refusal(cloud.send("POST", "/volumes", DISK))[:2] == (402, "insufficient_funds")


ACTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["create", "create", "delete", "keep", "evict", "hibernate", "disk", "trash", "destroy", "restore",
             "resize", "clone", "fail", "shut"]
        ),
        st.integers(0, 5),
        st.sampled_from([1, 7, 60, 110, 600, 601, 4000]),
    ),
    max_size=25,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    ACTS,
    st.sampled_from(["per_second", "prepaid_refunded", "prepaid_kept"]),
    st.sampled_from(["on_restore", "always", "never"]),
    st.sampled_from([0.5, 20, 10_000]),
)
def test_whatever_happens_the_bill_is_right_and_ends_with_the_last_thing(
    acts: list[tuple[str, int, int]], billing: str, trash: str, balance: float
) -> None:
    knobs = {"undeletable_statuses": [], "token_ttl_s": 1_000_000}
    cloud = Cloud(billing=billing, bill_trash=trash, balance=balance, **knobs)
    before = bill(cloud)
    for what, which, wait in acts:
        _act(cloud, what, which)
        cloud.wait(wait)
        after = bill(cloud)
        rounded = sum(row["cost"] for row in after["rows"])
        assert after["total"] == pytest.approx(rounded, abs=1e-4 * (1 + len(after["rows"])))
        assert after["paid_in"] == close(after["total"] + after["balance"])
        assert after["total"] >= before["total"] - (1e-4 if billing != "prepaid_refunded" else 6)
        before = after
    for one in cloud.get("/instances"):
        cloud.delete(one["id"], volume_ids=one["volume_ids"], delete_permanently=True)
    cloud.wait(1000)
    for one in cloud.get("/volumes") + cloud.get("/volumes/trash"):
        assert cloud.send("DELETE", f"/volumes/{one['id']}", {"is_permanent": True}).status in (202, 204)
    cloud.wait(1000)
    last = bill(cloud)
    assert (last["per_hour"], [row["id"] for row in last["rows"] if row["running"]]) == (0, [])
    cloud.wait(100_000)
    assert bill(cloud)["total"] == last["total"]


def _act(cloud: Cloud, what: str, which: int) -> None:
    machines, disks = list(cloud.world.state.instances), list(cloud.world.state.volumes)
    machine = machines[which % len(machines)] if machines else "none"
    disk = disks[which % len(disks)] if disks else "none"
    if what == "create":
        cloud.send(
            "POST", "/instances", {**ORDER, "is_spot": which % 2 == 0, "volumes": [DISK_OF_10] * (which % 2)}
        )
    elif what in ("delete", "keep"):
        cloud.delete(machine, **({"volume_ids": []} if what == "keep" else {}))
    elif what in ("hibernate", "shut"):
        action = "shutdown" if what == "shut" else what
        cloud.send("PUT", "/instances", {"action": action, "id": machine})
    elif what == "evict":
        cloud.control("POST", "events", {"event": "evict", "count": 1})
    elif what == "fail":
        cloud.control("POST", "events", {"event": "fail", "count": 1, "into": "no_capacity"})
    elif what == "disk":
        cloud.send("POST", "/volumes", DISK)
    elif what in ("trash", "destroy"):
        cloud.send("DELETE", f"/volumes/{disk}", {"is_permanent": what == "destroy"})
    else:
        cloud.send("PUT", "/volumes", {"action": what, "id": disk, "size": 2000})
