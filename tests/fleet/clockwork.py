"""Time that passes only when a test says so. No test waits for a real second."""

from __future__ import annotations

import asyncio
import heapq
from typing import Any

START = 1_800_000_000.0


class Time:
    def __init__(self, start: float = START) -> None:
        self.now = start
        self._timers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._timers, (self.now + max(0.0, seconds), self._count, future))
        await future

    async def settle(self) -> None:
        """Let every task run until it waits for time or for the test."""
        loop: Any = asyncio.get_running_loop()
        for _ in range(10_000):
            await asyncio.sleep(0)
            if not loop._ready:
                return
        raise AssertionError("some task never waits")

    def back_to(self, moment: float) -> None:
        """A clock that was ahead is corrected; who waits goes on waiting for as long as before."""
        ahead, self.now = self.now - moment, moment
        self._timers = [(at - ahead, count, future) for at, count, future in self._timers]

    async def advance(self, seconds: float) -> None:
        target = self.now + seconds
        await self.settle()
        while self._timers and self._timers[0][0] <= target:
            moment, _, future = heapq.heappop(self._timers)
            self.now = max(self.now, moment)
            if not future.done():
                future.set_result(None)
                await self.settle()
        self.now = max(self.now, target)
        await self.settle()
