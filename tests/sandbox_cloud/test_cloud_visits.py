"""The cloud tells which requests arrived, when, and how they were answered."""

from __future__ import annotations

from typing import Any

from tests.sandbox_cloud.world import ORDER, START, Cloud


def _seen(cloud: Cloud, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cloud.get("/_sandbox/requests" + query)
    return found


def test_every_request_is_told_with_the_moment_of_its_arrival_and_its_answer() -> None:
    cloud = Cloud()
    cloud.log_in()
    cloud.wait(1.5)
    cloud.send("GET", "/instances")
    cloud.wait(2)
    cloud.send("GET", "/nowhere")
    assert [(row["at"] - START, row["method"], row["path"], row["status"]) for row in _seen(cloud)] == [
        (0, "POST", "/oauth2/token", 200),
        (1.5, "GET", "/instances", 200),
        (3.5, "GET", "/nowhere", 403),
    ]


def test_they_can_be_asked_for_by_method_and_path() -> None:
    cloud = Cloud()
    cloud.create()
    cloud.get("/instances")
    assert [row["status"] for row in _seen(cloud, "?method=POST&path=/instances")] == [202]


def test_those_over_the_limit_are_told_too() -> None:
    cloud = Cloud(rate_limits=True, endpoint_limit=1)
    for _ in range(2):
        cloud.send("POST", "/instances", dict(ORDER))
    assert [row["status"] for row in _seen(cloud, "?method=POST&path=/instances")] == [202, 429]


def test_the_sandbox_s_own_paths_are_no_requests_of_the_api() -> None:
    cloud = Cloud()
    cloud.state()
    assert [row["path"] for row in _seen(cloud)] == ["/oauth2/token"]
