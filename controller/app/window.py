"""The quiet window: decide once after things calmed down, not once per event.

New demand extends the window by `quiet`, never beyond `longest` from the first event; a wish to look
again at a known moment (`at`) needs no quiet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Window:
    def __init__(self, quiet: float, longest: float, monotonic: Callable[[], float]) -> None:
        self._quiet = quiet
        self._longest = longest
        self._monotonic = monotonic
        self._first: float | None = None
        self._last = 0.0
        self._now = False
        self._changed = asyncio.Event()

    def change(self, quiet: float, longest: float) -> None:
        """Other settings are in force."""
        self._quiet, self._longest = quiet, longest

    def note(self) -> None:
        """Something changed that may change the plan."""
        moment = self._monotonic()
        if self._first is None:
            self._first = moment
        self._last = moment
        self._changed.set()

    def hurry(self) -> None:
        """Something of our own ended: look at once."""
        self._now = True
        self._changed.set()

    def due(self, tick_at: float) -> float:
        """The moment at which to look, given the latest moment `tick_at`."""
        if self._now:
            return self._monotonic()
        if self._first is None:
            return tick_at
        return min(tick_at, self._last + self._quiet, self._first + self._longest)

    async def wait(self, tick_at: float) -> None:
        """Return when it is time to look, at `tick_at` at the latest; starts the next window."""
        while (left := self.due(tick_at) - self._monotonic()) > 0:
            self._changed.clear()
            try:
                # Not wait_for: on Python 3.11 it may swallow a cancellation that arrives with the event.
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                break
        self._first, self._now = None, False
        self._changed.clear()
