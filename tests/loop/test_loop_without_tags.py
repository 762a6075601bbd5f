"""Life in an account that has no tags, refused or ignored: two other marks hold, and nothing is lost or taken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.sandbox.wire import Request, Response
from tests.loop.lives import Life, life

pytestmark = pytest.mark.life

REFUSED = [
    pytest.param(400, {"code": "invalid_request", "message": ["property tags should not exist"]}, id="400"),
    pytest.param(403, {"code": "forbidden_action", "message": "Tags are not enabled for this project"}, id="403"),
    pytest.param(409, {"code": "conflict", "message": "Tag is already linked"}, id="409"),
]  # fmt: skip
LOST = {"method": "POST", "path": "/instances", "fault": "lose_after"}


def refuse_tags(lived: Life, status: int, body: Any) -> None:
    handle = lived.stage.cloud.handle

    def refusing(request: Request) -> Response:
        if (request.method, request.path) == ("POST", "/v1/instances") and "tags" in json.loads(request.body):
            return Response.of_json(status, body)
        return handle(request)

    lived.stage.cloud.handle = refusing  # type: ignore[method-assign]


async def _marked_without_tags(lived: Life) -> None:
    machine = await lived.only()
    assert machine["tags"] == []
    assert machine["description"].startswith("gpuas home ")
    assert machine["hostname"].endswith(machine["description"].split()[-1])


@pytest.mark.parametrize(("status", "body"), REFUSED)
async def test_tags_that_are_refused_are_left_out_and_one_machine_is_bought(status: int, body: Any) -> None:
    async with life() as lived:
        refuse_tags(lived, status, body)
        await lived.in_use()
        await _marked_without_tags(lived)
        assert (await lived.stage.bill())["creates"] == 1
        await lived.end()


async def test_an_order_without_tags_whose_answer_was_lost_is_found_by_its_other_marks() -> None:
    async with life() as lived:
        refuse_tags(lived, 400, {"code": "invalid_request", "message": "property tags should not exist"})
        lived.fault({**LOST, "nth": 2})  # the first is the one with tags
        await lived.in_use()
        assert (await lived.stage.bill())["creates"] == 1
        await lived.end()


async def test_tags_that_are_ignored_leave_two_marks_for_an_order_whose_answer_was_lost() -> None:
    async with life(cloud={"tags": False}) as lived:
        lived.fault(LOST)
        await lived.in_use()
        assert "gpuas home" in (await lived.only())["description"]
        assert (await lived.stage.bill())["creates"] == 1
        await lived.end()


async def test_a_disk_without_tags_is_known_from_the_ledger_when_its_machine_was_taken_away() -> None:
    async with life(cloud={"tags": False}) as lived:
        machine = await lived.in_use()
        await lived.api("PUT", "/instances", {"action": "delete", "id": machine, "volume_ids": []})
        await lived.end()
