"""gRPC stays up for the whole run.

It ends itself with the last server or channel, and starts anew with the next; what outlives that, such as a failed
call in a captured log, crashes the process when it is forgotten. A controller has one server for all of its life.
"""

from __future__ import annotations

import asyncio

import grpc
import pytest


@pytest.fixture(autouse=True, scope="session")
def _grpc_stays_up() -> None:
    async def up() -> None:
        grpc.aio.init_grpc_aio()  # counted, and never given back

    asyncio.run(up())
