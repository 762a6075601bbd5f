"""Every fault of a removal: machine, disk and script are gone in the end, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest

from controller.fleet import leaving
from tests.loop.acting import until
from tests.loop.lives import STRANGERS, Life, life

pytestmark = pytest.mark.life

HTML = "<html><body><h1>Bad Gateway</h1></body></html>"
NOT_YET = {"code": "forbidden_action", "message": "Can't discontinue a provisioning instance"}
NO_SCOPE = {"code": "forbidden_action", "message": "Insufficient scope"}
NOT_KNOWN = {"code": "not_found", "message": "Instance not found"}
IS_GONE = {"code": "forbidden_action", "message": "Can't discontinue a discontinued instance"}
BUSY = {"code": "conflict", "message": "Another action is under way"}
STALE = {"code": "unauthorized_request", "message": "Access token is missing or invalid"}


def on_delete(fault: str, **more: Any) -> dict[str, Any]:
    return {"method": "PUT", "path": "/instances", "fault": fault, **more}


def result(instance_id: str, **more: Any) -> list[dict[str, Any]]:
    return [{"instanceId": instance_id, "action": "delete", **more}]


ODD_ANSWERS = [
    pytest.param(on_delete("lose_before"), id="lost before it arrived"),
    pytest.param(on_delete("lose_after"), id="lost after it was accepted"),
    pytest.param(on_delete("hang"), id="hang, not done"),
    pytest.param(on_delete("delay_answer", seconds=60), id="hang, done"),
    pytest.param(on_delete("answer_after", status=500, body=""), id="500, done"),
    pytest.param(on_delete("answer", status=503, body=HTML), id="503 page"),
    pytest.param(on_delete("answer", status=401, body=STALE), id="401"),
    pytest.param(on_delete("answer", status=403, body=NOT_YET, times=3), id="403 provisioning, three times"),
    pytest.param(on_delete("answer", status=403, body=NO_SCOPE, times=2), id="403 scope, twice"),
    pytest.param(on_delete("answer", status=429, body="Rate limit.", headers={"Retry-After": "1"}), id="429"),
    pytest.param(on_delete("answer_after", status=202, body=""), id="202 without results"),
    pytest.param(on_delete("answer_after", status=204, body=""), id="204"),
    pytest.param(on_delete("answer", status=404, body=HTML), id="404 page of a proxy"),
    pytest.param(on_delete("hang_after"), id="no answer, done"),
    pytest.param(on_delete("cut_answer"), id="half an answer, done"),
    pytest.param(on_delete("empty"), id="an answer without its results, done"),
    pytest.param(on_delete("twice"), id="carried out twice"),
    pytest.param(on_delete("answer", status=409, body=BUSY, times=2), id="409, twice"),
]


@pytest.mark.parametrize("fault", ODD_ANSWERS)
async def test_whatever_the_answer_to_a_delete_everything_of_ours_goes(fault: dict[str, Any]) -> None:
    async with life() as lived:
        await lived.in_use()
        lived.fault(fault)
        await lived.end()
        assert lived.stage.cloud_faults.rules[0].fired
        assert (await lived.stage.bill())["creates"] == 1


FALSE = [
    pytest.param(on_delete("answer", status=202, body=""), id="202, not done"),
    pytest.param(on_delete("answer", status=204, body="", times=2), id="204, not done, twice"),
    pytest.param(on_delete("answer", status=404, body=NOT_KNOWN), id="404, and there all the same"),
    pytest.param(on_delete("answer", status=403, body=IS_GONE), id="discontinued, and there all the same"),
]


@pytest.mark.parametrize("fault", FALSE)
async def test_a_delete_that_is_said_to_be_done_and_is_not_is_sent_again(
    fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "_REPEAT", 1.0)  # a minute is long for a test
    async with life() as lived:
        await lived.in_use()
        lived.fault(fault)
        await lived.end()
        rule = lived.stage.cloud_faults.rules[0]
        assert rule.matched == rule.fired + 1


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (207, {"status": "error", "statusCode": 403, "error": "Can't discontinue a provisioning instance"}),
        (202, {"status": "error", "error": "Can't discontinue a provisioning instance"}),
        (207, {"status": "error", "statusCode": 500, "error": "Internal server error"}),
        (207, {"status": "failed"}),
    ],
)
async def test_a_delete_that_only_looks_like_a_success_is_sent_again(
    status: int, said: dict[str, Any]
) -> None:
    async with life() as lived:
        machine = await lived.in_use()
        lived.fault(on_delete("answer", status=status, body=result(machine, **said), times=2))
        await lived.end()
        assert lived.stage.cloud_faults.rules[0].matched == 3


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, HTML),
        (202, NOT_YET),
        (202, [{"instanceId": "11111111-2222-4333-8444-555555555555", "action": "delete", "status": "success"}]),
    ],
    ids=["a page", "an error", "another machine"],
)  # fmt: skip
async def test_a_success_that_says_nothing_of_our_machine_is_none(status: int, body: Any) -> None:
    async with life() as lived:
        await lived.in_use()
        lived.fault(on_delete("answer", status=status, body=body, times=2))
        await lived.end()
        assert lived.stage.cloud_faults.rules[0].matched == 3


@pytest.mark.parametrize(
    "knobs",
    [
        {"delete_discontinued_status": 204},
        {"delete_discontinued_status": 403},
        {"discontinued_readable_s": 0, "unknown_id_status": 404},
        {"discontinued_readable_s": 0, "unknown_id_status": 400},
        {"discontinued_listed_s": 1_000_000},
        {"repeated_permanent_delete_status": 400},
        {"stale_volume_instance_id": True},
    ],
    ids=str,
)
async def test_a_machine_that_is_gone_already_is_recognised_however_it_is_told(knobs: dict[str, Any]) -> None:
    async with life(cloud=knobs) as lived:
        await lived.in_use()
        lived.fault(on_delete("lose_after"))  # so that it is asked for again when it is gone
        await lived.end()


async def test_a_machine_and_its_disk_are_deleted_for_good_and_not_into_the_trash() -> None:
    # Room for the strangers and one machine: with a disk in the trash there would be none for the second.
    async with life(cloud={"storage_quota_gb": (len(STRANGERS) + 2) * 50 + 100}) as lived:
        for name in ("one", "two"):
            await lived.in_use(name)
            await lived.end(name)
        state = await lived.stage.bill()
        assert (state["creates"], [one for one in state["trash"] if lived.ours(one)]) == (2, [])


async def test_a_disk_that_lingers_after_its_machine_is_waited_for() -> None:
    async with life(cloud={"volume_gone_s": 1800}) as lived:  # three seconds
        await lived.in_use()
        await lived.end()

        async def closed() -> bool:
            return lived.program.fleet.machines() == ()

        await until("the ledger has forgotten the machine", closed)


async def test_a_disk_that_was_left_behind_is_removed() -> None:
    """Somebody deleted the machine in the console and kept its disk: it goes on costing."""
    async with life() as lived:
        machine = await lived.in_use()
        await lived.api("PUT", "/instances", {"action": "delete", "id": machine, "volume_ids": []})
        await _seen(lived, machine)
        await lived.end()


async def _seen(lived: Life, machine: str) -> None:
    async def gone() -> bool:
        return machine not in [m.instance_id for m in lived.program.fleet.machines() if not m.gone_at]

    await until("it is seen to be gone", gone)


@pytest.mark.parametrize(
    "fault",
    [
        {"method": "GET", "path": "/volumes", "fault": "answer", "status": 500, "times": 4},
        {"method": "GET", "path": "/volumes/trash", "fault": "lose_after", "times": 4},
        {"method": "DELETE", "path": "/scripts/*", "fault": "answer", "status": 500, "times": 2},
        {"method": "DELETE", "path": "/scripts/*", "fault": "lose_after"},
        {"method": "GET", "path": "/instances/*", "fault": "answer", "status": 502, "body": HTML, "times": 3},
        {"method": "GET", "path": "/instances/*", "fault": "answer", "status": 404, "body": HTML, "times": 1},
    ],
    ids=lambda rule: f"{rule['method']} {rule['path']} {rule['fault']}",
)
async def test_what_cannot_be_read_or_removed_for_a_while_is_tried_again(fault: dict[str, Any]) -> None:
    async with life() as lived:
        lived.fault(fault)  # scripts go as soon as the machine has joined
        await lived.in_use()
        await lived.end()
        assert lived.stage.cloud_faults.rules[0].fired
