"""Lists that lag, lack, lie or break, and words never heard before: no reason to buy or to delete."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.loop.lives import Life, life

pytestmark = pytest.mark.life

ALWAYS = {"method": "GET", "path": "/instances", "times": 0}
HTML = "<html><body>maintenance</body></html>"

BROKEN = [
    pytest.param({**ALWAYS, "fault": "answer", "status": 200, "body": []}, id="empty"),
    pytest.param({**ALWAYS, "fault": "answer", "status": 200, "body": [], "headers": {"X-Total-Count": "5"}},
                 id="shorter than its count"),
    pytest.param({**ALWAYS, "fault": "answer", "status": 200, "body": HTML}, id="a page"),
    pytest.param({**ALWAYS, "fault": "answer", "status": 200, "body": {"instances": []}}, id="no list"),
    pytest.param({**ALWAYS, "fault": "answer", "status": 404, "body": {"code": "not_found", "message": "x"}}, id="404"),
    pytest.param({**ALWAYS, "fault": "answer", "status": 500, "body": ""}, id="500"),
    pytest.param({**ALWAYS, "fault": "lose_after"}, id="lost"),
    pytest.param({**ALWAYS, "fault": "cut_answer"}, id="cut in the middle"),
    pytest.param({**ALWAYS, "fault": "empty"}, id="without its body"),
    pytest.param({**ALWAYS, "fault": "leave_out"}, id="without any row"),
    pytest.param({**ALWAYS, "fault": "total_above", "count": 2}, id="two more than came"),
]  # fmt: skip


async def _goes_on(lived: Life, machine: str, seconds: float = 1.5) -> None:
    """Dozens of looks later the machine is there and nothing was bought."""
    before = lived.program.loop.passes
    await asyncio.sleep(seconds)
    assert lived.program.loop.passes > before
    assert (await lived.only())["id"] == machine
    assert (await lived.stage.bill())["creates"] == 1


@pytest.mark.parametrize("fault", BROKEN)
async def test_a_broken_list_takes_no_machine_away_and_buys_none(fault: dict[str, Any]) -> None:
    async with life() as lived:
        machine = await lived.in_use()
        lived.fault(fault)
        await _goes_on(lived, machine)
        lived.fault()
        await lived.end()


async def test_a_machine_that_the_list_leaves_out_for_a_while_is_kept() -> None:
    async with life() as lived:
        machine = await lived.in_use()
        await lived.knobs(hide_from_list=[machine])
        await _goes_on(lived, machine)
        await lived.knobs(hide_from_list=[])
        await lived.end()


async def test_a_machine_that_the_list_leaves_out_while_it_cannot_be_asked_for_is_kept() -> None:
    async with life() as lived:
        machine = await lived.in_use()
        await lived.knobs(hide_from_list=[machine])
        lived.fault({"method": "GET", "path": "/instances/*", "fault": "answer", "status": 500, "times": 0})
        await _goes_on(lived, machine)
        lived.fault()
        await lived.knobs(hide_from_list=[])
        await lived.end()


async def test_a_list_that_lags_behind_the_answer_buys_nothing_twice() -> None:
    async with life(cloud={"list_lag_s": 2.0}) as lived:
        machine = await lived.in_use()
        await _goes_on(lived, machine, seconds=0.5)
        await lived.end()


@pytest.mark.parametrize(
    "knobs",
    [
        {"status_alias": {"provisioning": "dreaming"}},
        {"status_alias": {"ordered": "new", "provisioning": "validating"}},
        {"validating_s": 60},
        {"extra_fields": {"colour": "green", "nested": {"deep": [1]}}},
        {"public_ip": False},
        {"error_message_as_list": True},
    ],
    ids=str,
)
async def test_words_and_fields_from_the_future_change_nothing(knobs: dict[str, Any]) -> None:
    async with life(cloud=knobs) as lived:
        machine = await lived.in_use()
        await _goes_on(lived, machine, seconds=0.3)
        await lived.end()


async def test_a_machine_in_use_whose_status_nobody_knows_is_neither_ready_nor_gone() -> None:
    async with life() as lived:
        machine = await lived.in_use()
        await lived.knobs(status_alias={"running": "hovering"})
        await _goes_on(lived, machine)
        await lived.knobs(status_alias={})
        await lived.end()
