from __future__ import annotations

from typing import Any

import pytest

from .world import ORDER, Cloud, refusal

INVALID: list[tuple[dict[str, Any], str]] = [
    ({"instance_type": None}, "instance_type is required"),
    ({"instance_type": "9X900"}, "Invalid instance type 9X900"),
    ({"location_code": None}, "location_code is required"),
    ({"location_code": "MARS-1"}, "Invalid location code MARS-1"),
    ({"image": "windows"}, "Operating system is not valid for this instance type"),
    (
        {"instance_type": "1V100.6V", "image": "ubuntu-24.04-cuda-12.8-open"},
        "Operating system is not valid for this instance type",
    ),
    ({"instance_type": "1GB300.32V"}, "Operating system is not valid for this instance type"),
    ({"hostname": "a.b"}, "Invalid hostname"),
    ({"hostname": "-a"}, "Invalid hostname"),
    ({"hostname": "a-"}, "Invalid hostname"),
    ({"hostname": "123"}, "Invalid hostname"),
    ({"hostname": "a_b"}, "Invalid hostname"),
    ({"description": "x" * 61}, "description must be at most 60 characters long"),
    ({"tags": [{"key": f"k{n}"} for n in range(11)]}, "A resource can have at most 10 tags"),
    ({"tags": [{"key": "k" * 64}]}, "A tag key must have 1 to 63 characters"),
    (
        {"os_volume": {"name": "d", "size": 50, "on_spot_discontinue": "move_to_trash"}},
        "on_spot_discontinue can only be set for spot instances",
    ),
    ({"os_volume": {"name": "d", "size": 49}}, "size must be between 50"),
    ({"os_volume": {"size": 50}}, "name is required"),
    ({"volumes": [{"name": "d", "size": 50, "type": "HDD"}]}, "HDD volumes can no longer be created"),
    ({"existing_volumes": ["nope"]}, "Invalid volume id nope"),
    ({"startup_script_id": "nope"}, "Invalid startup script ID"),
    ({"contract": "LONG_TERM"}, "Long-term contracts are not available"),
    ({"contract": "SPOT"}, "contract SPOT requires is_spot"),
    ({"pricing": "DYNAMIC_PRICE"}, "Only FIXED_PRICE pricing is supported"),
    ({"is_spot": "true"}, "is_spot must be a boolean"),
    ({"ssh_key_ids": [1]}, "ssh_key_ids must be an id or an array of ids"),
]


@pytest.mark.parametrize(("changes", "sentence"), INVALID)
def test_a_create_with_a_bad_field_is_refused_and_leaves_nothing(
    changes: dict[str, Any], sentence: str
) -> None:
    cloud = Cloud()
    status, code, message = refusal(cloud.send("POST", "/instances", {**ORDER, **changes}))
    assert (status, code) == (400, "invalid_request")
    assert message.startswith(sentence)
    state = cloud.state()
    assert (state["creates"], state["instances"], state["volumes"]) == (0, [], [])


def test_explicit_nulls_count_as_absent() -> None:
    nulls = dict.fromkeys(("startup_script_id", "os_volume", "coupon", "tags", "contract", "pricing"))
    cloud = Cloud()
    cloud.create(**nulls, volumes=[], existing_volumes=[], ssh_key_ids=[], is_spot=False)


def test_a_create_answers_202_with_nothing_but_the_id() -> None:
    response = Cloud().send("POST", "/instances", ORDER)
    assert (response.status, len(response.body)) == (202, 36)
    assert response.headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize(("style", "length"), [("quoted", 38), ("newline", 37)])
def test_the_id_can_be_written_in_ways_that_clients_stumble_over(style: str, length: int) -> None:
    assert len(Cloud(id_body=style).send("POST", "/instances", ORDER).body) == length


def test_an_instance_goes_from_ordered_over_provisioning_to_running() -> None:
    cloud = Cloud()
    instance_id = cloud.create(os_volume={"name": "disk", "size": 100})
    first = cloud.get(f"/instances/{instance_id}")
    assert (first["status"], first["ip"], first["os_volume_id"]) == ("ordered", None, None)
    cloud.wait(10)
    assert cloud.status(instance_id) == "provisioning"
    cloud.wait(100)
    last = cloud.get(f"/instances/{instance_id}")
    assert last["status"] == "running"
    assert last["ip"]
    assert last["volume_ids"] == [last["os_volume_id"]]
    assert cloud.get(f"/volumes/{last['os_volume_id']}")["size"] == 100
    assert (last["price_per_hour"], last["location"], last["gpu"]["number_of_gpus"]) == (1.29, "FIN-03", 1)


