"""Calls off the event loop: worker threads, an end to every wait, and patience with reads.

The SDK blocks, and a peer that sends a byte now and then can hold a thread for longer than any socket
time-out. So every call has a time-out of its own on the loop, whatever its thread does: a call that no
thread had begun is known not to be sent, any other may have been. Only reads are repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from controller.cloud.protocol import CloudError
from controller.cloud.verda.answers import error_of, retry_after
from controller.cloud.verda.wire import Answer, Trouble
from controller.domain.reason import Reason

if TYPE_CHECKING:
    from controller.cloud.verda.sdk import Session

THREADS = 16
BACK_OFF_S = (0.2, 0.8)  # before the second and the third attempt of a read
LONGEST_PATIENCE_S = 5.0  # a longer Retry-After is passed on
MESSAGE = 160
REFUSED = "Verda refused the credentials; check VERDA_CLIENT_ID and VERDA_CLIENT_SECRET"


class Calls:
    def __init__(
        self,
        connect: Callable[[], Session],
        *,
        base_url: str,
        timeout: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._where = _shown(base_url)
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep
        self._monotonic = monotonic
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="verda")
        self._closed = False

    async def change(
        self,
        method: str,
        path: str,
        *,
        path_params: Mapping[str, str] | None = None,
        json: Any = None,
        send_within: float | None = None,
    ) -> Answer:
        """One attempt, ever. What is not on the wire within `send_within` seconds never will be."""
        not_after = None if send_within is None else self._monotonic() + send_within
        return await self._attempt(
            self._timeout, method, path, path_params=path_params, json=json, not_after=not_after
        )

    async def read(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        path_params: Mapping[str, str] | None = None,
    ) -> Answer:
        """A GET, repeated twice at most. 2xx, 400 and 404 are returned, everything else is a CloudError."""
        until = self._monotonic() + self._timeout  # for all attempts together
        attempt = 0
        while True:
            result = await self._once(until - self._monotonic(), path, params, path_params)
            if isinstance(result, Answer):
                return result
            pause = self._pause(result, attempt)
            if pause is None or self._monotonic() + pause >= until:
                raise result
            await self._sleep(pause)
            attempt += 1

    def _pause(self, failure: CloudError, attempt: int) -> float | None:
        if attempt >= len(BACK_OFF_S) or failure.reason not in (Reason.UNAVAILABLE, Reason.RATE_LIMITED):
            return None
        if failure.reason is Reason.RATE_LIMITED and failure.retry_after is None:
            return None
        pause = max(BACK_OFF_S[attempt], failure.retry_after or 0.0)
        return pause if pause <= LONGEST_PATIENCE_S else None

    async def _once(
        self,
        timeout: float,
        path: str,
        params: Mapping[str, str] | None,
        path_params: Mapping[str, str] | None,
    ) -> Answer | CloudError:
        try:
            answer = await self._attempt(timeout, "GET", path, params=params, path_params=path_params)
        except Trouble as trouble:
            if trouble.reason is Reason.UNAVAILABLE:
                return self._unavailable(trouble.message, trouble.retry_after)
            return CloudError(trouble.reason, trouble.message, trouble.retry_after)
        status = answer.status
        if 200 <= status < 300 or status in (400, 404):
            return answer
        wait = retry_after(answer.header("Retry-After"), self._clock())
        told = f"GET {path}: answered {status}"
        if status in (401, 403):
            why = error_of(answer.text)[1][:MESSAGE]
            return CloudError(Reason.UNAUTHORISED, f"{REFUSED} ({told}{': ' + why if why else ''})", wait)
        if status == 429:
            return CloudError(Reason.RATE_LIMITED, f"Verda asks for fewer calls ({told})", wait)
        if 300 <= status < 400:
            told = f"{told}, a redirection; check VERDA_BASE_URL"
        return self._unavailable(told, wait)

    def _unavailable(self, told: str, wait: float | None = None) -> CloudError:
        return CloudError(Reason.UNAVAILABLE, f"Verda cannot be used at {self._where}: {told}", wait)

    async def _attempt(self, timeout: float, method: str, path: str, **words: Any) -> Answer:
        if self._closed:
            raise Trouble("not_sent", f"{method} {path}: the connection to Verda is closed")
        future: Future[Answer] = self._pool.submit(self._on_thread, method, path, words)
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            # Giving up cancelled the future, which succeeds only while no thread has begun it.
            message = f"{method} {path}: no answer within {timeout:.3g} s"
            raise Trouble("not_sent" if future.cancelled() else "unknown", message) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and future.cancelled() and not (task and task.cancelling()):
                raise Trouble("not_sent", f"{method} {path}: the connection to Verda is closed") from None
            raise

    def _on_thread(self, method: str, path: str, words: Mapping[str, Any]) -> Answer:
        return self._connect().call(method, path, **words)

    async def close(self) -> None:
        """Nothing that waits for a thread is sent any more; what is under way may end."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)


def _shown(base_url: str) -> str:
    """The base URL without any password in it."""
    parts = urlsplit(base_url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() or base_url
