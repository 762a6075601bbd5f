from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from controller.sandbox.simulator.clock import Stuck, VirtualLoop, nap


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


def test_a_timer_of_somebody_who_only_watches_changes_no_moment_of_the_others() -> None:
    async def moments(watched: bool) -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []
        loop = asyncio.get_running_loop()

        def again(name: str, every: float) -> None:
            seen.append((name, loop.time()))
            loop.call_later(every, again, name, every)

        def watch() -> None:
            loop.call_later(0.7, watch)

        if watched:
            watch()
        for name, every in (("a", 0.1), ("b", 0.3), ("c", 0.1), ("d", 60.0 / 7)):
            loop.call_later(every, again, name, every)
        await asyncio.sleep(200)
        return seen

    assert run(moments(watched=False)) == run(moments(watched=True))


def test_timers_that_were_cancelled_do_not_fill_the_memory() -> None:
    async def cancel_many() -> int:
        loop = asyncio.get_running_loop()
        for _ in range(20_000):
            loop.call_later(1e6, print).cancel()
        await asyncio.sleep(1)
        assert isinstance(loop, VirtualLoop)
        return len(loop._timers)

    assert run(cancel_many()) < 2_000


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


def test_a_nap_lasts_as_long_as_it_says() -> None:
    async def doze() -> list[float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await nap(5)
        after_one = loop.time() - began
        await asyncio.gather(*(asyncio.ensure_future(_doze(seconds)) for seconds in (3.0, 1.0, 2.0)))
        return [after_one, loop.time() - began]

    assert run(doze()) == [5, 8]


def test_a_nap_ends_with_its_task_or_with_its_time_limit() -> None:
    async def doze() -> list[object]:
        loop = asyncio.get_running_loop()
        told: list[object] = []
        sleeping = asyncio.ensure_future(_doze(100))
        await nap(1)
        sleeping.cancel()
        told += [type(error).__name__ for error in await asyncio.gather(sleeping, return_exceptions=True)]
        try:
            async with asyncio.timeout(4):
                await nap(100)
        except TimeoutError:
            told.append(loop.time())
        not_begun = asyncio.ensure_future(_doze(7))
        not_begun.cancel()
        await asyncio.wait([not_begun])
        return [*told, not_begun.cancelled(), loop.time()]

    assert run(doze()) == ["CancelledError", 5.0, True, 5.0]


async def _doze(seconds: float) -> None:
    await nap(seconds)
