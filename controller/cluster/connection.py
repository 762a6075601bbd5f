"""The one way to the API server: connections, time-outs, renewed credentials, errors in one line.

Quirks dealt with: a 401 is answered by one reload of the credentials (rotated tokens, expired
certificates); a peer that vanished without a FIN is noticed by TCP keep-alive, long before the read
time-out of a quiet watch; a line of a watch may be megabytes long (etcd's limit is 1.5 MiB, but JSON is
larger), where aiohttp's own `readline` gives up; Python 3.13 asks more of certificates than Go does.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping

import aiohttp
import msgspec
from aiohttp.abc import AbstractCookieJar
from yarl import URL

from controller.cluster import answers, rights
from controller.cluster.credentials import Access, Credentials
from controller.cluster.protocol import ClusterError

CONNECT_TIMEOUT = 10.0
TIMEOUT = 30.0
LONGEST_LINE = 64 * 2**20
LONGEST_ANSWER_READ = 2**16  # of an error
_TROUBLE = (aiohttp.ClientError, TimeoutError, OSError)


class _Session:
    """An aiohttp session for one set of certificates; closed when replaced and no longer in use."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.users = 0
        self.retired = False
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=_tls(access) if access.host.startswith("https") else True,
                socket_factory=_socket,
                ttl_dns_cache=60,
            ),
            cookie_jar=_no_cookies(),
            trust_env=True,  # HTTPS_PROXY and NO_PROXY, as kubectl does
            read_bufsize=2**18,
        )

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None,
        data: bytes | None,
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._client.request(
            method,
            URL(self.access.host + path, encoded=True),
            params=query,
            data=data,
            headers=headers,
            timeout=timeout,
            proxy=self.access.proxy,
            server_hostname=self.access.server_name,
            allow_redirects=False,  # a redirect would carry the token to somebody else
        )

    async def close(self) -> None:
        await self._client.close()

    async def leave(self) -> None:
        self.users -= 1
        if self.retired and not self.users:
            await self.close()


class Connection:
    """Implements `protocol.Transport`."""

    def __init__(self, credentials: Credentials, *, timeout: float = TIMEOUT) -> None:
        self._credentials = credentials
        self._timeout = timeout
        self._session: _Session | None = None
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> bytes:
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        limit = aiohttp.ClientTimeout(total=timeout or self._timeout, sock_connect=CONNECT_TIMEOUT)
        async with self._answer(method, path, query, data, content_type, limit) as response:
            return await response.read()

    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, read_timeout: float = 330.0
    ) -> AsyncGenerator[bytes, None]:
        limit = aiohttp.ClientTimeout(
            total=None, connect=self._timeout, sock_connect=CONNECT_TIMEOUT, sock_read=read_timeout
        )
        async with self._answer("GET", path, query, None, "", limit) as response:
            pieces: list[bytes] = []
            held = 0
            async for chunk in response.content.iter_any():
                *lines, rest = chunk.split(b"\n")
                for line in lines:
                    whole = b"".join((*pieces, line)) if pieces else line
                    pieces, held = [], 0
                    if whole:
                        yield whole
                if rest:
                    pieces.append(rest)
                    held += len(rest)
                    if held > LONGEST_LINE:
                        raise ClusterError(
                            "other", f"GET {path}: a line longer than {LONGEST_LINE >> 20} MiB"
                        )
            # A last line without its end is a cut connection's: it is not whole, so it is not told.

    async def missing_rights(self, namespace: str, secrets: Iterable[str] = ()) -> list[str]:
        """Rights that are not granted, as lines such as `patch nodes`; sorted, empty when all is well."""
        return await rights.missing(self, namespace, secrets)

    async def close(self) -> None:
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @contextlib.asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        data: bytes | None,
        content_type: str,
        limit: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A 2xx answer; every other one, and none, is a ClusterError."""
        access = await self._credentials.current()
        for attempt in (1, 2):
            headers = {"Accept": "application/json", "User-Agent": "verda-gpu-autoscaler"}
            if access.authorization:
                headers["Authorization"] = access.authorization
            if data is not None:
                headers["Content-Type"] = content_type
            async with self._borrowed(access) as session:
                try:
                    async with session.send(
                        method, path, headers=headers, timeout=limit, query=query, data=data
                    ) as response:
                        if response.status < 300:
                            yield response
                            return
                        raw = await response.content.read(LONGEST_ANSWER_READ)
                except _TROUBLE as error:
                    raise answers.unreachable(f"{method} {path}", access.host, _why(error, limit)) from None
            if response.status != 401 or attempt == 2:
                raise answers.refused(
                    f"{method} {path}", response.status, raw, response.headers.get("Retry-After", "")
                )
            access = await self._credentials.reload(access)

    @contextlib.asynccontextmanager
    async def _borrowed(self, access: Access) -> AsyncIterator[_Session]:
        session = self._session
        if self._closed:
            raise ClusterError("other", "the connection to the API server is closed")
        if session is None or session.access.transport != access.transport:
            if session is not None:
                session.retired = True  # watches that run on it may finish
                session.users += 1
                await session.leave()
            session = self._session = _opened(access)
        session.users += 1
        try:
            yield session
        finally:
            await session.leave()


def _opened(access: Access) -> _Session:
    try:
        return _Session(access)
    except (OSError, ssl.SSLError) as error:
        raise ClusterError(
            "unauthorised", f"cannot use the certificates for {access.host}: {answers.one_line(str(error))}"
        ) from None


def _tls(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.ca_file)
    # Go, and so kubectl, does not ask for the key identifiers that many clusters' own CAs leave out.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if access.cert_file:
        context.load_cert_chain(access.cert_file, keyfile=access.key_file)
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices within a minute that its peer is gone: watches are silent for minutes."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
    return made


def _no_cookies() -> AbstractCookieJar:
    return aiohttp.DummyCookieJar()


def _why(error: BaseException, limit: aiohttp.ClientTimeout) -> str:
    if isinstance(error, TimeoutError):
        return f"time-out after {limit.total or limit.sock_read or CONNECT_TIMEOUT:g} s"
    return str(error) or type(error).__name__
