"""No knob is for show: turning it changes what a client sees. And each of the open questions has one."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from controller.sandbox.cloud.knobs import BadSetting
from controller.sandbox.cloud.settings import Settings

from .probes import NVME, TABLE, act
from .world import ORDER, Cloud, refusal


def test_every_knob_is_in_the_table() -> None:
    assert list(TABLE) == [knob.name for knob in fields(Settings)]


@pytest.mark.parametrize("name", list(TABLE))
def test_turning_a_knob_changes_what_is_seen(name: str) -> None:
    value, probe = TABLE[name]
    turned = Cloud(**({name: value} if name not in ("credentials", "strict_user_agent") else {}))
    if name in ("credentials", "strict_user_agent"):
        turned.log_in()
        turned.control("PUT", "settings", {name: value})
    assert probe(turned) != probe(Cloud())


@pytest.mark.parametrize("name", list(TABLE))
def test_a_knob_can_be_turned_while_the_cloud_runs_and_back_again(name: str) -> None:
    cloud = Cloud()
    before = cloud.get("/_sandbox/settings")["settings"]
    turned = cloud.control("PUT", "settings", {name: TABLE[name][0]}).json()["settings"]
    assert {key for key in before if before[key] != turned[key]} == {name}
    back = cloud.control("PUT", "settings", {name: before[name]}).json()["settings"]
    assert back == before


@pytest.mark.parametrize("name", list(TABLE))
def test_a_value_of_no_sense_is_refused_by_name(name: str) -> None:
    with pytest.raises(BadSetting, match=rf"^{name}\S*: got .*, expected "):
        Settings().changed({name: {"no": ["sense", object]} if name != "extra_fields" else 7})


def test_every_open_question_is_answered_by_a_knob() -> None:
    asked = {knob.metadata["question"] for knob in fields(Settings)} - {None}
    assert asked == set(range(1, 12))


QUESTION_VALUES: list[tuple[str, Any]] = [
    (knob.name, option)
    for knob in fields(Settings)
    if knob.metadata["question"] is not None
    for option in knob.metadata.get("options", [True, False] if knob.metadata["kind"] == "flag" else [])
]


@pytest.mark.parametrize(("name", "value"), QUESTION_VALUES)
def test_a_machine_lives_and_dies_whatever_the_answers_to_the_open_questions(name: str, value: Any) -> None:
    cloud = Cloud(**{name: value})
    cloud.log_in()
    cloud.send("POST", "/instances", {**ORDER, "ssh_key_ids": ["x"]})
    cloud.wait(200)
    (shown,) = cloud.get("/instances")
    assert shown["status"] == "running"
    disks = shown["volume_ids"]
    assert cloud.delete(shown["id"], volume_ids=disks, delete_permanently=True).status == 202
    cloud.wait(1000)
    assert (cloud.get("/instances"), cloud.get("/volumes"), cloud.get("/volumes/trash")) == ([], [], [])
    assert cloud.get("/_sandbox/bill")["per_hour"] == 0


def test_shared_disks_tell_how_to_mount_them() -> None:
    cloud = Cloud()
    volume_id = cloud.send("POST", "/volumes", {**NVME, "type": "NVMe_Shared"}).body.decode()
    shown = cloud.get(f"/volumes/{volume_id}")
    assert shown["pseudo_path"] in shown["mount_command"]


def test_an_existing_disk_is_attached_once() -> None:
    cloud = Cloud()
    volume_id = cloud.send("POST", "/volumes", NVME).body.decode()
    instance_id = cloud.create(existing_volumes=[volume_id, volume_id])
    assert cloud.get(f"/instances/{instance_id}")["volume_ids"] == [volume_id]
    assert refusal(cloud.send("POST", "/instances", {**ORDER, "existing_volumes": [volume_id]}))[0] == 400


def test_a_disk_that_is_still_detaching_cannot_be_deleted_yet() -> None:
    cloud = Cloud(volume_detach_s=60)
    cloud.delete(cloud.running(), volume_ids=[])
    cloud.wait(31)
    disk = cloud.get("/volumes")[0]
    assert (disk["status"], cloud.get("/instances")) == ("detaching", [])
    assert refusal(cloud.send("DELETE", f"/volumes/{disk['id']}", {}))[:2] == (403, "forbidden_action")
    cloud.wait(60)
    assert cloud.send("DELETE", f"/volumes/{disk['id']}", {"is_permanent": True}).status == 202


@pytest.mark.parametrize("action", ["configure_spot", "deploy", "transfer"])
def test_actions_that_nobody_explains_are_refused(action: str) -> None:
    assert act(Cloud(), action)[0] == 403


def test_pages_of_the_journal_have_ten_to_a_hundred_rows() -> None:
    cloud = Cloud()
    for number in range(12):
        cloud.create(hostname=f"m{number}")
    assert len(cloud.get("/journal/compute")) == 10
    assert len(cloud.get("/journal/compute?pageSize=100")) == 12
    assert refusal(cloud.send("GET", "/journal/compute?pageSize=9"))[0] == 400
