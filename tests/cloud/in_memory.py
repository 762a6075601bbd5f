"""The adapter on the sandbox cloud without sockets or threads, both on one clock that tests turn."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any
from urllib.parse import urlencode

import msgspec

from controller.cloud.verda.provider import VerdaCloud
from controller.cloud.verda.wire import Answer, Login
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.world import CloudWorld
from controller.sandbox.wire import Request
from tests.fleet.clockwork import Time


class Seen(msgspec.Struct, frozen=True):
    at: float
    method: str
    path: str
    status: int


class Inline(Executor):
    """Work is done where it is asked for."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **words: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args, **words))
        except Exception as error:  # noqa: BLE001 - as a thread would hand it on
            future.set_exception(error)
        return future


class Memory:
    def __init__(self, **knobs: Any) -> None:
        self.time = Time()
        still = {"speed": 1, "ordered_s": 100_000, "script_quota": 10_000}
        self.world = CloudWorld(self.time.clock, random.Random(7), Settings().changed({**still, **knobs}))
        self.seen: list[Seen] = []

    def cloud(self, **words: Any) -> VerdaCloud:
        return VerdaCloud(
            client_id="client", client_secret="secret", base_url="memory://verda/v1",
            clock=self.time.clock, monotonic=self.time.clock, sleep=self.time.sleep, rng=random.Random(7),
            connect=lambda login: _Talk(self, login), workers=lambda most, name: Inline(), **words,
        )  # fmt: skip

    def send(self, method: str, target: str, body: Any = b"", token: str = "") -> Answer:
        request = Request.of(method, "/v1" + target, body, {"Authorization": f"Bearer {token}"})
        response = self.world.handle(request)
        self.seen.append(Seen(self.time.now, method, request.path.removeprefix("/v1"), response.status))
        headers = {key.lower(): value for key, value in response.headers.items()}
        return Answer(response.status, headers, response.body.decode())

    def log_in(self, login: Login) -> str:
        body = {
            "grant_type": "client_credentials",
            "client_id": login.client_id,
            "client_secret": login.client_secret,
        }
        return str(self.send("POST", "/oauth2/token", body).json()["access_token"])

    def most_in_a_minute(self, of: Callable[[Seen], bool]) -> int:
        """In any sixty seconds, wherever they begin."""
        moments = [one.at for one in self.seen if of(one)]
        return max((bisect_left(moments, a + 59.99) - bisect_left(moments, a) for a in moments), default=0)


class _Talk:
    def __init__(self, memory: Memory, login: Login) -> None:
        self._memory = memory
        self._token = memory.log_in(login)

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        path_params: Mapping[str, str] | None = None,
        json: Any = None,
        not_after: float | None = None,
    ) -> Answer:
        assert not_after is None or self._memory.time.now <= not_after
        target = path.format_map(path_params or {}) + (f"?{urlencode(params)}" if params else "")
        return self._memory.send(method, target, b"" if json is None else json, self._token)

    def close(self) -> None:
        pass
