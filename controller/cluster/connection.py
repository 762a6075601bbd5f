"""The one way to the API server: connections, time-outs, renewed credentials, errors in one line.

Quirks dealt with: a 401, or a server's certificate that is not trusted, is answered by one reload of the
credentials (rotated tokens, certificates and authorities); a firewall or a balancer may forget connections without a word, and keep-alive does not
always see it, so a request without an answer puts the silent watches in doubt as well; a line of a watch
may be megabytes long (etcd's limit is 1.5 MiB, but JSON is larger), where aiohttp's own `readline` gives up.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping

import aiohttp
import msgspec

from controller.cluster import answers, rights
from controller.cluster.credentials import Access, Credentials
from controller.cluster.protocol import ClusterError
from controller.cluster.sessions import Session, opened

CONNECT_TIMEOUT = 10.0
TIMEOUT = 30.0
IDLE = 15.0  # seconds after which a connection that nobody uses is closed
IDLE_APART = 75.0  # kept warm for whoever asks seldom; the API server itself closes after 90
LONGEST_LINE = 64 * 2**20
LONGEST_ANSWER_READ = 2**16  # of an error
_TROUBLE = (aiohttp.ClientError, TimeoutError, OSError)
_USER_OF_URL = re.compile(r"//[^/\s]*@")  # a proxy may need a name and a password
_SHORTEST_TOKEN = 6


class _Stream:
    """A watch that runs, and when it was last heard of."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.heard = _time()

    def cut(self) -> None:
        self._response.close()  # whoever reads from it gets a ClientError


class Connection:
    """Implements `protocol.Transport`."""

    def __init__(
        self, credentials: Credentials, *, timeout: float = TIMEOUT, beside: Connection | None = None
    ) -> None:
        self._credentials = credentials
        self._timeout = timeout
        self._beside = beside
        self._apart: list[Connection] = []
        self._session: Session | None = None
        self._streams: set[_Stream] = set()
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
        async with (
            self._answer("GET", path, query, None, "", limit) as response,
            self._heard(response) as stream,
        ):
            pieces: list[bytes] = []
            held = 0
            async for chunk in response.content.iter_any():
                stream.heard = _time()
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

    def apart(self) -> Connection:
        """One more with the same credentials, whose connections nobody else uses; it is closed with this one.

        Where it has no answer, what is silent here is in doubt, too.
        """
        made = Connection(self._credentials, timeout=self._timeout, beside=self)
        self._apart.append(made)
        return made

    async def missing_rights(self, namespace: str, secrets: Iterable[str] = ()) -> list[str]:
        """Rights that are not granted, as lines such as `patch nodes`; sorted, empty when all is well."""
        return await rights.missing(self, namespace, secrets)

    async def close(self) -> None:
        self._closed = True
        for part in self._apart:
            await part.close()
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
        began = _time()
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
                        raw = _without(access, await response.content.read(LONGEST_ANSWER_READ))
                        told = response.headers.get("Retry-After", "")
                        failure = answers.refused(f"{method} {path}", response.status, raw, told)
                except _TROUBLE as error:
                    failure = answers.unreachable(f"{method} {path}", access.host, _why(error, limit))
                    if isinstance(error, TimeoutError) and limit.total is not None:
                        await self._doubt(session, began)
                    if not isinstance(error, aiohttp.ClientSSLError):
                        raise failure from None
            # A certificate that is not trusted is told before anything is sent, and may be known by now.
            if attempt == 2 or failure.status not in (0, 401):
                raise failure
            access = await self._credentials.reload(access)

    async def _doubt(self, session: Session | None, since: float) -> None:
        """A request had no answer in time: what is silent since it was sent may be dead, and is made anew."""
        for stream in [stream for stream in self._streams if stream.heard < since]:
            stream.cut()
        if session is not None and self._session is session:
            self._session = None
            await session.retire()
        if self._beside is not None:
            await self._beside._doubt(self._beside._session, since)

    @contextlib.asynccontextmanager
    async def _heard(self, response: aiohttp.ClientResponse) -> AsyncIterator[_Stream]:
        stream = _Stream(response)
        self._streams.add(stream)
        try:
            yield stream
        finally:
            self._streams.discard(stream)

    @contextlib.asynccontextmanager
    async def _borrowed(self, access: Access) -> AsyncIterator[Session]:
        before = session = self._session
        if self._closed:
            raise ClusterError("other", "the connection to the API server is closed")
        if session is None or session.access.transport != access.transport:
            session = self._session = opened(access, IDLE if self._beside is None else IDLE_APART)
        session.users += 1
        try:
            if before is not None and before is not session:
                await before.retire()  # only now: whoever asks meanwhile uses the new one
            yield session
        finally:
            await session.leave()


def _time() -> float:
    return asyncio.get_running_loop().time()


def _why(error: BaseException, limit: aiohttp.ClientTimeout) -> str:
    if isinstance(error, TimeoutError):
        return f"time-out after {limit.total or limit.sock_read or CONNECT_TIMEOUT:g} s"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    return _USER_OF_URL.sub("//***@", str(error)) or type(error).__name__


def _without(access: Access, answer: bytes) -> bytes:
    """Whatever stands before the API server may repeat what it was sent; the token is told to nobody."""
    token = access.authorization.rpartition(" ")[2].encode()
    return answer.replace(token, b"***") if len(token) >= _SHORTEST_TOKEN else answer
