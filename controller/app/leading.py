"""Competing for the lease for as long as the program runs, and saying for whom it waits where that takes long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from controller.cluster.lease import Lease

log = logging.getLogger("gpu_autoscaler")


async def lead(lease: Lease, period: Callable[[], float], sleep: Callable[[float], Awaitable[None]]) -> None:
    """`period`: seconds between two looks, which a reload may change."""
    waiting = asyncio.create_task(_tell_of_waiting(lease, period, sleep), name="waiting")
    try:
        await lease.run()
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def _tell_of_waiting(
    lease: Lease, period: Callable[[], float], sleep: Callable[[float], Awaitable[None]]
) -> None:
    periods, told = 0, ""
    while True:
        await sleep(period())
        if lease.held:
            periods, told = 0, ""
            continue
        periods += 1
        holder = lease.holder or "nobody known"
        if periods >= 2 and holder != told:
            log.info("waiting for the lease", extra={"holder": holder, "problem": lease.error})
            told = holder
