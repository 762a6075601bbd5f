"""A power server's name that nobody answers for holds up nothing but the calls to it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from controller.cloud.webhook.calls import Target, Way
from controller.cloud.webhook.endpoints import HttpEndpoints
from controller.domain.outcome import Happened, Refused
from controller.domain.reason import Reason
from tests.power_server import PowerServer

GUARD = 20.0  # against a test that never ends


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names that end in .stuck are looked up until the test is over; the list holds those that are."""
    over, asked, real = threading.Event(), [], socket.getaddrinfo

    def look_up(host: Any, *words: Any, **more: Any) -> Any:
        if str(host).endswith(".stuck"):
            asked.append(str(host))
            over.wait(GUARD)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real(host, *words, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield asked
    over.set()


def endpoints(*hosts: str, timeout: float = 0.3, method: str = "POST") -> HttpEndpoints:
    targets = {
        host: Target(
            name=host, gpus=1, on=f"http://{host}/on", off=f"http://{host}/off", status=f"http://{host}/status",
            way=Way(timeout=timeout, method=method),
        )
        for host in hosts
    }  # fmt: skip
    return HttpEndpoints(targets, {}, lambda: 0.0)


async def test_a_call_whose_name_is_not_found_in_time_was_certainly_not_made(stuck: list[str]) -> None:
    made = endpoints("power.stuck")
    outcome = await (await made.prepare("power.stuck", True))("key")
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.UNAVAILABLE
    assert stuck == ["power.stuck"]


async def test_names_that_are_stuck_leave_room_for_all_other_work(stuck: list[str]) -> None:
    """Tokens of the cluster are read by the same threads that look names up, unless these have their own."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    hosts = [f"n{n}.stuck" for n in range(8)]
    made = endpoints(*hosts)
    assert await asyncio.gather(*(made.ask(host) for host in hosts)) == [""] * len(hosts)
    assert stuck
    async with asyncio.timeout(GUARD / 2):
        assert await asyncio.to_thread(lambda: "read") == "read"


async def test_a_name_that_is_stuck_is_looked_up_once_at_a_time_and_keeps_no_other_waiting(
    stuck: list[str],
) -> None:
    with PowerServer() as server:
        other = server.url.removeprefix("http://").replace("127.0.0.1", "localhost")
        made = endpoints("power.stuck", other, timeout=5.0)
        waiting = [asyncio.create_task(made.ask("power.stuck")) for _ in range(50)]
        outcome = await (await made.prepare(other, True))("key")
        assert outcome == Happened()
        assert stuck == ["power.stuck"]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
