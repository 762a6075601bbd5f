"""Names of power servers, looked up by threads of their own.

A look-up cannot be broken off: a name server that is silent holds its thread for half a minute. The threads that the
event loop lends read the cluster's tokens and changed settings as well, so a name that is stuck must not take them; and
whoever asks for the same name meanwhile waits for the same answer.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

_MOST = 16
_threads = ThreadPoolExecutor(_MOST, thread_name_prefix="power-names")
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
_Found = list[tuple[Any, ...]]


class Lookups(AbstractResolver):
    def __init__(self) -> None:
        self._under_way: dict[tuple[str, int], asyncio.Future[_Found]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        key = (host, family)
        if key not in self._under_way:
            look_up = partial(
                socket.getaddrinfo, host, None, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
            )
            found = asyncio.get_running_loop().run_in_executor(_threads, look_up)
            self._under_way[key] = found
            found.add_done_callback(partial(self._ended, key))
        rows = await asyncio.shield(self._under_way[key])
        return [
            ResolveResult(
                hostname=host, host=_text(address), port=port, family=kind, proto=proto, flags=_NUMERIC
            )
            for kind, _, proto, _, address in rows
        ]

    def _ended(self, key: tuple[str, int], found: asyncio.Future[_Found]) -> None:
        self._under_way.pop(key, None)
        if not found.cancelled():
            found.exception()  # whoever waited may be gone

    async def close(self) -> None:
        """Its sessions come and go; it stays."""


def _text(address: tuple[Any, ...]) -> str:
    """With the interface, where an address counts on one only."""
    scoped = len(address) == 4 and address[3] and "%" not in address[0]
    return f"{address[0]}%{address[3]}" if scoped else str(address[0])
