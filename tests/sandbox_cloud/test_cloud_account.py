from __future__ import annotations

from typing import Any

import pytest

from controller.sandbox.cloud.catalogue import load
from controller.sandbox.wire import Request

from .world import ORDER, Cloud, refusal

CREDENTIALS = {"grant_type": "client_credentials", "client_id": "id", "client_secret": "secret"}


def test_a_token_lives_an_hour_of_real_time_whatever_the_speed() -> None:
    cloud = Cloud(speed=1000)
    cloud.get("/balance")
    cloud.now += 3599
    cloud.get("/balance")
    cloud.now += 1
    assert refusal(cloud.send("GET", "/balance"))[:2] == (401, "unauthorized_request")


def test_a_refresh_token_works_once_and_brings_the_next_one() -> None:
    cloud = Cloud()
    first = cloud.send("POST", "/oauth2/token", CREDENTIALS).json()
    assert (first["token_type"], first["expires_in"], first["scope"]) == ("Bearer", 3600, "cloud-api-v1")
    refresh = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    second = cloud.send("POST", "/oauth2/token", refresh)
    assert second.status == 200
    assert second.json()["refresh_token"] != first["refresh_token"]
    assert cloud.send("POST", "/oauth2/token", refresh).status == 401


def test_credentials_may_come_as_a_form() -> None:
    body = b"grant_type=client_credentials&client_id=a&client_secret=b"
    request = Request.of(
        "POST", "/v1/oauth2/token", body, {"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert Cloud().world.handle(request).status == 200


BAD_TOKENS: list[tuple[dict[str, str], int, str]] = [
    ({"grant_type": "password"}, 400, "unsupported grant type"),
    ({**CREDENTIALS, "client_secret": "wrong"}, 401, "Invalid client id or client secret"),
    ({"grant_type": "refresh_token", "refresh_token": "stale"}, 401, "Invalid refresh token"),
]


@pytest.mark.parametrize(("body", "status", "message"), BAD_TOKENS)
def test_a_bad_grant_is_refused_in_the_shape_of_the_api(body: Any, status: int, message: str) -> None:
    cloud = Cloud(credentials="id:secret")
    answer = refusal(cloud.send("POST", "/oauth2/token", body))
    assert (answer[0], answer[2]) == (status, message)


def test_types_and_storage_prices_are_public_and_the_rest_is_not() -> None:
    cloud = Cloud()
    for path, status in (
        ("/instance-types", 200),
        ("/volume-types", 200),
        ("/cluster-types", 200),
        ("/container-types", 200),
        ("/images", 401),
        ("/locations", 401),
        ("/instance-availability", 401),
        ("/nothing", 401),
    ):
        assert cloud.world.handle(Request.of("GET", f"/v1{path}")).status == status, path
    assert refusal(cloud.send("GET", "/nothing")) == (403, "forbidden_action", "Insufficient scope")
    cloud.control("PUT", "settings", {"unknown_path_status": 404})
    assert cloud.send("GET", "/nothing").status == 404


def test_revoked_tokens_are_stale_at_once() -> None:
    cloud = Cloud()
    cloud.get("/balance")
    cloud.control("POST", "revoke-tokens", b"")
    assert cloud.send("GET", "/balance").status == 401


# -- limits


def test_every_answer_tells_how_many_requests_are_left() -> None:
    cloud = Cloud(rate_limits=True)
    headers = cloud.send("GET", "/balance").headers
    assert headers["RateLimit-Policy"] == '"project";q=500;w=60, "endpoint";q=60;w=60'
    assert headers["RateLimit"] == '"project";r=499;t=60, "endpoint";r=59;t=60'
    assert "RateLimit" in cloud.send("GET", "/nothing").headers


@pytest.mark.parametrize(("path", "most"), [("/instances", 120), ("/volumes", 120), ("/balance", 60)])
def test_one_path_too_often_is_a_429_until_the_window_ends(path: str, most: int) -> None:
    cloud = Cloud(rate_limits=True)
    cloud.log_in()
    assert {cloud.send("GET", f"{path}?n={n}").status for n in range(most)} == {200}
    cloud.wait(20)
    answer = cloud.send("GET", path)
    assert refusal(answer)[:2] == (429, "rate_limit_exceeded")
    assert answer.headers["Retry-After"] == "40"
    cloud.wait(40)
    assert cloud.send("GET", path).status == 200


def test_the_project_has_500_requests_a_minute_and_a_429_may_be_no_json() -> None:
    cloud = Cloud(rate_limits=True, rate_limit_body="text")
    assert {cloud.send("GET", f"/instances/{n}").status for n in range(500)} == {404}
    answer = cloud.send("GET", "/balance")
    assert (answer.status, len(answer.body)) == (429, 11)


# -- catalogue


def test_the_whole_catalogue_is_there_with_its_quirks() -> None:
    types = {row["instance_type"]: row for row in Cloud().get("/instance-types")}
    assert len(types) == 55
    big = types["8H100.80S.176V"]
    assert (big["price_per_hour"], big["spot_price"]) == ("18.32", "6.412")
    assert (big["gpu_memory"]["size_in_gigabytes"], big["memory"]["size_in_gigabytes"]) == (640, 1480)
    assert types["CPU.4V.16G"]["gpu"] == {"description": "", "number_of_gpus": 0}
    assert types["CPU.4V.16G"]["price_per_hour"] == "0.02790"
    assert types["1GB300.32V"]["supported_os"] == []
    assert not any("open" in slug for slug in types["1V100.6V"]["supported_os"])
    assert types["1V100.6V"]["storage"] == {"description": "225GB NVME", "size_in_gigabytes": 225}
    lengths = {name: len(types[name]["supported_os"]) for name in ("1A100.22V", "1L40S.20V", "1B200.30V")}
    assert lengths == {"1A100.22V": 32, "1L40S.20V": 20, "1B200.30V": 13}


def test_images_can_be_asked_for_per_type() -> None:
    cloud = Cloud()
    slugs = {image["image_type"] for image in cloud.get("/images?instance_type=8B300.240V")}
    assert slugs == set(load().types["8B300.240V"].supported_os)
    assert cloud.send("GET", "/images?instance_type=nope").status == 404
    by_id = next(image["id"] for image in cloud.get("/images") if image["image_type"] == "ubuntu-24.04")
    cloud.create(image=by_id)


def test_prices_change_and_types_vanish_at_run_time() -> None:
    cloud = Cloud()
    old = cloud.create()
    cloud.control(
        "PUT",
        "settings",
        {
            "prices": {"1A100.22V": {"price_per_hour": "1.79"}},
            "removed_types": ["1V100.6V"],
            "renamed_types": {"2A100.44V": "2A100.88V"},
        },
    )
    types = {row["instance_type"]: row for row in cloud.get("/instance-types")}
    assert types["1A100.22V"]["price_per_hour"] == "1.790"
    assert {"1V100.6V", "2A100.44V"}.isdisjoint(types)
    prices = [cloud.get(f"/instances/{one}")["price_per_hour"] for one in (old, cloud.create())]
    assert prices == [1.29, 1.79]
    cloud.create(instance_type="2A100.88V")


# -- scripts and keys


def test_scripts_are_paged_newest_first_and_found_by_name() -> None:
    cloud = Cloud()
    for number in range(12):
        cloud.send("POST", "/scripts", {"name": f"gpuas-{number}", "script": "x"})
    page = cloud.send("GET", "/scripts")
    assert [one["name"] for one in page.json()] == [f"gpuas-{n}" for n in range(11, 1, -1)]
    assert page.headers["X-Total-Count"] == "12"
    assert [one["name"] for one in cloud.get("/scripts?page=2")] == ["gpuas-1", "gpuas-0"]
    assert [one["name"] for one in cloud.get("/scripts?name=S-11&pageSize=100")] == ["gpuas-11"]


def test_the_hundred_and_first_script_is_refused() -> None:
    cloud = Cloud()
    body = {"name": "a", "script": "x"}
    assert {cloud.send("POST", "/scripts", body).status for _ in range(100)} == {201}
    assert "limit exceeded" in refusal(cloud.send("POST", "/scripts", body))[2]


@pytest.mark.parametrize("path", ["/ssh-keys", "/sshkeys"])
def test_keys_live_on_both_paths(path: str) -> None:
    cloud = Cloud(any_ssh_key=False)
    key_id = cloud.send("POST", path, {"name": "me", "key": "ssh-ed25519 AAAA"}).body.decode()
    assert cloud.get(f"/ssh-keys/{key_id}")[0]["name"] == "me"
    cloud.create(ssh_key_ids=[key_id])
    cloud.control("PUT", "settings", {"by_id_as_array": False})
    assert cloud.get(f"{path}/{key_id}")["id"] == key_id
    assert cloud.send("DELETE", path, {"keys": [key_id]}).status == 200
    assert refusal(cloud.send("GET", f"{path}/{key_id}"))[2] == "Invalid ssh-key ID"
    assert refusal(cloud.send("POST", "/instances", {**ORDER, "ssh_key_ids": key_id}))[0] == 400


# -- disks and money


def test_a_disk_is_thrown_away_and_then_destroyed() -> None:
    cloud = Cloud()
    body = {"type": "NVMe", "name": "data", "size": 100, "location_code": "FIN-01"}
    volume_id = cloud.send("POST", "/volumes", body).body.decode()
    path = f"/volumes/{volume_id}"
    assert cloud.send("DELETE", path, {"is_permanent": False}).status == 202
    cloud.wait(5)
    assert cloud.send("DELETE", path, {"is_permanent": False}).status == 204
    assert [one["id"] for one in cloud.get("/volumes/trash")] == [volume_id]
    assert cloud.send("DELETE", path, {"is_permanent": True}).status == 202
    assert (cloud.get("/volumes/trash"), cloud.get("/volumes")) == ([], [])
    assert cloud.send("DELETE", path, {"is_permanent": True}).status == 204
    cloud.control("PUT", "settings", {"repeated_permanent_delete_status": 400})
    assert "already permanently deleted" in refusal(cloud.send("DELETE", path, {"is_permanent": True}))[2]


def test_a_disk_on_a_machine_that_is_up_cannot_be_deleted() -> None:
    cloud = Cloud()
    os_id = cloud.get(f"/instances/{cloud.running()}")["os_volume_id"]
    assert cloud.send("DELETE", f"/volumes/{os_id}", {}).status == 403


def test_a_restored_disk_is_billed_for_its_time_in_the_trash() -> None:
    cloud = Cloud()
    body = {"type": "NVMe", "name": "data", "size": 1000, "location_code": "FIN-01"}
    volume_id = cloud.send("POST", "/volumes", body).body.decode()
    cloud.send("DELETE", f"/volumes/{volume_id}", {})
    cloud.wait(3605)
    before = cloud.state()["meter"]["volumes"]
    cloud.wait(3600)
    assert cloud.state()["meter"]["volumes"] == before
    assert cloud.send("PUT", "/volumes", {"id": volume_id, "action": "restore"}).status == 202
    assert cloud.state()["meter"]["volumes"] == pytest.approx(before + 2 * 200 / 730, abs=1e-3)


def test_an_old_os_disk_boots_again() -> None:
    cloud = Cloud()
    first = cloud.running()
    os_id = cloud.get(f"/instances/{first}")["os_volume_id"]
    cloud.delete(first, volume_ids=[])
    cloud.wait(30)
    bad = {**ORDER, "image": os_id, "os_volume": {"name": "x", "size": 50}}
    assert cloud.send("POST", "/instances", bad).status == 400
    assert (
        cloud.send("POST", "/instances", {**ORDER, "image": os_id, "location_code": "FIN-01"}).status == 400
    )
    second = cloud.running(image=os_id)
    assert cloud.get(f"/instances/{second}")["os_volume_id"] == os_id


def test_the_meter_counts_every_second_until_the_delete_and_disks_until_they_are_gone() -> None:
    cloud = Cloud(speed=60)
    instance_id = cloud.create()  # 10 s ordered: the disk begins with provisioning
    cloud.wait(60)
    cloud.delete(instance_id, volume_ids=[cloud.get(f"/instances/{instance_id}")["os_volume_id"]])
    cloud.wait(600)
    meter = cloud.state()["meter"]
    assert meter["instances"] == pytest.approx(1.29, abs=1e-4)
    assert meter["volumes"] == pytest.approx((3600 - 10 + 30 + 120) / 3600 * 10 / 730, abs=1e-4)
    assert meter["total"] == pytest.approx(meter["instances"] + meter["volumes"], abs=1e-4)
    assert cloud.get("/balance")["amount"] == pytest.approx(10000 - meter["total"], abs=1e-3)


def test_a_change_of_speed_does_not_rewrite_what_things_have_cost() -> None:
    cloud = Cloud(speed=3600)
    cloud.create()
    cloud.wait(1)
    cloud.control("PUT", "settings", {"speed": 1})
    assert cloud.state()["meter"]["instances"] == pytest.approx(1.29, abs=1e-3)
    cloud.wait(1)
    assert cloud.state()["meter"]["instances"] == pytest.approx(1.29, abs=1e-3)
