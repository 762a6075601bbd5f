"""The line to the API: a session made at the first call, and made anew when the credentials are others.

A mounted Secret changes under a running program, usually after the old credentials were revoked in the
console. So the login is asked for before every call (it is cheap), and once more when the API does not take
what we have: what was answered with 401 did not happen, so it is safe to send it again.

Other credentials may be those of another project, where nothing of ours is and everything is "not found". So
what is about things of ours is sent to the trusted account alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from controller.cloud.verda.wire import Answer, Login, Trouble
from controller.domain.reason import Reason

log = logging.getLogger("gpu_autoscaler.cloud")


class Talk(Protocol):
    """Calls of one project with one login. Used from many threads."""

    @property
    def call(self) -> Callable[..., Answer]: ...

    def close(self) -> None: ...


Connect = Callable[[Login], Talk]


def sessions(connect_timeout: float, read_timeout: float, monotonic: Callable[[], float]) -> Connect:
    """Sessions of the SDK, which is imported on a worker thread: that takes longer than a loop may stand."""

    def connect(login: Login) -> Talk:
        from controller.cloud.verda.sdk import Session

        return Session(
            client_id=login.client_id,
            client_secret=login.client_secret,
            base_url=login.base_url,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            monotonic=monotonic,
        )

    return connect


STRANGE = (
    "the credentials are others than before, perhaps those of another project: nothing is changed with them "
    "before one of our machines was seen"
)


class Line:
    def __init__(self, login: Callable[[], Login], connect: Connect, moved: Callable[[str], None]) -> None:
        self._login = login
        self._connect = connect
        self._moved = moved
        self._lock = threading.Lock()
        self._held: tuple[Login, Talk] | None = None
        self.changes = 0  # of the credentials
        self.trusted: str | None = None  # the account that our things are in; None: any
        self.base_url = login().base_url

    @property
    def account(self) -> str:
        """That of the last call."""
        return self._held[0].account if self._held is not None else ""

    def send(self, method: str, path: str, *, about_ours: bool = False, **words: Any) -> Answer:
        account, talk = self._talk(about_ours)
        try:
            answer = talk.call(method, path, **words)
        except Trouble as trouble:
            if trouble.kind == "unknown" or trouble.reason is not Reason.UNAUTHORISED:
                raise
            account, other = self._talk(about_ours)
            if other is talk:
                raise
            answer = other.call(method, path, **words)
        else:
            if answer.status == 401:
                account, other = self._talk(about_ours)
                if other is not talk:
                    answer = other.call(method, path, **words)
        return msgspec.structs.replace(answer, account=account)

    def _talk(self, about_ours: bool) -> tuple[str, Talk]:
        with self._lock:
            login, talk = self._newest()
            if about_ours and self.trusted not in (None, login.account):
                raise Trouble("not_sent", STRANGE, Reason.UNAUTHORISED, shows="nothing")
            return login.account, talk

    def _newest(self) -> tuple[Login, Talk]:
        login = self._login()
        if self._held is not None and self._held[0] == login:
            return self._held
        if self._held is not None:
            log.info("the credentials of the cloud changed")
            self.changes += 1
            self._held[1].close()  # calls that are under way on it end as they would have
        if login.base_url != self.base_url:
            self.base_url = login.base_url
            self._moved(login.base_url)
        self._held = (login, self._connect(login))
        return self._held

    def close(self) -> None:
        held = self._held
        if held is not None:
            held[1].close()
