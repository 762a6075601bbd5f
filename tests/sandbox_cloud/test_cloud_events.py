"""Events: what can be made to happen in the sandbox cloud, each shown by what a client sees of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.sandbox.cloud.events import EVENTS

from .world import ORDER, Cloud, refusal


def happen(cloud: Cloud, event: str, **words: Any) -> Any:
    return cloud.control("POST", "events", {"event": event, **words}).json()


def test_there_is_a_test_for_every_event() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert all(f'happen(cloud, "{name}"' in text or f'"{name}",\n' in text for name in EVENTS)


def crowd(cloud: Cloud, count: int, **words: Any) -> None:
    instance = {"hostname": "spot-{n}", "is_spot": True, "count": count, **words}
    happen(cloud, "plant", things=[{"instance": instance}])


def test_a_wave_takes_a_share_of_the_spot_machines_of_a_type_and_place_over_a_time() -> None:
    cloud = Cloud()
    crowd(cloud, 20, instance_type="1A100.22V", location_code="FIN-01")
    crowd(cloud, 5, instance_type="1A100.22V", location_code="FIN-02")
    happen(cloud, "plant", things=[{"instance": {"hostname": "steady", "location_code": "FIN-01"}}])
    told = happen(cloud, "evict", location="FIN-01", instance_type="1A100.22V", share=0.5, over_s=60)
    assert len(set(told["ids"])) == 10
    assert len(cloud.get("/instances")) == 26
    cloud.wait(30)
    assert 16 < len(cloud.get("/instances")) < 26
    cloud.wait(30)
    left = cloud.get("/instances")
    assert len(left) == 16
    assert sum(one["location"] == "FIN-02" for one in left) == 5


def test_an_eviction_is_in_the_journal_or_not_as_it_is_configured() -> None:
    for knob, journal, reasons in (
        (True, None, ["evicted_by_on_demand"]),
        (False, None, []),
        (True, False, []),
        (False, True, ["evicted_by_on_demand"]),
    ):
        cloud = Cloud(evictions_in_journal=knob)
        crowd(cloud, 1)
        told = happen(cloud, "evict", **({} if journal is None else {"journal": journal}))
        events = cloud.get(f"/journal/compute/{told['ids'][0]}")
        assert [e["properties"]["delete_reason"] for e in events if e["properties"]] == reasons


def test_the_stock_of_evicted_machines_is_gone_or_comes_back() -> None:
    for give_back, free in ((False, False), (True, True)):
        cloud = Cloud()
        happen(cloud, "stock", rows=[{"instance_type": "CPU.4V.16G", "market": "spot", "count": 1}])
        crowd(cloud, 1)
        happen(cloud, "evict", count=1, return_stock=give_back)
        where = "/instance-availability/CPU.4V.16G?is_spot=true&location_code=FIN-03"
        assert cloud.get(where) is free


def test_somebody_deletes_a_machine_in_the_console() -> None:
    for disks, live, trash in (("keep", 1, 0), ("trash", 0, 1), ("destroy", 0, 0)):
        cloud = Cloud()
        instance_id = cloud.running()
        assert happen(cloud, "delete", hostname="home-*", disks=disks)["ids"] == [instance_id]
        assert cloud.get(f"/journal/compute/{instance_id}")[0]["request_origin"] == "console"
        cloud.wait(30 + 120)
        assert cloud.status(instance_id) == "discontinued"
        assert (len(cloud.get("/volumes")), len(cloud.get("/volumes/trash"))) == (live, trash)


def test_somebody_shuts_a_machine_down_and_it_goes_on_costing() -> None:
    cloud = Cloud()
    instance_id = cloud.running()
    happen(cloud, "shut_down", id=instance_id)
    cloud.wait(10)
    assert cloud.status(instance_id) == "offline"
    before = cloud.state()["meter"]["instances"]
    cloud.wait(3600)
    assert cloud.state()["meter"]["instances"] == pytest.approx(before + 1.29, abs=1e-3)


@pytest.mark.parametrize("status", ["error", "unknown", "notfound", "never-seen-before"])
def test_a_machine_that_runs_ends_in_a_status_that_is_no_good(status: str) -> None:
    cloud = Cloud()
    instance_id = cloud.running()
    happen(cloud, "fail", id=instance_id, into=status, error="GPU_QUOTA_EXCEEDED")
    assert cloud.status(instance_id) == status
    assert [one["status"] for one in cloud.get("/instances")] == [status]
    assert cloud.get(f"/journal/compute/{instance_id}")[0]["error_message"] == "GPU_QUOTA_EXCEEDED"
    assert cloud.delete(instance_id).status == 202


def test_a_balance_that_runs_out_takes_everything_with_it() -> None:
    cloud = Cloud()
    instance_id = cloud.running()
    kept = cloud.send(
        "POST", "/volumes", {"type": "NVMe", "name": "data", "size": 10, "location_code": "FIN-03"}
    ).body.decode()
    happen(cloud, "balance", amount=0)
    cloud.wait(1)
    assert cloud.status(instance_id) == "discontinued"
    assert cloud.get("/volumes") == []
    assert kept in {one["id"] for one in cloud.get("/volumes/trash")}
    assert refusal(cloud.send("POST", "/instances", ORDER))[:2] == (402, "insufficient_funds")


def test_the_catalogue_changes_step_by_step() -> None:
    cloud = Cloud()

    def types() -> dict[str, Any]:
        return {row["instance_type"]: row for row in cloud.get("/instance-types")}

    happen(cloud, "catalogue", prices={"1A100.22V": {"price_per_hour": "1.79"}}, removed_types=["1V100.6V"])
    happen(cloud, "catalogue", prices={"2A100.44V": {"spot_price": "0.5"}})
    happen(
        cloud, "catalogue", added_types={"1H400.40V": "1H100.80S.30V"}, renamed_types={"1L40S.20V": "1L40X"}
    )
    happen(cloud, "catalogue", supported_os={"1A100.22V": ["ubuntu-24.04"]})
    found = types()
    assert (found["1A100.22V"]["price_per_hour"], found["2A100.44V"]["spot_price"]) == ("1.790", "0.5000")
    assert {"1H400.40V", "1L40X"} < set(found)
    assert {"1V100.6V", "1L40S.20V"}.isdisjoint(found)
    assert found["1A100.22V"]["supported_os"] == ["ubuntu-24.04"]
    assert [one["image_type"] for one in cloud.get("/images?instance_type=1A100.22V")] == ["ubuntu-24.04"]
    assert found["1H400.40V"]["id"] != found["1H100.80S.30V"]["id"]
    happen(cloud, "catalogue", returned_types=["1V100.6V"])
    assert "1V100.6V" in types()


def test_a_type_that_appeared_is_bought_from_the_stock_of_the_one_it_is_like() -> None:
    cloud = Cloud(added_types={"1H400.40V": "1H100.80S.30V"}, prices={"1H400.40V": {"price_per_hour": 9}})
    happen(cloud, "stock", rows=[{"instance_type": "1H100.80S.30V", "count": 1}])
    instance_id = cloud.create(instance_type="1H400.40V")
    assert cloud.get(f"/instances/{instance_id}")["price_per_hour"] == 9
    assert cloud.send("POST", "/instances", {**ORDER, "instance_type": "1H400.40V"}).status == 503


def test_credentials_are_rotated() -> None:
    cloud = Cloud()
    cloud.get("/balance")
    happen(cloud, "revoke_tokens", credentials="id:new")
    assert cloud.send("GET", "/balance").status == 401
    grant = {"grant_type": "client_credentials", "client_id": "id", "client_secret": "secret"}
    assert cloud.send("POST", "/oauth2/token", grant).status == 401
    assert cloud.send("POST", "/oauth2/token", {**grant, "client_secret": "new"}).status == 200


def test_creates_fail_later_by_share_with_their_own_words_and_get_stuck_anywhere() -> None:
    cloud = Cloud()
    rows = [{"outcome": "error", "share": 0.5, "times": 0, "error": "GPU_QUOTA_EXCEEDED"}]
    happen(cloud, "outcomes", rows=rows)
    ids = [cloud.create(hostname=f"m{number}") for number in range(40)]
    cloud.wait(200)
    failed = [one for one in ids if cloud.status(one) == "error"]
    assert 10 < len(failed) < 30
    assert cloud.get(f"/journal/compute/{failed[0]}")[0]["error_message"] == "GPU_QUOTA_EXCEEDED"
    happen(cloud, "outcomes", rows=[{"outcome": "stuck", "stuck_in": "ordered"}])
    stuck = cloud.create()
    cloud.wait(10_000)
    assert cloud.status(stuck) == "ordered"
    assert cloud.delete(stuck).status == 202


def test_quotas_change_while_the_cloud_runs() -> None:
    cloud = Cloud()
    cloud.create()
    happen(cloud, "settings", values={"instance_quota": 1})
    assert refusal(cloud.send("POST", "/instances", ORDER))[2] == "Instance limit exceeded"
    happen(cloud, "settings", values={"instance_quota": None, "vcpu_quota": 30})
    assert refusal(cloud.send("POST", "/instances", ORDER))[2] == "vCPU limit exceeded"


def test_foreign_things_orphans_and_look_alikes_are_planted() -> None:
    cloud = Cloud()
    told = happen(
        cloud,
        "plant",
        things=[
            {"instance": {"hostname": "home-a100-{n}", "description": "somebody's", "count": 3}},
            {"instance": {"hostname": "coming", "running": False}},
            {"disk": {"name": "home-a100-abcdefghij", "os_image": "ubuntu-24.04"}},
            {
                "disk": {
                    "name": "thrown",
                    "where": "trash",
                    "tags": [{"key": "gpuas-cluster", "value": "home"}],
                }
            },
            {"disk": {"name": "gone", "where": "destroyed"}},
            {"disk": {"name": "data", "where": "attached", "instance": "home-a100-1"}},
            {"script": {"name": "gpuas-home-{n}", "script": "#!/bin/bash\n# gpuas home {n}\n", "count": 12}},
            {"ssh_key": {"name": "me"}},
        ],
    )
    assert [(one["kind"], len(one["ids"])) for one in told["planted"]] == [
        ("instance", 3), ("instance", 1), ("disk", 1), ("disk", 1), ("disk", 1), ("disk", 1), ("script", 12),
        ("ssh_key", 1),
    ]  # fmt: skip
    shown = {one["hostname"]: one for one in cloud.get("/instances")}
    assert sorted(shown) == ["coming", "home-a100-0", "home-a100-1", "home-a100-2"]
    assert (shown["coming"]["status"], shown["home-a100-0"]["status"]) == ("ordered", "running")
    disks = {one["name"]: one for one in cloud.get("/volumes")}
    assert disks["home-a100-abcdefghij"]["status"] == "detached"
    assert disks["data"]["instance_id"] == shown["home-a100-1"]["id"]
    assert [one["name"] for one in cloud.get("/volumes/trash")] == ["thrown"]
    assert "home-a100-abcdefghij" not in [one["name"] for one in cloud.get("/scripts")]
    assert len(cloud.get("/scripts?page=2")) == 2
    assert cloud.state()["creates"] == 0
    assert cloud.get(f"/journal/compute/{shown['coming']['id']}")[0]["request_origin"] == "console"
