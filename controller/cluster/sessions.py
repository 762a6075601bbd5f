"""Connections to the API server under one set of certificates, kept as long as anybody uses them.

Quirks dealt with: a peer that vanished without a FIN is noticed by TCP keep-alive, long before the read
time-out of a quiet watch; Python 3.13 asks more of certificates than Go does.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Mapping

import aiohttp
from aiohttp.abc import AbstractCookieJar
from yarl import URL

from controller.cluster import answers
from controller.cluster.credentials import Access
from controller.cluster.protocol import ClusterError


class Session:
    """An aiohttp session for one set of certificates; closed when replaced and no longer in use."""

    def __init__(self, access: Access, idle: float) -> None:
        self.access = access
        self.users = 0
        self.retired = False
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=_tls(access) if access.host.startswith("https") else True,
                socket_factory=_socket,
                keepalive_timeout=idle,
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

    async def retire(self) -> None:
        """Nobody new uses it; watches that run on it may finish."""
        self.retired = True
        self.users += 1
        await self.leave()

    async def leave(self) -> None:
        self.users -= 1
        if self.retired and not self.users:
            await self.close()


def opened(access: Access, idle: float) -> Session:
    try:
        return Session(access, idle)
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
