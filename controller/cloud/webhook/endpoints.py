"""Power endpoints over HTTP: one call each, without repetition, and what came of it.

A connection is never used twice: a server that closes an idle one leaves in doubt whether a call was read. For the same
reason the library is kept from repeating a call whose connection broke, as it does with methods that are idempotent by
name. Redirects are not followed, since credentials would go along. Certificates are read again when they change.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import msgspec

from controller.cloud.protocol import Send
from controller.cloud.webhook.calls import Keys, Request, Target, outcome_of, power_of, to_ask, to_switch
from controller.cloud.webhook.lookups import Lookups
from controller.domain.outcome import Outcome, Refused, Unknown
from controller.domain.reason import Reason

log = logging.getLogger("gpu_autoscaler.switches")

Read = Callable[[], Awaitable[str]]
_LONGEST_STATUS = 65_536
# No connection was made. A name that is none the resolver's codec refuses, with an error of its own kind.
_NOT_SENT = (
    aiohttp.ClientConnectorError, aiohttp.InvalidURL, aiohttp.ConnectionTimeoutError, UnicodeError,
)  # fmt: skip
# What a server says of a client's certificate in the handshake, as the library for TLS ends its names.
_CERTIFICATE_ALERTS = {
    "CERTIFICATE_REQUIRED": "it wants one",
    "NO_CERTIFICATE": "it wants one",
    "BAD_CERTIFICATE": "it is a bad one",
    "UNSUPPORTED_CERTIFICATE": "it is of a kind that is not supported",
    "CERTIFICATE_REVOKED": "it is revoked",
    "CERTIFICATE_EXPIRED": "it has expired",
    "CERTIFICATE_UNKNOWN": "it is not known",
    "UNKNOWN_CA": "its authority is not known",
    "ACCESS_DENIED": "access is denied",
}


class Unreadable(Exception):
    """A credential or certificate cannot be read now; the message names it and never shows it."""


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Where a webhook's credentials and certificates come from, each read right before a call."""

    bearer: Read | None = None
    password: Read | None = None
    key: Read | None = None
    signing: Read | None = None
    ca: Read | None = None
    certificate: Read | None = None
    private_key: Read | None = None


class HttpEndpoints:
    def __init__(
        self, targets: Mapping[str, Target], sources: Mapping[str, Sources], clock: Callable[[], float]
    ) -> None:
        """Both by the machine's name."""
        self._targets = targets
        self._sources = sources
        self._clock = clock
        self._lookups = Lookups()
        self._contexts: dict[tuple[str, str, str], ssl.SSLContext] = {}

    async def prepare(self, machine: str, on: bool) -> Send:
        target = self._targets.get(machine)
        if target is None:  # the settings have changed under a call
            return _refused(f"{machine} is no longer in the settings")
        try:
            keys, context = await self._prepared(machine)
        except Unreadable as error:
            return _refused(str(error))
        where = _host(target.on if on else target.off)

        async def send(key: str) -> Outcome:
            request = to_switch(target, on, key, keys, self._clock())
            try:
                async with _sent(target, request, context, self._lookups) as answer:
                    return outcome_of(target.way, answer.status, where, answer.headers.get("Retry-After", ""))
            except (*_NOT_SENT, _NotLetIn) as error:
                return Refused(Reason.UNAVAILABLE, f"{where} cannot be reached ({_words(error)})")
            except TimeoutError:
                return Unknown(f"{where} did not answer within {target.way.timeout:g} s")
            except (aiohttp.ClientError, OSError) as error:
                return Unknown(f"{where} broke off ({_words(error)})")

        return send

    async def ask(self, machine: str) -> str:
        target = self._targets.get(machine)
        if target is None or not target.status:
            return ""
        try:
            keys, context = await self._prepared(machine)
            request = to_ask(target, keys, self._clock())
            async with _sent(target, request, context, self._lookups) as answer:
                if answer.status != 200:
                    log.info("status endpoint", extra={"machine": machine, "status": answer.status})
                    return ""
                async with asyncio.timeout(target.way.timeout):
                    return power_of(target.way, await _whole(answer.content))
        except (Unreadable, aiohttp.ClientError, TimeoutError, OSError, UnicodeError) as error:
            log.info("status endpoint", extra={"machine": machine, "error": _words(error)})
            return ""

    async def _prepared(self, machine: str) -> tuple[Keys, ssl.SSLContext | None]:
        sources = self._sources.get(machine, Sources())

        async def read(source: Read | None) -> str:
            return (await source()).strip("\r\n") if source is not None else ""

        keys = Keys(
            bearer=_for_header("bearer token", await read(sources.bearer)),
            password=await read(sources.password),
            key=_for_header("key", await read(sources.key)),
            signing=await read(sources.signing),
        )
        parts = (await read(sources.ca), await read(sources.certificate), await read(sources.private_key))
        if not any(parts):
            return keys, None
        if parts not in self._contexts:
            self._contexts.clear()
            self._contexts[parts] = await asyncio.to_thread(_context, *parts)
        return keys, self._contexts[parts]