def test_one_leap_of_the_clock_shows_what_small_steps_would_have_shown() -> None:
    leap, steps = Cloud(), Cloud()
    one, other = leap.create(), steps.create()
    leap.wait(500)
    for _ in range(500):
        steps.wait(1)
        steps.status(other)
    assert leap.state()["meter"] == steps.state()["meter"]
    assert leap.get(f"/instances/{one}") == steps.get(f"/instances/{other}")


def test_validating_comes_before_running_when_it_is_asked_for() -> None:
    cloud = Cloud(validating_s=50)
    instance_id = cloud.create()
    cloud.wait(111)
    assert cloud.status(instance_id) == "validating"
    cloud.wait(50)
    assert cloud.status(instance_id) == "running"


def test_a_new_instance_may_be_readable_before_it_is_listed() -> None:
    cloud = Cloud(list_lag_s=5)
    instance_id = cloud.create()
    assert cloud.status(instance_id) == "ordered"
    assert cloud.get("/instances") == []
    cloud.wait(5)
    assert [one["id"] for one in cloud.get("/instances")] == [instance_id]


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [(404, "not_found", "Instance not found"), (400, "invalid_request", "Invalid instance id")],
)
def test_an_unknown_id_is_refused_in_either_way(status: int, code: str, message: str) -> None:
    cloud = Cloud(unknown_id_status=status)
    assert refusal(cloud.send("GET", "/instances/nope")) == (status, code, message)
    assert refusal(cloud.delete("nope")) == (status, code, message)


def test_the_script_is_copied_at_create_and_may_be_deleted_at_once() -> None:
    cloud = Cloud()
    script_id = cloud.send("POST", "/scripts", {"name": "boot", "script": "#!/bin/bash"}).body.decode()
    cloud.create(startup_script_id=script_id)
    assert cloud.send("DELETE", f"/scripts/{script_id}").status == 200
    assert cloud.state()["instances"][0]["script"] == "#!/bin/bash"


def test_the_list_can_be_filtered_by_status_and_by_tags() -> None:
    cloud = Cloud()
    mine = cloud.create(tags=[{"key": "GPUAS-Cluster", "value": "home"}, {"key": "free"}])
    cloud.create()
    assert cloud.get("/instances?status=running") == []
    assert cloud.send("GET", "/instances?status=sleeping").status == 400
    for query in ("tag=gpuas-cluster=home", "tag=gpuas-cluster", "tag=free&tag=gpuas-cluster=home"):
        assert [one["id"] for one in cloud.get(f"/instances?{query}")] == [mine], query
    assert cloud.get("/instances?tag=free&tag=gpuas-cluster=away") == []


def test_without_tags_the_api_ignores_them() -> None:
    cloud = Cloud(tags=False)
    instance_id = cloud.create(tags=[{"key": "a"}])
    assert "tags" not in cloud.get(f"/instances/{instance_id}")
    assert len(cloud.get("/instances?tag=b")) == 1
    assert cloud.send("POST", f"/instances/{instance_id}/tags", {"key": "a"}).status == 403


def test_a_tag_links_once_and_unlinks_by_id_or_key() -> None:
    cloud = Cloud()
    path = f"/instances/{cloud.create()}/tags"
    tag = cloud.send("POST", path, {"key": "Owner", "value": "me"})
    assert (tag.status, tag.json()["key"]) == (201, "owner")
    assert refusal(cloud.send("POST", path, {"key": "owner", "value": "me"}))[:2] == (409, "conflict")
    assert cloud.send("DELETE", f"{path}/{tag.json()['id']}").status == 204
    assert cloud.send("DELETE", f"{path}/{tag.json()['id']}").status == 404
    cloud.send("POST", path, {"key": "owner", "value": "me"})
    assert cloud.send("DELETE", f"{path}/owner").status == 204


def test_hidden_aliased_and_extra_things_can_be_shown() -> None:
    cloud = Cloud()
    instance_id = cloud.create()
    cloud.control("PUT", "settings", {"status_alias": {"ordered": "pending"}, "extra_fields": {"new": 1}})
    shown = cloud.get("/instances")[0]
    assert (shown["status"], shown["new"]) == ("pending", 1)
    cloud.control("PUT", "settings", {"hide_from_list": [ORDER["hostname"]]})
    assert cloud.get("/instances") == []
    assert cloud.get(f"/instances/{instance_id}")["id"] == instance_id


# -- actions


