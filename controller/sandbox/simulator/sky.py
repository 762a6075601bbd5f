"""The cloud as the adapter reaches it in memory: what stands for sockets and threads, under the virtual clock.

The real adapter decides, waits its turn and classifies; only the SDK's session is another one, which keeps
the same manners: a token with margin, one more try after a 401, nothing sent after `not_after`, and trouble
told as "not sent" or "unknown". A call is work for an executor whose threads are moments of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from controller.cloud.verda.wire import Answer, Login, Trouble
from controller.domain.reason import Reason
from controller.sandbox.simulator.carrier import NEVER, Carried
from controller.sandbox.wire import Request

TOKEN_MARGIN = 60.0


class Sky(Protocol):
    """Where calls arrive."""

    def carried(self, request: Request, *, late: bool) -> Carried: ...

    def lateness(self, request: Request) -> float:
        """Seconds for which this one is on its way already sent, and not yet there."""
        ...


class _Slow(Exception):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Air(Executor):
    """The way of one controller to the cloud. `cut` when its process is dead: nothing is sent any more."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sky: Sky, *, latency: Callable[[], float], read_timeout: float
    ) -> None:
        self.sky = sky
        self.dead = False
        self.frozen_until = 0.0
        self.read_timeout = read_timeout
        self._loop = loop
        self._latency = latency
        self._took = 0.0  # by the call that is being made
        self._sent = False  # its first byte left before

    def submit(self, work: Callable[..., Any], /, *args: Any, **words: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._loop.call_later(self._latency(), self._go, future, False, work, args, words)
        return future

    def _go(
        self,
        future: Future[Any],
        sent: bool,
        work: Callable[..., Any],
        args: tuple[Any, ...],
        words: Mapping[str, Any],
    ) -> None:
        if self.dead and not sent:
            return
        if self.frozen_until > self._loop.time():  # the process stands still before the first byte
            self._loop.call_at(self.frozen_until, self._go, future, sent, work, args, words)
            return
        if not sent and not future.set_running_or_notify_cancel():
            return
        self._took, self._sent = 0.0, sent
        try:
            result = work(*args, **words)
        except _Slow as slow:
            self._loop.call_later(slow.seconds, self._go, future, True, work, args, words)
        except Exception as error:  # noqa: BLE001 - as a thread would hand it on
            self._end(future, None, error)
        else:
            self._end(future, result, None)

    def _end(self, future: Future[Any], result: Any, error: Exception | None) -> None:
        def tell() -> None:
            if self.dead or future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        if self._took < NEVER:
            self._loop.call_later(self._latency() + self._took, tell)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass

    # -- a call, on its "thread"

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: Any, not_after: float | None
    ) -> Answer:
        if not self._sent and not_after is not None and self._loop.time() > not_after:
            raise Trouble("not_sent", "it was too late to send it", shows="nothing")
        request = Request.of(method, "/v1" + target, b"" if body is None else body, headers)
        if not self._sent and (late := self.sky.lateness(request)) > 0:
            raise _Slow(late)
        found = self.sky.carried(request, late=self._sent)
        if found.seconds > self.read_timeout:
            self._took += self.read_timeout
            raise Trouble("unknown", f"no answer within {self.read_timeout:g} s")
        self._took += found.seconds
        if found.response is None or not found.whole:
            raise Trouble("unknown", "the connection was lost before an answer came")
        response = found.response
        lowered = {key.lower(): value for key, value in response.headers.items()}
        return Answer(response.status, lowered, response.body.decode("utf-8-sig", "replace"))


class Session:
    """Implements what the adapter talks to (`login.Talk`)."""

    def __init__(self, air: Air, login: Login, monotonic: Callable[[], float]) -> None:
        self._air = air
        self._login = login
        self._monotonic = monotonic
        self._token = ""
        self._ends = 0.0

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        path_params: Mapping[str, str] | None = None,
        not_after: float | None = None,
    ) -> Answer:
        ids = {name: quote(value, safe="") for name, value in (path_params or {}).items()}
        target = path.format_map(ids) + (f"?{urlencode(params)}" if params else "")
        try:
            answer = self._authorised(method, target, json, not_after)
            if answer.status == 401:
                self._token = ""
                answer = self._authorised(method, target, json, not_after)
        except Trouble as trouble:
            told = f"{method} {path}: {trouble.message}"
            again = Trouble(trouble.kind, told, trouble.reason, trouble.retry_after, shows=trouble.shows)
            raise again from None
        return answer

    def _authorised(self, method: str, target: str, body: Any, not_after: float | None) -> Answer:
        if not self._token or self._monotonic() > self._ends:
            self._log_in()
        headers = {"authorization": f"Bearer {self._token}", "user-agent": "simulated"}
        return self._air.send(method, target, headers, body, not_after)

    def _log_in(self) -> None:
        body = {
            "grant_type": "client_credentials",
            "client_id": self._login.client_id,
            "client_secret": self._login.client_secret,
        }
        try:
            answer = self._air.send("POST", "/oauth2/token", {"user-agent": "simulated"}, body, None)
            told = answer.json() if answer.status == 200 else {}
            token, lasts = str(told["access_token"]), float(told.get("expires_in", 3600))
        except Trouble as trouble:
            raise Trouble("not_sent", f"no token: {trouble.message}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            refused = answer.status in (400, 401, 403)
            reason = Reason.UNAUTHORISED if refused else Reason.UNAVAILABLE
            raise Trouble("not_sent", f"no token: answered {answer.status}", reason) from None
        self._token, self._ends = token, self._monotonic() + lasts - TOKEN_MARGIN

    def close(self) -> None:
        self._token = ""
