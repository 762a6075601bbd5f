from __future__ import annotations

from typing import Any

import pytest

from .world import ORDER, Cloud, refusal

SPOT = {"is_spot": True}


def test_no_stock_is_a_503_with_the_known_sentence() -> None:
    cloud = Cloud()
    cloud.control(
        "PUT", "stock", [{"instance_type": "1V100.6V", "location": "FIN-03", "market": "*", "count": 0}]
    )
    response = cloud.send("POST", "/instances", {**ORDER, "instance_type": "1V100.6V"})
    assert refusal(response) == (
        503,
        "service_unavailable",
        "Not enough resources to deploy a 1 GPU instance type 1V100.6V in FIN-03",
    )


def test_stock_is_taken_at_acceptance_and_given_back_when_the_instance_is_gone() -> None:
    cloud = Cloud()
    cloud.control(
        "PUT",
        "stock",
        [{"count": 0}, {"instance_type": "1A100.22V", "location": "FIN-03", "market": "spot", "count": 1}],
    )
    path = "/instance-availability/1A100.22V"
    assert (
        cloud.get(path),
        cloud.get(f"{path}?is_spot=true"),
        cloud.get(f"{path}?isSpot=true&locationCode=FIN-01"),
    ) == (False, True, False)
    instance_id = cloud.running(**SPOT)
    assert cloud.get(f"{path}?isSpot=true") is False
    assert cloud.send("POST", "/instances", {**ORDER, **SPOT}).status == 503
    cloud.delete(instance_id)
    cloud.wait(30)
    assert cloud.get(f"{path}?is_spot=true&location_code=FIN-03") is True


def test_the_availability_list_tells_the_two_markets_apart() -> None:
    cloud = Cloud()
    cloud.control("PUT", "stock", [{"market": "on-demand", "count": 0}])
    assert all(row["availabilities"] == [] for row in cloud.get("/instance-availability"))
    spot = cloud.get("/instance-availability?is_spot=true&location_code=ICE-01")
    assert [row["location_code"] for row in spot] == ["ICE-01"]
    assert "1A100.22V" in spot[0]["availabilities"]
    assert "1B200.30V" not in spot[0]["availabilities"]


@pytest.mark.parametrize("kind", ["no_capacity", "installation_failed", "error"])
def test_an_accepted_create_can_fail_later_and_stays_until_deleted(kind: str) -> None:
    cloud = Cloud()
    cloud.control("PUT", "outcomes", [{"instance_type": "1A100.22V", "outcome": kind, "after_s": 60}])
    instance_id = cloud.create()
    cloud.wait(59)
    assert cloud.status(instance_id) == "provisioning"
    cloud.wait(1)
    assert cloud.status(instance_id) == kind
    cloud.wait(100_000)
    assert [one["status"] for one in cloud.get("/instances")] == [kind]
    assert cloud.get(f"/journal/compute/{instance_id}")[0]["error_message"]
    assert cloud.delete(instance_id).status == 202
    cloud.running()


def test_a_stuck_create_provisions_for_ever_and_refuses_its_delete() -> None:
    cloud = Cloud()
    cloud.control("PUT", "outcomes", [{"outcome": "stuck"}])
    instance_id = cloud.create()
    cloud.wait(100_000)
    assert cloud.status(instance_id) == "provisioning"
    assert cloud.delete(instance_id).status == 403
    assert cloud.send("PUT", "/instances", {"action": "delete_stuck", "id": instance_id}).status == 202


def test_stock_may_turn_out_to_be_gone_when_provisioning_begins() -> None:
    cloud = Cloud(stock_taken="provisioning")
    cloud.control("PUT", "stock", [{"count": 1}])
    first, second = cloud.create(), cloud.create()
    cloud.wait(110)
    assert (cloud.status(first), cloud.status(second)) == ("running", "no_capacity")


EVICTED = [("keep_detached", 1, 0), ("move_to_trash", 0, 1), ("delete_permanently", 0, 0)]


@pytest.mark.parametrize(("fate", "live", "trash"), EVICTED)
def test_an_eviction_comes_without_notice_and_the_disk_follows_its_mark(
    fate: str, live: int, trash: int
) -> None:
    cloud = Cloud()
    disk = {"name": "d", "size": 50, "on_spot_discontinue": fate}
    instance_id = cloud.running(**SPOT, os_volume=disk)
    cloud.control("POST", "evict", {"hostname": ORDER["hostname"]})
    assert cloud.status(instance_id) == "discontinued"
    assert cloud.get("/instances") == []
    assert cloud.get(f"/journal/compute/{instance_id}")[0]["properties"] == {
        "delete_reason": "evicted_by_on_demand"
    }
    cloud.wait(120)
    assert (len(cloud.get("/volumes")), len(cloud.get("/volumes/trash"))) == (live, trash)


