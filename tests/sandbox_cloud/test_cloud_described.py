"""The description of the API and the API tell the same story: every path, every status, every shape.

All other tests of the cloud hold their answers against the description too (see `world`); here one wide
run meets everything that is described, and random requests look for what is not.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from controller.sandbox.cloud.api import PROTECTED, PUBLIC
from controller.sandbox.cloud.control import CONTROLS
from controller.sandbox.cloud.instances import STATUSES
from controller.sandbox.cloud.openapi import description
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.wire import Response

from .described import Seen, check_answer, document
from .world import ORDER, Cloud

NOWHERE = "00000000-0000-4000-8000-000000000000"
NVME = {"type": "NVMe", "name": "data", "size": 10, "location_code": "FIN-03"}


def described() -> set[Seen]:
    return {
        (method.upper(), path, int(status))
        for path, methods in document(strict=True)["paths"].items()
        for method, told in methods.items()
        for status in told["responses"]
    }


def test_the_description_is_whole() -> None:
    found = description()
    assert found["openapi"] == "3.1.0"
    assert json.loads(json.dumps(found)) == found
    wanted = {(route.method, route.path) for route in (*PUBLIC, *PROTECTED)} | {("POST", "/oauth2/token")}
    wanted |= {(name.split(" ")[0], f"/_sandbox/{name.split(' ')[1]}") for name in CONTROLS}
    assert {(method, path) for method, path, _ in described()} == wanted
    ids = [told["operationId"] for methods in found["paths"].values() for told in methods.values()]
    assert len(ids) == len(set(ids))
    for schema in found["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    named = set(found["components"]["schemas"])
    text = json.dumps(found)
    assert {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]} <= named


def test_the_tables_of_the_code_are_what_is_described() -> None:
    shapes = description()["components"]["schemas"]
    assert shapes["Instance"]["properties"]["status"]["examples"] == list(STATUSES)
    assert "delete_stuck" in shapes["InstanceAction"]["properties"]["action"]["enum"]


def test_a_wide_run_meets_everything_that_is_described_and_nothing_else() -> None:
    seen: set[Seen] = set()
    for walk in (_refusals, _market, _machines, _broken_machines, _disks, _tags, _scripts_and_keys, _sandbox):
        seen |= walk()
    missing = {one for one in described() if one not in seen}
    assert missing == set()


def _paths(cloud: Cloud) -> list[tuple[str, str]]:
    return [(route.method, route.path) for route in PROTECTED]


def _refusals() -> set[Seen]:
    """What every path may answer: no User-Agent, no token, too often."""
    seen: set[Seen] = set()
    strict = Cloud(strict_user_agent=True)
    narrow = Cloud(rate_limits=True, limit_public=True, endpoint_limit=0, list_limit=0)
    narrow.token = "never asked"
    held = Cloud(rate_limits=True)
    held.log_in()
    held.control("PUT", "settings", {"endpoint_limit": 0, "list_limit": 0})
    for route in (*PUBLIC, *PROTECTED):
        strict.send(route.method, route.path, {}, {"User-Agent": ""})
        held.send(route.method, route.path, {})
        narrow.send(route.method, route.path, {})
        Cloud.send(strict, route.method, route.path, {}, {"Authorization": "Bearer stale"})
    narrow.send("POST", "/oauth2/token", {})
    for body in ({}, {"grant_type": "refresh_token", "refresh_token": "stale"}):
        held.send("POST", "/oauth2/token", body)
    for cloud in (strict, narrow, held):
        seen |= cloud.seen
    return seen


def _market() -> set[Seen]:
    cloud = Cloud()
    for path in ("instance-types", "instances/types", "volume-types", "locations", "images", "images/cluster",
                 "instance-availability", "balance", "long-term/periods", "long-term/periods/instances",
                 "long-term/periods/clusters", "cluster-types", "container-types"):  # fmt: skip
        cloud.get(f"/{path}")
    cloud.send("GET", "/instance-types/price-history")
    cloud.send("GET", "/images?instance_type=none")
    for path in ("instance-availability", "instances/availability"):
        cloud.get(f"/{path}/1A100.22V")
        cloud.send("GET", f"/{path}/none")
    cloud.control("PUT", "settings", {"availability_as": "text"})
    assert cloud.get("/instance-availability/1A100.22V") == "true"
    return cloud.seen


def _machines() -> set[Seen]:
    cloud = Cloud(status_alias={"running": "never-heard-of"}, jupyter_token=True)
    for path in ("PUT /instances", "POST /instances/action"):
        method, where = path.split(" ")
        one, other = cloud.create(), cloud.create()
        cloud.wait(20)
        cloud.send(method, where, {"action": "delete", "id": one})
        cloud.wait(100)
        cloud.send(method, where, {"action": "shutdown", "id": other})
        cloud.send(method, where, {"action": "delete", "id": [one, NOWHERE]})
        cloud.send(method, where, {"action": "delete", "id": one})
        cloud.send(method, where, {"action": "delete", "id": NOWHERE})
        cloud.send(method, where, {"action": "dance", "id": one})
        cloud.get(f"/instances/{one}")
    cloud.send("GET", f"/instances/{NOWHERE}")
    cloud.get("/instances")
    cloud.get("/journal/compute?pageSize=100")
    cloud.get(f"/journal/compute/{one}")
    return cloud.seen


def _broken_machines() -> set[Seen]:
    cloud = Cloud()
    cloud.control("PUT", "stock", [{"instance_type": "2A100.44V", "count": 0}])
    cloud.control("PUT", "outcomes", [{"outcome": "no_capacity"}, {"outcome": "error"}])
    for _ in range(2):
        cloud.create()
    cloud.wait(200)
    cloud.get("/instances")
    cloud.get("/journal/compute")
    cloud.send("POST", "/instances", {**ORDER, "instance_type": "2A100.44V"})
    cloud.control("POST", "events", {"event": "balance", "amount": 0})
    cloud.send("POST", "/instances", ORDER)
    return cloud.seen


def _disks() -> set[Seen]:
    cloud = Cloud()
    up = cloud.running(volumes=[{"name": "shared", "size": 10, "type": "NVMe_Shared"}])
    disk = cloud.send("POST", "/volumes", NVME).body.decode()
    path = f"/volumes/{disk}"
    cloud.send("POST", "/volumes", {**NVME, "instance_id": up})
    cloud.send("DELETE", f"/volumes/{cloud.get(f'/instances/{up}')['os_volume_id']}", {})
    cloud.get("/volumes")
    for body in ({"action": "rename", "name": "new"}, {"action": "clone"}, {"action": "export"}):
        cloud.send("PUT", "/volumes", {"id": disk, **body})
    cloud.send("PUT", "/volumes", {"id": NOWHERE, "action": "detach"})
    cloud.control("PUT", "settings", {"clone_answer": "object"})
    cloud.send("PUT", "/volumes", {"id": disk, "action": "clone"})
    cloud.send("DELETE", path, {})
    cloud.send("DELETE", path, {})
    cloud.send("PUT", "/volumes", {"id": disk, "action": "delete"})
    cloud.wait(10)
    cloud.get("/volumes/trash")
    cloud.get(path)
    cloud.send("GET", f"/volumes/{NOWHERE}")
    cloud.send("DELETE", f"/volumes/{NOWHERE}", {})
    cloud.control("POST", "events", {"event": "balance", "amount": 0})
    cloud.send("POST", "/volumes", NVME)
    cloud.send("PUT", "/volumes", {"id": disk, "action": "restore"})
    return cloud.seen


def _tags() -> set[Seen]:
    cloud = Cloud()
    gone = cloud.running()
    cloud.delete(gone)
    disk, lost = (cloud.send("POST", "/volumes", NVME).body.decode() for _ in range(2))
    cloud.send("DELETE", f"/volumes/{lost}", {})
    cloud.wait(200)
    tag = {"key": "owner", "value": "me"}
    for kind, here, dead in (("instances", cloud.create(), gone), ("volumes", disk, lost)):
        for one in (here, dead, NOWHERE):
            for body in (tag, tag, {"key": ""}):
                cloud.send("POST", f"/{kind}/{one}/tags", body)
            cloud.send("GET", f"/{kind}/{one}/tags")
            cloud.send("DELETE", f"/{kind}/{one}/tags/owner")
    return cloud.seen


def _scripts_and_keys() -> set[Seen]:
    cloud = Cloud()
    for path, body, bulk in (
        ("/scripts", {"name": "a", "script": "b"}, "scripts"),
        ("/ssh-keys", {"name": "a", "key": "b"}, "keys"),
        ("/sshkeys", {"name": "a", "key": "b"}, "keys"),
    ):
        ids = [cloud.send("POST", path, body).body.decode() for _ in range(2)]
        cloud.get(path)
        for as_array in (True, False):
            cloud.control("PUT", "settings", {"by_id_as_array": as_array})
            cloud.get(f"{path}/{ids[0]}")
        cloud.send("DELETE", f"{path}/{ids[0]}")
        cloud.send("DELETE", path, {bulk: [ids[1]]})
        cloud.send("GET", f"{path}/{NOWHERE}")
        cloud.send("DELETE", f"{path}/{NOWHERE}")
    cloud.control("PUT", "settings", {"id_body": "object"})
    cloud.send("POST", "/scripts", {"name": "a", "script": "b"})
    return cloud.seen


def _sandbox() -> set[Seen]:
    cloud = Cloud()
    cloud.running(is_spot=True)
    good: dict[str, Any] = {
        "PUT settings": {"speed": 2},
        "PUT stock": [{"count": None}],
        "PUT outcomes": [],
        "PUT scenario": [],
        "PUT faults": [],
        "POST events": {"event": "revoke_tokens"},
        "POST evict": {"hostname": ORDER["hostname"]},
        "POST instances": ORDER,
    }
    for name in CONTROLS:
        method, what = name.split(" ")
        cloud.send(method, f"/_sandbox/{what}", good.get(name, b""))
        if method in ("PUT", "POST") and name != "POST revoke-tokens":
            cloud.send(method, f"/_sandbox/{what}", b"{]")
    cloud.send("POST", "/_sandbox/evict", {"hostname": "nobody"})
    return cloud.seen


def test_the_check_notices_what_is_not_described() -> None:
    for status, body in ((418, {}), (200, {"amount": 1}), (200, {"amount": 1, "currency": "usd", "new": 1})):
        with pytest.raises(AssertionError):
            check_answer("GET", "/balance", Response.of_json(status, body))


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("action", "id", "ids", "volume_ids", "name", "size", "type", "location_code", "instance_id", "tags",
        "key", "value", "script", "scripts", "keys", "is_permanent", "delete_permanently", "instance_type",
        "image", "hostname", "description", "ssh_key_ids", "startup_script_id", "os_volume", "volumes",
        "existing_volumes", "is_spot", "contract", "pricing", "grant_type", "client_id", "refresh_token")  # fmt: skip
PLAUSIBLE = st.sampled_from(
    ["delete", "attach", "clone", "restore", "resize", "shutdown", "hibernate", "1A100.22V", "ubuntu-24.04",
     "FIN-03", "NVMe", "client_credentials", "refresh_token", NOWHERE, "OURS", "DISK", ["OURS"], ["DISK", "DISK"],
     True, False, 10, 0, -1, [], {}, None, {"name": "d", "size": 50}, [{"name": "d", "size": 50}]]
)  # fmt: skip
BODIES = st.dictionaries(st.sampled_from(KEYS), PLAUSIBLE | ANY_JSON, max_size=8) | ANY_JSON
ROUTES = [(route.method, route.path) for route in (*PUBLIC, *PROTECTED)] + [("POST", "/oauth2/token")]
ASKED = st.sampled_from(
    ["", "?page=2", "?page=0", "?pageSize=9999999999999", "?status=running", "?status=x", "?tag=a=b&tag",
     "?is_spot=maybe", "?currency=eur", "?currency=", "?instance_type=x", "?location_code=MARS", "?name=%00"]
)  # fmt: skip


# Knobs that may be turned by chance; `id_body` has values that are against the description on purpose.
TURNS = {
    knob.name: knob.metadata.get("options", (True, False))
    for knob in fields(Settings)
    if knob.metadata["kind"] in ("flag", "choice")
    and knob.name not in ("id_body", "id_content_type", "stock_taken", "rate_limits")
}
TURNED = st.dictionaries(st.sampled_from(list(TURNS)), st.integers(0, 5), max_size=6).map(
    lambda chosen: {name: TURNS[name][number % len(TURNS[name])] for name, number in chosen.items()}
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ROUTES), BODIES, ASKED), min_size=1, max_size=25), TURNED)
def test_whatever_is_asked_the_answer_is_a_described_one(
    requests: list[tuple[tuple[str, str], Any, str]], turned: dict[str, Any]
) -> None:
    cloud = Cloud()
    ours = cloud.running()
    disk = cloud.get(f"/instances/{ours}")["os_volume_id"]
    cloud.control("PUT", "settings", turned)
    for (method, path), body, query in requests:
        text = json.dumps(body).replace("OURS", ours).replace("DISK", disk)
        where = path.replace("{id}", disk if path.startswith("/volumes") else ours)
        where = where.replace("{tag}", "owner").replace("{type}", "1A100.22V")
        cloud.send(method, where + query, text.encode())
        cloud.wait(7)
    total = cloud.get("/_sandbox/bill")
    assert total["total"] >= 0
