"""Work and timers of the world under an injected clock: nothing here sleeps or looks at the real time.

`soon` takes work that follows from a write (once per key, so that a burst is one run), `after` takes
timers. `run` does a bounded amount, because the carrier must answer requests in between.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable

Work = Callable[[], object]


class Timer:
    __slots__ = ("at", "work")

    def __init__(self, at: float, work: Work) -> None:
        self.at = at
        self.work: Work | None = work

    def cancel(self) -> None:
        self.work = None


class Agenda:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._soon: OrderedDict[Hashable, Work] = OrderedDict()
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0

    def soon(self, key: Hashable, work: Work) -> None:
        self._soon.setdefault(key, work)

    def after(self, seconds: float, work: Work) -> Timer:
        timer = Timer(self.clock() + seconds, work)
        self._count += 1
        heapq.heappush(self._timers, (timer.at, self._count, timer))
        return timer

    def run(self, limit: int = 300) -> float | None:
        """Do what is due; seconds until the next timer, 0 when work is left, None when there is none."""
        done = 0
        while done < limit:
            if self._soon:
                _, work = self._soon.popitem(last=False)
                work()
            elif self._timers and self._timers[0][0] <= self.clock():
                timer = heapq.heappop(self._timers)[2]
                if timer.work is None:
                    continue
                timer.work()
            else:
                break
            done += 1
        if self._soon:
            return 0.0
        while self._timers and self._timers[0][2].work is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - self.clock()) if self._timers else None
