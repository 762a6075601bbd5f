"""Manners, on a virtual clock and against the sandbox cloud's own limits: nobody has to be told 429."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from controller.cloud.protocol import Order
from controller.cloud.verda.provider import VerdaCloud
from controller.domain import names
from controller.domain.cloudthings import ON_DEMAND
from controller.domain.outcome import Happened, Outcome, Refused
from controller.domain.reason import Reason
from tests.cloud.in_memory import Memory, Seen

ORDER = Order(
    hostname="",
    description="",
    tags=(),
    instance_type="1A100.22V",
    location="FIN-03",
    market=ON_DEMAND,
    image="ubuntu-24.04",
    disk_gb=100,
)


def order(number: int) -> Order:
    intent = "".join("abcdefghij"[int(digit)] for digit in f"{number:010}")
    return msgspec.structs.replace(
        ORDER, hostname=names.hostname("home", "a100", intent), description=names.description("home", intent)
    )


async def finish(memory: Memory, tasks: list[asyncio.Task[Any]], within: float) -> None:
    end = memory.time.now + within
    while not all(task.done() for task in tasks):
        assert memory.time.now < end, "it takes too long"
        await memory.time.advance(1.0)


def refusals(memory: Memory) -> list[Seen]:
    return [one for one in memory.seen if one.status == 429]


async def test_200_creates_at_once_are_paced_without_a_single_429() -> None:
    memory = Memory(balance=1_000_000)
    cloud = memory.cloud(create_within=600)
    began = memory.time.now
    tasks = [asyncio.create_task(cloud.create(order(number))) for number in range(200)]
    await finish(memory, tasks, within=300)
    assert all(isinstance(task.result(), Happened) for task in tasks)
    assert memory.world.state.creates == 200
    assert refusals(memory) == []
    # Sixty a minute is what the API takes: the last of them goes in the fourth window, and no later.
    assert 180 <= memory.time.now - began <= 183
    await cloud.close()


async def test_creates_that_cannot_go_soon_are_refused_unsent_with_the_time_of_their_turn() -> None:
    memory = Memory(balance=1_000_000)
    cloud = memory.cloud()
    outcomes: list[Outcome] = list(
        await asyncio.gather(*(cloud.create(order(number)) for number in range(200)))
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert len(refused) == 140
    assert {outcome.reason for outcome in refused} == {Reason.RATE_LIMITED}
    assert {round(outcome.retry_after or 0) for outcome in refused} == {60}
    assert memory.world.state.creates == 60
    assert refusals(memory) == []
    await cloud.close()


async def test_200_creates_of_a_caller_who_comes_back_when_told_see_no_429_either() -> None:
    memory = Memory(balance=1_000_000)
    cloud = memory.cloud()

    async def buy(number: int) -> None:
        while isinstance(outcome := await cloud.create(order(number)), Refused):
            assert outcome.reason is Reason.RATE_LIMITED
            await memory.time.sleep(outcome.retry_after or 1.0)

    tasks = [asyncio.create_task(buy(number)) for number in range(200)]
    await finish(memory, tasks, within=400)
    assert memory.world.state.creates == 200
    assert refusals(memory) == []
    await cloud.close()


async def watch(cloud: VerdaCloud, memory: Memory, ids: list[str], pause: float = 5.0) -> None:
    """What the controller reads while machines boot and the list lacks them all: the worst of it."""
    while True:
        await cloud.inventory()
        await asyncio.gather(*(cloud.instance(one) for one in ids))
        await memory.time.sleep(pause)


async def look_around(cloud: VerdaCloud, memory: Memory) -> None:
    while True:
        await cloud.catalogue()
        await cloud.volumes()
        await cloud.scripts("gpuas-home-")
        await memory.time.sleep(10)


async def fifty(memory: Memory, cloud: VerdaCloud) -> list[str]:
    found = [await cloud.create(order(number)) for number in range(50)]
    await memory.time.advance(120)
    memory.seen.clear()
    return [one.id for one in found if isinstance(one, Happened)]


async def test_fifty_machines_that_boot_use_at_most_half_of_every_limit() -> None:
    memory = Memory(balance=1_000_000)
    cloud = memory.cloud()
    ids = await fifty(memory, cloud)
    tasks = [
        asyncio.create_task(watch(cloud, memory, ids)),
        asyncio.create_task(watch(cloud, memory, ids, pause=1.0)),  # and as if that were not enough
        asyncio.create_task(look_around(cloud, memory)),
    ]
    await memory.time.advance(300)
    assert refusals(memory) == []
    memory.seen = [one for one in memory.seen if one.path != "/instance-types"]  # public, so not counted
    assert len(memory.seen) > 900  # it does use what it may
    assert memory.most_in_a_minute(lambda one: True) <= 250
    for path in {one.path for one in memory.seen}:
        most = 60 if path in ("/instances", "/volumes") else 30
        assert memory.most_in_a_minute(lambda one, path=path: one.path == path) <= most, path  # type: ignore[misc]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await cloud.close()


async def test_purchases_and_removals_find_room_beside_fifty_machines_that_boot() -> None:
    memory = Memory(balance=1_000_000)
    cloud = memory.cloud()
    ids = await fifty(memory, cloud)
    reading = asyncio.create_task(watch(cloud, memory, ids, pause=0.5))
    await memory.time.advance(100)
    began = memory.time.now
    buying = [asyncio.create_task(cloud.create(order(number))) for number in range(1000, 1060)]
    removing = [asyncio.create_task(cloud.delete(one, ())) for one in ids]
    await memory.time.settle()
    assert all(task.done() for task in (*buying, *removing))
    assert memory.time.now == began
    assert all(isinstance(task.result(), Happened) for task in (*buying, *removing))
    assert refusals(memory) == []
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await cloud.close()


@pytest.mark.parametrize("body", ["json", "text"])
async def test_after_a_429_nothing_is_sent_to_that_window_before_its_end(body: str) -> None:
    memory = Memory(balance=1_000_000, rate_limit_body=body)
    before = memory.cloud(create_within=600)
    await asyncio.gather(*(before.create(order(number)) for number in range(60)))
    await memory.time.advance(10)
    # A second controller, or the same one started again: it knows nothing of what was used up.
    after = memory.cloud()
    first, second = await after.create(order(100)), await after.create(order(101))
    assert [getattr(outcome, "reason", None) for outcome in (first, second)] == [Reason.RATE_LIMITED] * 2
    assert [getattr(outcome, "retry_after", None) for outcome in (first, second)] == [50.0, 50.0]
    assert len(refusals(memory)) == 1
    assert await after.catalogue()  # other paths have windows of their own
    await memory.time.advance(50)
    assert isinstance(await after.create(order(100)), Happened)
    for cloud in (before, after):
        await cloud.close()


async def test_what_others_use_up_slows_reads_before_anything_else() -> None:
    memory = Memory(balance=1_000_000)
    cloud = memory.cloud()
    token = memory.log_in(cloud._line._login())
    ids = await fifty(memory, cloud)
    for number in range(330):
        memory.send("GET", f"/instances/nobody-{number % 40}", token=token)
    began = memory.time.now
    await cloud.inventory()  # its headers tell of the others
    reads = [asyncio.create_task(cloud.instance(one)) for one in ids]
    removals = [asyncio.create_task(cloud.delete(one, ())) for one in ids]
    await memory.time.settle()
    assert all(task.done() for task in removals)
    assert not all(task.done() for task in reads)
    await finish(memory, reads, within=90)
    assert memory.time.now - began <= 75
    assert refusals(memory) == []
    await cloud.close()
