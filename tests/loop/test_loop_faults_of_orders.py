"""Every fault of an order: exactly one machine in the end, nothing of ours left, nobody else's touched."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.loop.acting import until
from tests.loop.lives import life

pytestmark = pytest.mark.life

ONE_OFFER = {
    "name": "a100", "instance_types": ["1A100.22V"], "locations": ["FIN-01"], "market": "on_demand_only", "max": 4,
}  # fmt: skip
HTML = "<html><body><h1>Service Unavailable</h1></body></html>"
OOPS = {"code": "server_error", "message": "Internal server error"}


def on_create(fault: str, **more: Any) -> dict[str, Any]:
    return {"method": "POST", "path": "/instances", "fault": fault, **more}


# The fault, and whether it is known at once what became of the order.
ODD_ANSWERS = [
    pytest.param(on_create("quoted"), id="quoted id"),
    pytest.param(on_create("newline"), id="id and newline"),
    pytest.param(on_create("answer_after", status=202, body=""), id="empty answer"),
    pytest.param(on_create("answer", status=503, body=HTML), id="503 page, not created"),
    pytest.param(on_create("answer_after", status=503, body=HTML), id="503 page, created"),
    pytest.param(on_create("answer", status=500, body=OOPS), id="500, not created"),
    pytest.param(on_create("answer_after", status=500, body=OOPS), id="500, created"),
    pytest.param(on_create("answer_after", status=502, body=HTML), id="502 page, created"),
    pytest.param(on_create("answer_after", status=504, body=""), id="504, created"),
    pytest.param(on_create("lose_before"), id="lost before it arrived"),
    pytest.param(on_create("lose_after"), id="lost after the commit"),
    pytest.param(on_create("hang"), id="hang, not created"),
    pytest.param(on_create("delay_answer", seconds=60), id="slow, created"),
    pytest.param(on_create("hang_after"), id="hang, created"),
    pytest.param(on_create("drip", seconds=60), id="bit by bit, created"),
    pytest.param(on_create("cut_answer"), id="cut in the middle of the id"),
    pytest.param(on_create("empty"), id="the answer without its body"),
    pytest.param(on_create("answer_after", status=202, body=HTML), id="202 page, created"),
    pytest.param(on_create("answer", status=202, body=""), id="empty answer, not created"),
    pytest.param(on_create("answer_after", status=302, body=""), id="redirected, created"),
]


@pytest.mark.parametrize("fault", ODD_ANSWERS)
async def test_whatever_the_answer_to_an_order_there_is_one_machine_and_then_none(
    fault: dict[str, Any],
) -> None:
    async with life() as lived:
        lived.fault(fault)
        await lived.pod()
        await lived.runs()
        assert (await lived.stage.bill())["creates"] == 1
        await lived.end()


async def test_an_order_that_is_carried_out_twice_is_shown_as_surplus_and_leaves_nothing() -> None:
    """Something on the way repeated the request. Both machines carry the same marks, so the second one stays
    while its name is in use, and is never hidden."""
    async with life({"deadlines": {"join": "3s"}}) as lived:
        lived.may_be_alive = 2
        lived.fault(on_create("twice"))
        await lived.pod()

        async def shown_or_gone() -> bool:
            reports = lived.program.loop.status()["reports"].values()
            return any("(surplus)" in text for text in reports) or len(await lived.instances()) == 1

        await until("the second machine is noticed", shown_or_gone)
        await lived.runs()
        assert (await lived.stage.bill())["creates"] == 2
        await lived.end()


async def test_an_order_that_something_on_the_way_repeats_is_one_machine_where_hostnames_are_unique() -> None:
    """The answer is that of the repetition, which is refused; lists lag behind, so they do not tell at once."""
    patient = {"deadlines": {"unknown_create": {"over": "10s"}}}
    async with life(patient, cloud={"unique_hostnames": True, "list_lag_s": 1.0}) as lived:
        lived.fault(on_create("twice"))
        await lived.pod()
        await lived.runs()
        assert (await lived.stage.bill())["creates"] == 1
        await lived.end()


REFUSALS = [
    pytest.param(400, {"code": "invalid_request", "message": "Storage limit exceeded"}, "quota", id="storage quota"),
    pytest.param(402, {"code": "insufficient_funds", "message": "Insufficient funds"}, "no_funds", id="no funds"),
    pytest.param(400, {"code": "invalid_request", "message": "Operating system is not valid for this instance type"},
                 "image_not_supported", id="image"),
    pytest.param(400, {"code": "invalid_request", "message": ["location_code is required"]}, "bad_request", id="invalid"),
    pytest.param(401, {"code": "unauthorized_request", "message": "Access token is missing or invalid"}, "unauthorised", id="401"),
    pytest.param(403, {"code": "forbidden_action", "message": "Insufficient scope"}, "unauthorised", id="403"),
    pytest.param(503, {"code": "service_unavailable", "message": "No capacity available"}, "no_capacity", id="no capacity"),
    pytest.param(429, {"code": "rate_limit_exceeded", "message": "Too many requests"}, "rate_limited", id="429"),
    pytest.param(429, "Rate limit.", "rate_limited", id="429 that is no JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "reason"), REFUSALS)
async def test_a_refused_order_is_told_to_the_pod_left_alone_and_tried_again(
    status: int, body: Any, reason: str
) -> None:
    # A 401 is answered with another token at once, and that once more.
    attempts = 2 if status == 401 else 1
    refusal = on_create(
        "answer", status=status, body=body, headers={"Retry-After": "1"} if status == 429 else {}
    )
    async with life({"pools": [ONE_OFFER]}) as lived:
        lived.fault({**refusal, "times": 2 * attempts})
        await lived.pod()

        async def told() -> bool:
            return await lived.code_of("train") == reason

        await until("the pod is told why", told)
        began = asyncio.get_running_loop().time()
        fired = lived.stage.cloud_faults.rules[0]
        assert fired.fired <= 2 * attempts
        await lived.runs()
        # Twice refused, so there were two pauses, and not a tight loop.
        assert asyncio.get_running_loop().time() - began > 1.0
        assert (await lived.stage.bill())["creates"] == 1
        assert fired.matched == 2 * attempts + 1
        await lived.end()


@pytest.mark.parametrize("outcome", ["no_capacity", "installation_failed", "error"])
async def test_an_order_that_fails_later_is_removed_and_another_offer_is_taken(outcome: str) -> None:
    async with life() as lived:
        await lived.stage.tell_cloud("PUT", "outcomes", [{"outcome": outcome, "times": 1}])
        await lived.pod()
        await lived.runs()
        assert (await lived.stage.bill())["creates"] == 2
        await lived.end()


async def test_an_order_that_never_starts_is_given_up_and_deleted_as_soon_as_the_cloud_allows() -> None:
    async with life({"deadlines": {"launch": "3s"}}) as lived:
        lived.may_be_alive = 2  # the stuck one cannot be deleted, and will not run
        await lived.stage.tell_cloud("PUT", "outcomes", [{"outcome": "stuck", "times": 1}])
        await lived.pod()

        async def given_up() -> bool:
            return len(lived.posts) == 2

        await until("another machine is ordered", given_up)
        await lived.runs()
        assert "provisioning" in [one["status"] for one in await lived.instances()]
        await lived.knobs(undeletable_statuses=[])

        async def stuck_is_gone() -> bool:
            return len(await lived.instances()) == 1

        await until("the stuck one is gone", stuck_is_gone)
        await lived.end()
