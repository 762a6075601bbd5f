"""What shows that a knob of the sandbox cloud was turned: for each a value and a look at the cloud."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .world import ORDER, Cloud

SPOT = {"is_spot": True}
NVME = {"type": "NVMe", "name": "data", "size": 10, "location_code": "FIN-03"}
TAGGED = {"tags": [{"key": "owner", "value": "me"}]}
Probe = Callable[[Cloud], Any]


def way(cloud: Cloud) -> list[tuple[float, str]]:
    """The statuses of a new instance, with the moment of each."""
    instance_id, seen, began = cloud.create(), [], cloud.now
    while not seen or seen[-1][1] not in ("running", "error"):
        status = cloud.status(instance_id)
        if not seen or seen[-1][1] != status:
            seen.append((cloud.now - began, status))
        cloud.wait(1)
    return seen


def running(cloud: Cloud) -> Any:
    cloud.running()
    return cloud.get("/instances")


def after_delete(cloud: Cloud, wait: float = 45, **body: Any) -> Any:
    """What is listed when a machine with two disks was deleted."""
    instance_id = cloud.running(volumes=[{"name": "data", "size": 10}])
    cloud.delete(instance_id, **body)
    cloud.wait(wait)
    found = [[(one["name"][:2], one["status"], bool(one["instance_id"])) for one in cloud.get(path)]
             for path in ("/volumes", "/volumes/trash")]  # fmt: skip
    return found, [one["status"] for one in cloud.get("/instances")], cloud.state()["meter"]["total"]


def readable(cloud: Cloud) -> int:
    instance_id = cloud.running()
    cloud.delete(instance_id)
    cloud.wait(200)
    return cloud.send("GET", f"/instances/{instance_id}").status


def disk_changes(cloud: Cloud) -> list[str]:
    volume_id = cloud.send("POST", "/volumes", NVME).body.decode()
    copy = cloud.send("PUT", "/volumes", {"id": volume_id, "action": "clone"}).json()
    return [cloud.get(f"/volumes/{one}")["status"] for one in (volume_id, copy[0])]


def refused(cloud: Cloud, **changes: Any) -> int:
    return cloud.send("POST", "/instances", {**ORDER, **changes}).status


def second(cloud: Cloud, **changes: Any) -> int:
    cloud.create()
    cloud.wait(20)
    return refused(cloud, **changes)


def act(cloud: Cloud, action: str, ids: Any = None, wait: float = 20) -> tuple[int, Any]:
    instance_id = cloud.create()
    cloud.wait(wait)
    answer = cloud.send("PUT", "/instances", {"action": action, "id": ids or instance_id})
    return answer.status, [one.get("statusCode") for one in answer.json()] if answer.status in (
        202,
        207,
    ) else 0


def deleted_twice(cloud: Cloud) -> int:
    instance_id = cloud.running()
    cloud.delete(instance_id)
    cloud.wait(60)
    return cloud.delete(instance_id).status


def destroyed_twice(cloud: Cloud) -> int:
    volume_id = cloud.send("POST", "/volumes", NVME).body.decode()
    for _ in range(2):
        answer = cloud.send("DELETE", f"/volumes/{volume_id}", {"is_permanent": True})
        cloud.wait(10)
    return answer.status


def evicted(cloud: Cloud) -> list[str]:
    instance_id = cloud.running(**SPOT)
    cloud.control("POST", "events", {"event": "evict"})
    return [one["action_code"] for one in cloud.get(f"/journal/compute/{instance_id}")]


def trashed(cloud: Cloud, hours: float) -> tuple[int, float]:
    volume_id = cloud.send("POST", "/volumes", {**NVME, "size": 7300}).body.decode()
    cloud.send("DELETE", f"/volumes/{volume_id}", {})
    cloud.wait(hours * 3600)
    left = len(cloud.get("/volumes/trash"))
    cloud.send("PUT", "/volumes", {"id": volume_id, "action": "restore"})
    return left, cloud.state()["meter"]["total"]


def broke(cloud: Cloud) -> int:
    cloud.running()
    cloud.control("POST", "events", {"event": "balance", "amount": 0})
    cloud.wait(1)
    return len(cloud.get("/volumes/trash"))


def token(cloud: Cloud, **changes: Any) -> tuple[int, Any]:
    grant = {"grant_type": "client_credentials", "client_id": "id", "client_secret": "secret"} | changes
    answer = cloud.send("POST", "/oauth2/token", grant)
    return answer.status, answer.json().get("expires_in")


def refreshed(cloud: Cloud, wait: float = 0, uses: int = 1) -> int:
    cloud.log_in()
    first = cloud.send("POST", "/oauth2/token", {"grant_type": "client_credentials", "client_id": "id",
                                                 "client_secret": "secret"}).json()  # fmt: skip
    cloud.wait(wait)
    for _ in range(uses):
        status = cloud.send(
            "POST", "/oauth2/token", {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
        ).status
    return status


def limited(cloud: Cloud, *paths: str) -> list[Any]:
    cloud.world.state.change(cloud.world.state.settings.changed({"rate_limits": True}))
    cloud.log_in()
    answers = [
        cloud.send("GET", path) for path in paths or ("/balance", "/locations", "/balance", "/instances")
    ]
    return [(answer.status, answer.headers.get("RateLimit"), answer.headers.get("RateLimit-Policy"),
             answer.body[:11] if answer.status == 429 else b"") for answer in answers]  # fmt: skip


def id_of(cloud: Cloud) -> tuple[int, str]:
    answer = cloud.send("POST", "/scripts", {"name": "a", "script": "b"})
    return len(answer.body), answer.headers["Content-Type"]


def tags_of(cloud: Cloud) -> Any:
    answer = cloud.send(
        "POST", "/instances", {**ORDER, **TAGGED, "os_volume": {"name": "d", "size": 50} | TAGGED}
    )
    cloud.wait(20)
    return answer.status, [
        len(one.get("tags", [])) for path in ("/instances", "/volumes") for one in cloud.get(path)
    ]


def stale_list(cloud: Cloud) -> int:
    cloud.get("/instances")
    cloud.create()
    return len(cloud.get("/instances"))


def cost(cloud: Cloud, wait: float = 100) -> float:
    cloud.create()
    cloud.wait(wait)
    return float(cloud.state()["meter"]["total"])


def failed_cost(cloud: Cloud) -> float:
    cloud.control("PUT", "outcomes", [{"outcome": "no_capacity"}])
    return cost(cloud, 5000)


def stock_lost(cloud: Cloud) -> list[tuple[float, str]]:
    cloud.control("PUT", "stock", [{"count": 1}])
    cloud.create()
    answer = cloud.send("POST", "/instances", ORDER)
    return [(answer.status, "")]


def types(cloud: Cloud, key: str = "price_per_hour") -> Any:
    return [(row["instance_type"], row[key]) for row in cloud.get("/instance-types?currency=eur")]


def kept(cloud: Cloud) -> Any:
    cloud.delete(cloud.running(), volume_ids=[])
    cloud.wait(31)
    return [(one["status"], one["instance_id"]) for one in cloud.get("/volumes")]


def booted(cloud: Cloud) -> Any:
    cloud.running()
    return cloud.state()["instances"][0]["boot_at"]


def started(cloud: Cloud) -> list[str]:
    instance_id = cloud.running()
    seen = []
    for action in ("shutdown", "start"):
        cloud.send("PUT", "/instances", {"action": action, "id": instance_id})
        cloud.wait(25)
        seen.append(cloud.status(instance_id))
    return seen


def scripts(cloud: Cloud) -> Any:
    script_id = cloud.send("POST", "/scripts", {"name": "a", "script": "b"}).body.decode()
    again = cloud.send("POST", "/scripts", {"name": "a", "script": "b"}).status
    return (
        again,
        type(cloud.get(f"/scripts/{script_id}")),
        cloud.send("GET", "/scripts").headers["X-Total-Count"],
    )


def pages(cloud: Cloud) -> Any:
    return [cloud.send("GET", path).headers.get("X-Total-Count") for path in ("/instances", "/scripts")]


def project(cloud: Cloud, client: str = "other") -> list[str]:
    token(cloud, client_id=client, client_secret="secret")
    cloud.token = ""
    grant = {"grant_type": "client_credentials", "client_id": client, "client_secret": "secret"}
    cloud.token = cloud.send("POST", "/oauth2/token", grant).json()["access_token"]
    cloud.get("/balance")
    return sorted(row["project"] for row in cloud.get("/_sandbox/projects"))


def _with(cloud: Cloud, probe: Probe, **knobs: Any) -> Any:
    """What a probe sees when other knobs are turned as well."""
    cloud.world.state.change(cloud.world.state.settings.changed(knobs))
    return probe(cloud)


def _grant() -> dict[str, str]:
    return {"grant_type": "client_credentials", "client_id": "id", "client_secret": "secret"}


def _disk(**more: Any) -> dict[str, Any]:
    return {"name": "d", "size": 50, **more}


def _asks_twice(cloud: Cloud) -> list[Any]:
    return limited(cloud, "/balance?a=1", "/balance?a=2")


def _trash_after(cloud: Cloud, seconds: float) -> int:
    volume_id = cloud.send("POST", "/volumes", NVME).body.decode()
    cloud.send("DELETE", f"/volumes/{volume_id}", {})
    cloud.wait(seconds)
    return len(cloud.get("/volumes/trash"))


def _sold_out(cloud: Cloud) -> int:
    cloud.control("PUT", "stock", [{"location": "FIN-01", "count": 0}])
    return len(cloud.get("/instance-availability"))


def _clone(cloud: Cloud) -> type:
    volume_id = cloud.send("POST", "/volumes", NVME).body.decode()
    return type(cloud.send("PUT", "/volumes", {"id": volume_id, "action": "clone"}).json())


# knob -> (value that differs from the default of these tests, what shows it)
TABLE: dict[str, tuple[Any, Probe]] = {
    "speed": (2, way),
    "status_order": (
        ["new", "ordered", "validating", "provisioning"],
        lambda c: _with(c, way, validating_s=9),
    ),
    "new_s": (3, way),
    "pending_s": (3, way),
    "ordered_s": (3, way),
    "provisioning_s": ([7, 9], way),
    "validating_s": (3, way),
    "ip_s": (3, lambda c: running(c)[0]["ip"]),
    "boot_s": (3, booted),
    "shutdown_s": (30, started),
    "start_s": (30, started),
    "delete_s": (300, after_delete),
    "volume_detach_s": (300, kept),
    "volume_gone_s": (1, after_delete),
    "volume_delete_s": (9, lambda c: _trash_after(c, 7)),
    "volume_change_s": (3, disk_changes),
    "trash_hours": (1, lambda c: trashed(c, 2)),
    "list_lag_s": (3, lambda c: (c.create(), len(c.get("/instances")))[1]),
    "list_cache_s": (3, stale_list),
    "list_total_extra": (1, pages),
    "discontinued_listed_s": (500, after_delete),
    "discontinued_readable_s": (10, readable),
    "hide_from_list": ([ORDER["hostname"]], lambda c: len(running(c))),
    "stale_volume_instance_id": (True, kept),
    "status_alias": ({"running": "active"}, lambda c: (c.create(), c.wait(200), c.get("/instances"))[2]),
    "extra_fields": ({"new": 1}, lambda c: running(c)[0].get("new")),
    "public_ip": (False, lambda c: running(c)[0]["ip"]),
    "jupyter_token": (True, lambda c: running(c)[0]["jupyter_token"]),
    "evictions_in_journal": (False, evicted),
    "empty_locations": ("omitted", lambda c: _sold_out(c)),
    "availability_as": ("text", lambda c: c.get("/instance-availability/1A100.22V")),
    "id_body": ("empty", id_of),
    "id_content_type": ("application/json", id_of),
    "clone_answer": ("object", lambda c: _clone(c)),
    "unknown_id_status": (400, lambda c: c.send("GET", "/instances/x").status),
    "unknown_path_status": (404, lambda c: c.send("GET", "/x").status),
    "by_id_as_array": (False, scripts),
    "undeletable_statuses": ([], lambda c: act(c, "delete")),
    "action_refused_status": (400, lambda c: act(c, "delete")),
    "refusals_as_207": (True, lambda c: act(c, "delete")),
    "all_refused_status": (400, lambda c: act(c, "delete", ["x", "y"])),
    "hibernate_running": (False, lambda c: act(c, "hibernate", wait=150)),
    "delete_discontinued_status": (403, deleted_twice),
    "repeated_permanent_delete_status": (400, destroyed_twice),
    "omitted_volume_ids": ("keep_all", lambda c: after_delete(c, 300)),
    "permanent_without_ids": (True, lambda c: after_delete(c, 300, delete_permanently=True)),
    "error_message_as_list": (True, lambda c: type(c.send("POST", "/instances", {}).json()["message"])),
    "strict_user_agent": (True, lambda c: c.send("GET", "/balance", b"", {"User-Agent": ""}).status),
    "credentials": ("id:other", lambda c: c.send("POST", "/oauth2/token", _grant()).status),
    "projects": ({"red": "other:secret"}, project),
    "project_per_client": (True, project),
    "token_ttl_s": (10, token),
    "refresh_ttl_s": (10, lambda c: refreshed(c, 11)),
    "refresh_refused_status": (400, lambda c: refreshed(c, uses=2)),
    "rate_limits": (True, lambda c: c.send("GET", "/balance").headers.get("RateLimit")),
    "project_limit": (3, limited),
    "endpoint_limit": (1, limited),
    "list_limit": (0, limited),
    "rate_window_s": (30, limited),
    "rate_limit_body": ("text", lambda c: _with(c, limited, endpoint_limit=0)),
    "limit_ignores_query": (False, lambda c: _with(c, _asks_twice, endpoint_limit=1)),
    "limit_public": (True, lambda c: limited(c, "/instance-types", "/volume-types")),
    "tags": (False, tags_of),
    "tags_refused": (True, tags_of),
    "nested_tags": (False, tags_of),
    "any_ssh_key": (False, lambda c: refused(c, ssh_key_ids=["x"])),
    "require_ssh_key": (True, refused),
    "null_on_spot_discontinue": (False, lambda c: refused(c, os_volume=_disk(on_spot_discontinue=None))),
    "unique_hostnames": (True, second),
    "hostname_max": (10, refused),
    "description_max": (10, refused),
    "os_volume_default_gb": (100, lambda c: (c.running(), c.get("/volumes")[0]["size"])[1]),
    "os_volume_min_gb": (100, lambda c: refused(c, os_volume=_disk())),
    "volume_max_gb": (40, lambda c: refused(c, os_volume=_disk())),
    "gpu_quota": (1, second),
    "vcpu_quota": (30, second),
    "instance_quota": (1, second),
    "storage_quota_gb": (60, second),
    "volume_quota": (1, second),
    "script_quota": (1, scripts),
    "stock_taken": ("provisioning", stock_lost),
    "balance": (5, lambda c: c.get("/balance")["amount"]),
    "currency": ("eur", lambda c: c.get("/balance")["currency"]),
    "euro_rate": (2, types),
    "billing": ("prepaid_kept", cost),
    "billing_increment_s": (6000, lambda c: _with(c, cost, billing="prepaid_kept")),
    "bill_trash": ("never", lambda c: trashed(c, 2)),
    "bill_while_deleting": (True, after_delete),
    "bill_no_capacity": (True, failed_cost),
    "run_out_disks": ("destroy", broke),
    "volume_gb_month": (2, lambda c: cost(c, 5000)),
    "prices": ({"1A100.22V": {"price_per_hour": 9}}, types),
    "removed_types": (["1A100.22V"], types),
    "renamed_types": ({"1A100.22V": "other"}, types),
    "added_types": ({"other": "1A100.22V"}, types),
    "supported_os": ({"1A100.22V": ["jupyter"]}, lambda c: types(c, "supported_os")),
}