def test_only_spot_instances_are_evicted() -> None:
    cloud = Cloud()
    cloud.running()
    assert cloud.send("POST", "/_sandbox/evict", {"hostname": ORDER["hostname"]}).status == 400


QUOTAS: list[tuple[dict[str, Any], str]] = [
    ({"gpu_quota": 1}, "GPU limit exceeded"),
    ({"instance_quota": 1}, "Instance limit exceeded"),
    ({"storage_quota_gb": 99}, "Storage limit exceeded"),
]


@pytest.mark.parametrize(("knob", "sentence"), QUOTAS)
def test_a_quota_is_learned_from_a_400(knob: dict[str, Any], sentence: str) -> None:
    cloud = Cloud(**knob)
    cloud.create()
    assert refusal(cloud.send("POST", "/instances", ORDER)) == (400, "invalid_request", sentence)


def test_the_trash_counts_against_the_storage_quota_for_96_hours() -> None:
    cloud = Cloud(storage_quota_gb=60)
    cloud.delete(cloud.running())
    cloud.wait(30 + 120)
    assert refusal(cloud.send("POST", "/instances", ORDER))[2] == "Storage limit exceeded"
    cloud.wait(96 * 3600)
    cloud.create()


def test_too_little_money_is_a_402() -> None:
    cloud = Cloud(balance=0.1)
    assert refusal(cloud.send("POST", "/instances", ORDER))[:2] == (402, "insufficient_funds")


def test_an_empty_balance_discontinues_everything_and_goes_no_lower() -> None:
    cloud = Cloud(balance=1.5)
    instance_id = cloud.running()
    assert 0 < cloud.get("/balance")["amount"] < 1.5
    cloud.wait(2 * 3600)
    assert cloud.status(instance_id) == "discontinued"
    state = cloud.state()
    assert (state["balance"], state["volumes"], len(state["trash"])) == (0.0, [], 1)
    assert state["meter"]["total"] == 1.5
    cloud.wait(3600)
    assert cloud.state()["meter"]["total"] == 1.5
    assert cloud.get(f"/journal/compute/{instance_id}")[0]["properties"] == {
        "delete_reason": "insufficient_funds"
    }


def test_a_console_instance_is_foreign_and_counts_as_no_create() -> None:
    cloud = Cloud()
    body = {**ORDER, "hostname": "someone-else", "running": True}
    instance_id = cloud.control("POST", "instances", body).body.decode()
    assert cloud.status(instance_id) == "running"
    assert cloud.get(f"/instances/{instance_id}")["os_volume_id"]
    assert cloud.state()["creates"] == 0
    slow = cloud.control("POST", "instances", {**ORDER, "hostname": "other"}).body.decode()
    assert cloud.status(slow) == "ordered"


BAD_CONTROLS = [
    ("settings", {"speed": 0}, "speed: got 0, expected a number above 0"),
    ("settings", {"nope": 1}, "nope: got 1, expected no such knob"),
    ("settings", {"ordered_s": [5, 1]}, "ordered_s: got [5, 1], expected one number, [shortest"),
    ("settings", {"unknown_id_status": 500}, "unknown_id_status: got 500, expected one of 400, 404"),
    ("stock", [{"count": -1}], "stock[0].count: got -1, expected a whole number"),
    ("stock", [{"instance_type": "nope", "count": 1}], "stock[0]: got"),
    ("outcomes", [{"outcome": "boom"}], 'outcomes[0].outcome: got "boom", expected one of no_capacity'),
]


@pytest.mark.parametrize(("name", "body", "sentence"), BAD_CONTROLS)
def test_a_bad_control_names_the_key_and_changes_nothing(name: str, body: Any, sentence: str) -> None:
    cloud = Cloud()
    before = cloud.get("/_sandbox/settings"), cloud.state()["stock"]
    status, _, message = refusal(cloud.send("PUT", f"/_sandbox/{name}", body))
    assert status == 400
    assert message.startswith(sentence)
    assert (cloud.get("/_sandbox/settings"), cloud.state()["stock"]) == before
