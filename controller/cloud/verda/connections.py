"""Connections to the API: one kept alive per worker thread, and proof of whether a request left.

Deals with three quirks below the SDK. `requests` reports a refused connection, a failed handshake and a
connection lost after the request by classes that overlap, so the connection itself records the moment
of the first byte: only what is known to have ended before it is "not sent". A server may close an idle
connection just when it is used again, and the request is lost without a verdict, so connections that
were idle for more than 15 s are not used again and a POST (which may cost money) always opens its own.
And `requests` lets a ~/.netrc replace the Authorization header, unless it is given an `auth`.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError, ReadTimeoutError

from controller.cloud.verda.wire import Answer, Trouble

IDLE_LIMIT_S = 15.0


class _Gate(threading.local):
    """What is known about the request that this thread is sending."""

    connecting = False  # one of our connections was asked to connect
    sent = False  # the first byte was handed over
    late = False  # it was held back
    not_after: float | None = None  # monotonic: afterwards nothing may be sent any more
    monotonic: Callable[[], float] = staticmethod(time.monotonic)

    def open(self, not_after: float | None, monotonic: Callable[[], float]) -> None:
        self.connecting = self.sent = self.late = False
        self.not_after = not_after
        self.monotonic = monotonic

    @contextmanager
    def no_request_yet(self) -> Iterator[None]:
        """While connecting, a proxy may be spoken to, which is no part of the request."""
        self.connecting = True
        try:
            yield
        finally:
            self.sent = False

    def pass_first_byte(self) -> None:
        if not self.sent and self.not_after is not None and self.monotonic() > self.not_after:
            self.late = True
            raise OSError("too late to be sent")
        self.sent = True


_gate = _Gate()


class _Plain(HTTPConnection):
    def connect(self) -> None:
        with _gate.no_request_yet():
            super().connect()

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        _gate.pass_first_byte()
        super().send(data)


class _Tls(HTTPSConnection):
    def connect(self) -> None:
        with _gate.no_request_yet():
            super().connect()

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        _gate.pass_first_byte()
        super().send(data)


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _Tls


class _Adapter(HTTPAdapter):
    """Watched connections, directly and through an HTTP proxy. Behind SOCKS nothing is proven."""

    def init_poolmanager(
        self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any
    ) -> None:
        super().init_poolmanager(connections, maxsize, block, **pool_kwargs)
        _watch(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        if not proxy.lower().startswith("socks"):
            _watch(manager)
        return manager


def _watch(manager: PoolManager) -> None:
    manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _TlsPool}


class _Kept(threading.local):
    session: requests.Session | None = None
    used_at = 0.0


class Connections:
    """Sends one request and returns whatever was answered. Usable from many threads."""

    def __init__(
        self,
        connect_timeout: float,
        read_timeout: float,
        *,
        idle_limit: float = IDLE_LIMIT_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout = (connect_timeout, read_timeout)
        self._idle_limit = idle_limit
        self._monotonic = monotonic
        self._kept = _Kept()
        self._all: list[requests.Session] = []
        self._lock = threading.Lock()

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        params: Mapping[str, str] | None = None,
        json: Any = None,
        not_after: float | None = None,
    ) -> Answer:
        alone = method == "POST"
        session = _session() if alone else self._session()
        _gate.open(not_after, self._monotonic)
        try:
            response = session.request(
                method,
                url,
                headers={**headers, "Connection": "close"} if alone else dict(headers),
                params=dict(params or {}),
                json=json,
                timeout=self._timeout,
                allow_redirects=False,
                auth=_as_it_is,
            )
            text = response.content.decode("utf-8-sig", "replace")
        except Exception as error:  # noqa: BLE001 - whatever went wrong, a paid machine may exist
            self._drop(session)
            raise self._trouble(error) from None
        finally:
            if alone:
                session.close()
            else:
                self._kept.used_at = self._monotonic()
        return Answer(response.status_code, {k.lower(): v for k, v in response.headers.items()}, text)

    def _session(self) -> requests.Session:
        kept = self._kept
        if kept.session is not None and self._monotonic() - kept.used_at > self._idle_limit:
            self._drop(kept.session)
        if kept.session is None:
            kept.session = _session()
            with self._lock:
                self._all.append(kept.session)
        return kept.session

    def _drop(self, session: requests.Session) -> None:
        session.close()
        if self._kept.session is session:
            self._kept.session = None
            with self._lock:
                self._all = [other for other in self._all if other is not session]

    def _trouble(self, error: Exception) -> Trouble:
        # Neither connecting nor sent: refused before there was a connection (a bad URL or header),
        # or connections that are not ours, of which nothing is known.
        proven = not _gate.sent and (_gate.connecting or isinstance(error, ValueError))
        if not proven:
            return Trouble("unknown", self._sentence(error))
        away = _gate.connecting and not _gate.late
        return Trouble("not_sent", self._sentence(error), shows="away" if away else "nothing")

    def _sentence(self, error: Exception) -> str:
        """What happened, in words of ours: the texts of the libraries carry addresses of objects."""
        connect, read = self._timeout
        if _gate.late:
            return "it was too late to send it"
        for cause in _causes(error):
            if isinstance(cause, NameResolutionError | socket.gaierror):
                return "the host name cannot be resolved"
            if isinstance(cause, ssl.SSLCertVerificationError):
                return f"the TLS certificate was not accepted: {cause.verify_message}"
            if isinstance(cause, ssl.SSLError):
                return f"TLS failed: {cause.reason or 'the handshake was not completed'}"
            if isinstance(cause, ConnectionRefusedError):
                return "the connection was refused"
            if isinstance(cause, NewConnectionError):
                return "no connection could be made"
            if isinstance(cause, ConnectTimeoutError):
                return f"no connection within {connect:g} s"
            if isinstance(cause, ReadTimeoutError):
                return f"no answer within {read:g} s"
            if isinstance(cause, ConnectionError):
                return "the connection was lost before an answer came"
        return f"the connection failed ({type(error).__name__})"

    def close(self) -> None:
        with self._lock:
            sessions, self._all = self._all, []
        for session in sessions:
            session.close()


def _session() -> requests.Session:
    session = requests.Session()
    adapter = _Adapter(pool_connections=2, pool_maxsize=1)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and everything it was raised from, the innermost (which says most) first."""
    found: list[BaseException] = []
    todo: list[BaseException] = [error]
    while todo:
        one = todo.pop(0)
        if any(one is seen for seen in found):
            continue
        found.append(one)
        inner = (getattr(one, "reason", None), one.__cause__, one.__context__, *one.args)
        todo.extend(item for item in inner if isinstance(item, BaseException))
    return iter(reversed(found))
