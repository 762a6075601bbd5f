from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from controller.sandbox.simulator.clock import Stuck, VirtualLoop


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def test_a_year_of_sleep_takes_no_time() -> None:
    async def sleep() -> float:
        await asyncio.sleep(365 * 86400)
        return asyncio.get_running_loop().time()

    began = time.perf_counter()
    assert run(sleep()) == pytest.approx(365 * 86400)
    assert time.perf_counter() - began < 5


def test_timers_fire_in_the_order_of_their_times_and_then_of_their_making() -> None:
    async def order() -> list[str]:
        seen: list[str] = []
        loop = asyncio.get_running_loop()
        for at, name in ((3, "c"), (1, "a"), (1, "b"), (7, "d")):
            loop.call_later(at, seen.append, name)
        await asyncio.sleep(10)
        return seen

    assert run(order()) == ["a", "b", "c", "d"]


def test_time_outs_end_waits_at_their_time() -> None:
    async def wait() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(wait()) == pytest.approx(30)


def test_who_would_wait_for_ever_is_told() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    loop = VirtualLoop()
    task = loop.create_task(wait())
    with pytest.raises(Stuck):
        loop.run_until_complete(task)
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