def _refused(why: str) -> Send:
    async def send(_key: str) -> Outcome:
        return Refused(Reason.UNAVAILABLE, why)

    return send


class _BrokenOff(aiohttp.ClientError):
    """A connection that broke when a call may have been read."""


class _NotLetIn(aiohttp.ClientError):
    """The server has ended the handshake, so no call was read."""


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """The library repeats after the errors that are hidden here, and after no other."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if why := _not_let_in(error):
            raise _NotLetIn(why) from error
        raise _BrokenOff(_words(error)) from error


def _not_let_in(error: BaseException) -> str:
    """Why the server will not have our certificate, or "".

    With TLS 1.3 it says so after our side of the handshake is done and the call is written. It has obeyed none of that:
    without our certificate its own side of the handshake is never done.
    """
    cause: BaseException | None = error
    while cause is not None:
        alert = (getattr(cause, "reason", None) or "").partition("ALERT_")[2]
        if isinstance(cause, ssl.SSLError) and alert in _CERTIFICATE_ALERTS:
            return f"our certificate is not accepted: {_CERTIFICATE_ALERTS[alert]}"
        cause = cause.__cause__
    return ""


@asynccontextmanager
async def _sent(
    target: Target, request: Request, context: ssl.SSLContext | None, lookups: Lookups
) -> AsyncIterator[aiohttp.ClientResponse]:
    way = target.way
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True, resolver=lookups),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        middlewares=(_once,),
    )
    call = session.request(
        request.method,
        request.url,
        data=request.body or None,
        headers=request.headers,
        allow_redirects=False,
        ssl=context if context is not None else True,
        server_hostname=(way.server_name or None) if request.url.startswith("https") else None,
        # Until there is a connection, which includes the look-up of its name, nothing was sent.
        timeout=aiohttp.ClientTimeout(
            total=way.timeout, connect=way.timeout * 0.8, sock_connect=way.timeout * 0.8
        ),
    )
    async with session, call as answer:
        yield answer


async def _whole(content: aiohttp.StreamReader) -> bytes:
    """It may come in pieces. A text that is longer than any status is cut."""
    text = b""
    while len(text) < _LONGEST_STATUS and (piece := await content.read(_LONGEST_STATUS - len(text))):
        text += piece
    return text


def _for_header(what: str, text: str) -> str:
    """A header of several lines is none; the library raises what nobody expects of a call."""
    if not text.isprintable():
        raise Unreadable(f"the {what} is not one line of text")
    return text


def _context(ca: str, certificate: str, key: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=ca + "\n" if ca else None)
    except (ssl.SSLError, ValueError):
        raise Unreadable("tls.ca holds no certificate that can be read (PEM)") from None
    if certificate:
        # The library reads this pair from files only; nobody else may, and they are gone at once.
        handle, path = tempfile.mkstemp(prefix="gpu-autoscaler-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(f"{certificate}\n{key}\n")
            context.load_cert_chain(path, password=lambda: "")
        except (ssl.SSLError, OSError, ValueError):
            raise Unreadable("tls.certificate and tls.key are no pair that can be read (PEM)") from None
        finally:
            os.unlink(path)
    return context


def _host(url: str) -> str:
    """Of an address no more than this is ever told: the rest may be a secret of its own."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def _words(error: BaseException) -> str:
    if isinstance(error, Unreadable | _BrokenOff | _NotLetIn):
        return str(error)
    if isinstance(error, UnicodeError):
        return "its name is none that can be looked up"
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, OSError) and cause.strerror:
        return str(cause.strerror)
    return type(error).__name__
