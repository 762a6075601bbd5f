"""An event loop whose clock jumps to the next timer: a day passes as fast as what happens in it can be done.

No sockets, no threads, no real time: what runs on it runs in the same order every time. When nothing is
left to be done and no timer is set, whoever waits would wait for ever, which is an error and is told.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any


class Stuck(RuntimeError):
    """Everything waits, and nothing will ever happen."""


class _Jump(selectors.BaseSelector):
    """Instead of waiting for a file it lets the time pass."""

    def __init__(self) -> None:
        self.now = 0.0
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, fileobj if isinstance(fileobj, int) else -1, events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("nothing is left that could happen")
        if timeout > 0:
            self.now += timeout
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)
        # A timer is due within this. After months a nanosecond more is the same number, and nothing would ever be due.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._jump.now

    def _write_to_self(self) -> None:
        """Nobody sleeps in a system call, so nobody has to be woken."""
