"""An event loop whose clock jumps to the next timer: a day passes as fast as what happens in it can be done.

No sockets, no threads, no real time: what runs on it runs in the same order every time. The clock stands exactly at
the moment of the timer that is due, and timers of one moment run in the order in which they were set; so one timer
more, of somebody who only watches, changes nothing for the others. When nothing is left to be done and no timer is
set, whoever waits would wait for ever, which is an error and is told.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Any

_MANY = 512  # cancelled timers that may lie about


class Stuck(RuntimeError):
    """Everything waits, and nothing will ever happen."""


class _Step(asyncio.Handle):
    """What asyncio's own does, without asking at each step whether somebody debugs."""

    __slots__ = ()

    def __init__(
        self,
        callback: Any,
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None
        self._args = ()


class _Timer(asyncio.TimerHandle):
    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Any,
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = None
            self._args = ()
            if self._scheduled:
                self._loop.given_up()


class _Nap:
    """What a sleeping task waits for. A timer wakes the task itself, not a future that would wake it a step later."""

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_context", "_loop", "_seconds", "_timer", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._cancelled = False
        self._asyncio_future_blocking = False

    def __await__(self) -> Generator[_Nap, None, None]:
        self._asyncio_future_blocking = True
        yield self

    # -- as a task asks of it

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, wake: Callable[[_Nap], object], *, context: contextvars.Context) -> None:
        self._wake, self._context = wake, context
        self._timer = self._loop.call_later(self._seconds, wake, self, context=context)

    def cancel(self, msg: object = None) -> bool:
        if not self._cancelled:
            self._cancelled = True
            self._timer.cancel()
            self._loop.call_soon(self._wake, self, context=self._context)
        return True

    def result(self) -> None:
        if self._cancelled:
            raise asyncio.CancelledError


def nap(seconds: float) -> Awaitable[None]:
    """`asyncio.sleep` for what is done a hundred thousand times a day."""
    return _Nap(asyncio.get_running_loop(), seconds)


class VirtualLoop(asyncio.BaseEventLoop):
    """`call_soon`, `call_later` and `call_at` are asyncio's own, leaner: most of a simulated day passes through them."""

    _ready: deque[Any]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._numbered = 0
        self._given_up = 0

    def time(self) -> float:
        return self._now

    # -- what comes

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = _Step(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Any,
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        self._numbered += 1
        heapq.heappush(self._timers, (when, self._numbered, timer))
        return timer

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Any,
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        when = self._now + delay  # as `call_at`, which would be one call more for each of them
        timer = _Timer(when, callback, args, self, context)
        self._numbered += 1
        heapq.heappush(self._timers, (when, self._numbered, timer))
        return timer

    def given_up(self) -> None:
        """A timer was cancelled: it stays where it is until its moment, unless there are too many of its kind."""
        self._given_up += 1
        if self._given_up > _MANY and 2 * self._given_up > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2]._cancelled]
            heapq.heapify(self._timers)
            self._given_up = 0

    # -- running

    def _run_once(self) -> None:
        ready, timers = self._ready, self._timers
        if not ready and not self._stopping:
            while timers and timers[0][2]._cancelled:
                heapq.heappop(timers)
                self._given_up -= 1
            if not timers:
                raise Stuck("nothing is left that could happen")
            if timers[0][0] > self._now:
                self._now = timers[0][0]
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False
            if timer._cancelled:
                self._given_up -= 1
            else:
                ready.append(timer)
        for _ in range(len(ready)):  # what comes meanwhile has its turn next time
            handle = ready.popleft()
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - told, as asyncio does it
                    told = {"message": f"Exception in callback {handle._callback}", "exception": error}
                    self.call_exception_handler({**told, "handle": handle})

    def _process_events(self, events: object) -> None:
        """There are no files."""

    def _write_to_self(self) -> None:
        """Nobody sleeps in a system call, so nobody has to be woken."""