def test_a_provisioning_instance_cannot_be_deleted() -> None:
    cloud = Cloud()
    instance_id = cloud.create()
    cloud.wait(20)
    assert refusal(cloud.delete(instance_id)) == (
        403,
        "forbidden_action",
        "Can't discontinue a provisioning instance",
    )
    cloud.wait(100)
    assert cloud.delete(instance_id).status == 202


def test_deleting_goes_over_deleting_to_discontinued_and_can_be_repeated() -> None:
    cloud = Cloud()
    instance_id = cloud.running()
    answer = cloud.delete(instance_id)
    assert answer.status == 202
    assert answer.json() == [{"instanceId": instance_id, "action": "delete", "status": "success"}]
    assert cloud.status(instance_id) == "deleting"
    assert cloud.delete(instance_id).status == 204
    cloud.wait(30)
    assert cloud.status(instance_id) == "discontinued"
    assert cloud.get("/instances") == []
    assert cloud.delete(instance_id).status == 204
    cloud.control("PUT", "settings", {"delete_discontinued_status": 403})
    assert refusal(cloud.delete(instance_id))[2] == "Can't discontinue a discontinued instance"


def test_one_action_on_many_answers_207_when_some_fail() -> None:
    cloud = Cloud()
    one = cloud.running()
    young = cloud.create()
    answer = cloud.delete([one, young, "nope"])
    assert answer.status == 207
    results = {row["instanceId"]: row for row in answer.json()}
    assert results[one]["status"] == results[young]["status"] == "success"
    assert (results["nope"]["status"], results["nope"]["statusCode"]) == ("error", 404)


def test_shutdown_keeps_the_meter_running_and_start_brings_it_back() -> None:
    cloud = Cloud()
    instance_id = cloud.running()
    assert cloud.send("PUT", "/instances", {"action": "start", "id": instance_id}).status == 204
    assert cloud.send("PUT", "/instances", {"action": "shutdown", "id": instance_id}).status == 202
    cloud.wait(10)
    assert cloud.status(instance_id) == "offline"
    before = cloud.state()["meter"]["instances"]
    cloud.wait(3600)
    assert cloud.state()["meter"]["instances"] == pytest.approx(before + 1.29, abs=1e-3)
    assert cloud.send("PUT", "/instances", {"action": "start", "id": instance_id}).status == 202
    cloud.wait(20)
    assert cloud.status(instance_id) == "running"


FATES = [
    ({}, "trash", "live"),
    ({"volume_ids": None, "delete_permanently": True}, "trash", "live"),
    ({"volume_ids": []}, "live", "live"),
    ({"volume_ids": ["os"]}, "trash", "live"),
    ({"volume_ids": ["os", "data"]}, "trash", "trash"),
    ({"volume_ids": ["os"], "delete_permanently": True}, "destroyed", "live"),
    ({"volume_ids": ["os", "data"], "delete_permanently": True}, "destroyed", "destroyed"),
]


@pytest.mark.parametrize(("sent", "os_fate", "data_fate"), FATES)
def test_which_disks_die_with_an_instance(sent: dict[str, Any], os_fate: str, data_fate: str) -> None:
    cloud = Cloud()
    instance_id = cloud.running(volumes=[{"name": "data", "size": 10, "type": "NVMe"}])
    os_id = cloud.get(f"/instances/{instance_id}")["os_volume_id"]
    data_id = next(one["id"] for one in cloud.get("/volumes") if one["id"] != os_id)
    ids = sent.get("volume_ids")
    body = sent | ({"volume_ids": [{"os": os_id, "data": data_id}[name] for name in ids]} if ids else {})
    assert cloud.delete(instance_id, **body).status == 202
    cloud.wait(30)
    assert {one["id"] for one in cloud.get("/volumes")} == {os_id, data_id}, "disks outlive the instance"
    cloud.wait(120)
    assert (_whereabouts(cloud, os_id), _whereabouts(cloud, data_id)) == (os_fate, data_fate)


def _whereabouts(cloud: Cloud, volume_id: str) -> str:
    if volume_id in {one["id"] for one in cloud.get("/volumes")}:
        return "live"
    if volume_id in {one["id"] for one in cloud.get("/volumes/trash")}:
        return "trash"
    assert cloud.get(f"/volumes/{volume_id}")["is_permanently_deleted"] is True
    return "destroyed"


def test_an_omitted_list_can_leave_even_the_os_disk_behind() -> None:
    cloud = Cloud(omitted_volume_ids="keep_all")
    instance_id = cloud.running()
    cloud.delete(instance_id)
    cloud.wait(1000)
    assert [one["status"] for one in cloud.get("/volumes")] == ["detached"]
