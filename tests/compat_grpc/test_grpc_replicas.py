"""Two replicas behind one address: a client keeps its connection, and must get away from one that leads no more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from compat_grpc import serving
from tests.compat_grpc.generations import Client
from tests.compat_grpc.scene import code_of, served


class Address:
    """As a Service does it: a new connection goes to whoever is ready then, and stays there."""

    def __init__(self) -> None:
        self.target = 0
        self.port = 0
        self.connections = 0

    async def pass_on(self, reader: Any, writer: Any) -> None:
        self.connections += 1
        there, back = await asyncio.open_connection("127.0.0.1", self.target)

        async def copy(source: Any, sink: Any) -> None:
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        await asyncio.gather(copy(reader, back), copy(there, writer))


@asynccontextmanager
async def one_address() -> AsyncIterator[Address]:
    address = Address()
    server = await asyncio.start_server(address.pass_on, "127.0.0.1", 0)
    address.port = server.sockets[0].getsockname()[1]
    try:
        yield address
    finally:
        server.close()


async def test_a_client_finds_the_replica_that_leads_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CONNECTION_AGE", 1.0)
    async with one_address() as address, served() as first, served(first.world) as second:
        second.controller.leads = False
        address.target = first.port
        async with grpc.aio.insecure_channel(f"127.0.0.1:{address.port}") as channel:
            client = Client(channel)
            assert (await code_of(client.Refresh()))[0] == "OK"
            await first.controller.lose_lease()
            second.controller.leads = True
            address.target = second.port
            assert (await code_of(client.Refresh()))[0] == "UNAVAILABLE"
            async with asyncio.timeout(30):
                while (await code_of(client.Refresh()))[0] != "OK":  # a call is a pause
                    continue


async def test_no_call_fails_because_a_connection_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CONNECTION_AGE", 0.2)
    async with one_address() as address, served() as one:
        address.target = one.port
        async with grpc.aio.insecure_channel(f"127.0.0.1:{address.port}") as channel:
            client = Client(channel)
            async with asyncio.timeout(60):
                while address.connections < 4:
                    assert (await code_of(client.NodeGroups()))[0] == "OK"
