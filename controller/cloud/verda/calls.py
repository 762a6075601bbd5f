"""Calls off the event loop: a turn for each, worker threads, an end to every wait, and patience with reads.

The SDK blocks, and a peer that sends a byte now and then can hold a thread for longer than any socket
time-out. So every call has a time-out of its own on the loop, whatever its thread does: a call that no
thread had begun is known not to be sent, any other may have been. Reads have threads of their own: however
many of them hang, there is one for a removal. Only reads are repeated.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, Protocol
from urllib.parse import urlsplit

from controller.cloud.protocol import CloudError
from controller.cloud.verda.bodies import error_of
from controller.cloud.verda.gate import Gate
from controller.cloud.verda.pacing import Urgency
from controller.cloud.verda.waits import retry_after
from controller.cloud.verda.wire import Answer, Trouble
from controller.domain.cloudhealth import CloudHealth
from controller.domain.reason import Reason

READ_THREADS = 16
CHANGE_THREADS = 40
BACK_OFF_S = (0.2, 0.8)  # before the second and the third attempt of a read
LONGEST_PATIENCE_S = 5.0  # a longer Retry-After is passed on
MESSAGE = 160
REFUSED = "Verda refused the credentials; check VERDA_CLIENT_ID and VERDA_CLIENT_SECRET"


Workers = Callable[[int, str], Executor]  # how many at most, and their name


def threads(most: int, name: str) -> Executor:
    return ThreadPoolExecutor(most, thread_name_prefix=name)


class Send(Protocol):
    """One call of the API, on the caller's thread."""

    def __call__(self, method: str, path: str, **words: Any) -> Answer: ...


class Calls:
    def __init__(
        self,
        send: Send,
        *,
        base_url: str,
        timeout: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random,
        workers: Workers = threads,
    ) -> None:
        self._send = send
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep
        self._monotonic = monotonic
        self._gate = Gate(_shown(base_url), clock=clock, monotonic=monotonic, sleep=sleep, rng=rng)
        self._readers = workers(READ_THREADS, "verda-read")
        self._changers = workers(CHANGE_THREADS, "verda-change")
        self._closed = False

    def health(self) -> CloudHealth:
        return self._gate.health()

    def moved(self, base_url: str) -> None:
        self._gate.move(_shown(base_url))

    async def change(
        self,
        method: str,
        path: str,
        *,
        urgency: Urgency,
        path_params: Mapping[str, str] | None = None,
        json: Any = None,
        send_within: float | None = None,
    ) -> Answer:
        """One attempt, ever. What is not on the wire within `send_within` seconds never will be."""
        not_after = None if send_within is None else self._monotonic() + send_within
        until = self._monotonic() + self._timeout if not_after is None else not_after
        return await self._attempt(
            self._changers, until, self._timeout, urgency, method, path,
            path_params=path_params, json=json, not_after=not_after,
        )  # fmt: skip

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
            result = await self._once(until, path, params, path_params)
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
        self, until: float, path: str, params: Mapping[str, str] | None, ids: Mapping[str, str] | None
    ) -> Answer | CloudError:
        urgency = Urgency.LOOK if ids else Urgency.LIST
        try:
            answer = await self._attempt(
                self._readers, until, None, urgency, "GET", path, params=params, path_params=ids
            )
        except Trouble as trouble:
            if trouble.reason is Reason.UNAVAILABLE:
                return self._unavailable(trouble.message, trouble.retry_after)
            return CloudError(trouble.reason, trouble.message, trouble.retry_after)
        status = answer.status
        if 200 <= status < 300 or status in (400, 404):
            return answer
        wait = retry_after(answer, self._clock())
        told = f"GET {path}: answered {status}"
        if status in (401, 403):
            why = answer.hide(error_of(answer.text)[1])[:MESSAGE]
            return CloudError(Reason.UNAUTHORISED, f"{REFUSED} ({told}{': ' + why if why else ''})", wait)
        if status == 429:
            return CloudError(Reason.RATE_LIMITED, f"Verda asks for fewer calls ({told})", wait)
        if 300 <= status < 400:
            told = f"{told}, a redirection; check VERDA_BASE_URL"
        return self._unavailable(told, wait)

    def _unavailable(self, told: str, wait: float | None = None) -> CloudError:
        return CloudError(Reason.UNAVAILABLE, f"Verda cannot be used at {self._gate.where}: {told}", wait)

    async def _attempt(
        self,
        pool: Executor,
        until: float,
        timeout: float | None,
        urgency: Urgency,
        method: str,
        path: str,
        **words: Any,
    ) -> Answer:
        """Wait for the turn until then, send it, and wait for the answer for `timeout`, or until then too."""
        if self._closed:
            raise _closed(method, path)
        whole = path.format_map(words.get("path_params") or {})
        passed = await self._gate.enter(method, whole, path, urgency, until)
        trouble: Trouble | None = None
        try:
            lasts = until - self._monotonic() if timeout is None else timeout
            answer = await self._on_a_thread(pool, lasts, method, path, words)
            self._gate.answered(passed, answer)
        except Trouble as error:
            trouble = error
            self._gate.failed(passed, trouble)
            raise
        except BaseException:
            self._gate.failed(passed, None)
            raise
        return answer

    async def _on_a_thread(
        self, pool: Executor, timeout: float, method: str, path: str, words: Mapping[str, Any]
    ) -> Answer:
        if self._closed:
            raise _closed(method, path)
        future: Future[Answer] = pool.submit(self._send, method, path, **words)
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            # Giving up cancelled the future, which succeeds only while no thread has begun it.
            message = f"{method} {path}: no answer within {timeout:.3g} s"
            if future.cancelled():
                raise Trouble("not_sent", message, shows="nothing") from None
            raise Trouble("unknown", message) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and future.cancelled() and not (task and task.cancelling()):
                raise _closed(method, path) from None
            raise

    async def close(self) -> None:
        """Nothing that waits for a thread is sent any more; what is under way may end."""
        self._closed = True
        for pool in (self._readers, self._changers):
            pool.shutdown(wait=False, cancel_futures=True)


def _closed(method: str, path: str) -> Trouble:
    return Trouble("not_sent", f"{method} {path}: the connection to Verda is closed", shows="nothing")


def _shown(base_url: str) -> str:
    """The base URL without any password in it."""
    parts = urlsplit(base_url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() or base_url
