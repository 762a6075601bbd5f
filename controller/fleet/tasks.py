"""Tasks by key: never two of one key, none that dies unnoticed, and after a failure a growing pause.

Whoever starts tasks does so again and again from what the records say; so a task that ended without
reaching its aim is simply started anew, but not before its pause is over, or trouble of the outside
would become a tight loop of calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from controller.cloud.protocol import CloudError
from controller.cluster.protocol import ClusterError
from controller.fleet.book import LedgerError

log = logging.getLogger("gpu_autoscaler.fleet")

FIRST_PAUSE = 2.0
MOST_PAUSE = 30.0

Work = Callable[[], Coroutine[Any, Any, None]]


class NotYet(Exception):
    """The aim was not reached, for a reason that is no fault; it is tried again after a pause."""

    def __init__(self, why: str, pause: float = 0.0) -> None:
        super().__init__(why)
        self.pause = pause


class Grounded(Exception):
    """We no longer lead: nothing more may be changed. Whoever leads goes on from the ledger."""


class Tasks:
    def __init__(self, clock: Callable[[], float], wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._pauses: dict[str, tuple[float, float]] = {}  # by key: its length, and when it began

    def running(self, key: str) -> bool:
        task = self._tasks.get(key)
        return task is not None and not task.done()

    async def ended(self, key: str) -> None:
        """Wait for what runs under this key; giving up waiting ends nothing."""
        if (task := self._tasks.get(key)) is not None and not task.done():
            await asyncio.wait([task])

    @property
    def idle(self) -> bool:
        return not any(not task.done() for task in self._tasks.values())

    def start(self, key: str, work: Work) -> bool:
        """Whether it was started; not while it runs, nor in the pause after a failure."""
        if self.running(key) or self._pausing(key):
            return False
        task = asyncio.get_running_loop().create_task(self._guarded(key, work), name=key)
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._ended(key, done))
        return True

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]

    @property
    def due(self) -> float | None:
        """When the next pause ends, and what failed may be started again."""
        now = self._clock()
        ends = [began + length for length, began in self._pauses.values() if began <= now]
        return min((end for end in ends if end >= now), default=None)

    def _pausing(self, key: str) -> bool:
        length, began = self._pauses.get(key, (0.0, 0.0))
        return 0 <= self._clock() - began < length  # a clock that jumped back ends the pause

    async def _guarded(self, key: str, work: Work) -> None:
        try:
            await work()
        except Grounded:
            log.info("left to whoever leads now", extra={"task": key})
        except NotYet as why:
            self._failed(key, why.pause)
            log.info("not yet", extra={"task": key, "why": str(why)})
        except (CloudError, ClusterError, LedgerError) as error:
            self._failed(key, getattr(error, "retry_after", None) or 0.0)
            log.warning("not finished, will be tried again", extra={"task": key, "error": str(error)})
        except Exception:
            self._failed(key)
            log.exception("unexpected error", extra={"task": key})
        else:
            self._pauses.pop(key, None)
        finally:
            self._wake()

    def _failed(self, key: str, least: float = 0.0) -> None:
        now = self._clock()
        before = self._pauses.get(key, (0.0, 0.0))[0]
        self._pauses[key] = (max(least, min(MOST_PAUSE, max(FIRST_PAUSE, before * 2))), now)
        for old in [k for k, (length, began) in self._pauses.items() if now - began > length + 600]:
            del self._pauses[old]

    async def stop(self, first: str, patience: float) -> None:
        """Wait for the tasks whose key begins with `first`, then end all of them."""
        orders = [task for key, task in self._tasks.items() if key.startswith(first) and not task.done()]
        if orders and patience > 0:
            await asyncio.wait(orders, timeout=patience)
        rest = [task for task in self._tasks.values() if not task.done()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
