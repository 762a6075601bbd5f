"""The cloud behind real HTTP on loopback: the shell, its faults, the command, and Verda's own SDK."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import requests
from verda import VerdaClient
from verda.exceptions import APIException

from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.world import CloudWorld
from controller.sandbox.shell import Running, serve
from controller.sandbox.wire import Request, Response, Stream

from .sdk_surface import NOWHERE, Walk, error_codes, surface

SPEED = 20_000  # a boot of minutes passes in hundredths of a second


@pytest.fixture
async def cloud() -> AsyncIterator[Running]:
    settings = Settings().changed({"speed": SPEED, "rate_limits": False})
    running = await serve(CloudWorld(time.time, random.Random(1), settings))
    yield running
    await running.stop()


async def test_the_whole_surface_of_the_unmodified_sdk_works(cloud: Running) -> None:
    client = await asyncio.to_thread(VerdaClient, "id", "secret", f"{cloud.url}/v1")
    used = await asyncio.to_thread(Walk(client, 10).all)
    assert surface(client) - used == set()


async def test_every_error_code_of_the_sdk_can_be_met(cloud: Running) -> None:
    async with aiohttp.ClientSession() as http:
        rule = {"path": "/locations", "fault": "answer", "status": 500}
        rule["body"] = {"code": "server_error", "message": "Internal server error"}
        await http.put(f"{cloud.url}/_sandbox/faults", json=[rule])
        await http.put(f"{cloud.url}/_sandbox/stock", json=[{"market": "spot", "count": 0}])
        met = await asyncio.to_thread(_codes, VerdaClient, cloud.url)
    assert met == error_codes()


def _codes(make: Any, url: str) -> set[str]:
    client = make("id", "secret", f"{url}/v1")
    instances, order = client.instances, {"wait_for_status": None, "description": "", "hostname": "m"}
    machine = {"instance_type": "1A100.22V", "image": "ubuntu-24.04"}
    up = instances.create(**machine, **order | {"wait_for_status": "running", "initial_interval": 0.01})
    calls: list[Any] = [
        lambda: instances.create("none", "ubuntu-24.04", **order),
        lambda: instances.get_by_id(NOWHERE),
        lambda: client.volumes.detach(up.os_volume_id),
        lambda: client.locations.get(),
        lambda: instances.create(**machine, **order, is_spot=True),
        lambda: _broke(url) or instances.create(**machine, **order),
        lambda: _revoked(url) or client.balance.get(),
    ]
    codes = set()
    for call in calls:
        with pytest.raises(APIException) as refused:
            call()
        codes.add(refused.value.code)
    return codes


def _broke(url: str) -> None:
    requests.put(f"{url}/_sandbox/settings", json={"balance": 0}, timeout=5)


def _revoked(url: str) -> None:
    requests.post(f"{url}/_sandbox/revoke-tokens", timeout=5)


async def _order(http: aiohttp.ClientSession, url: str, patience: float) -> aiohttp.ClientResponse:
    login = {"grant_type": "client_credentials", "client_id": "a", "client_secret": "b"}
    async with http.post(f"{url}/v1/oauth2/token", json=login) as answer:
        token = (await answer.json())["access_token"]
    body = {
        "instance_type": "CPU.4V.16G",
        "image": "ubuntu-24.04",
        "hostname": "cpu-1",
        "location_code": "FIN-01",
    }
    return await http.post(
        f"{url}/v1/instances",
        json=body,
        headers={"Authorization": f"Bearer {token}", "Connection": "close"},
        timeout=aiohttp.ClientTimeout(total=patience),
    )


@pytest.mark.parametrize(
    ("rule", "creates", "outcome"),
    [
        ({"fault": "lose_before"}, 0, "cut"),
        ({"fault": "lose_after"}, 1, "cut"),
        ({"fault": "hang"}, 0, "silence"),
        ({"fault": "hang", "seconds": 0.02}, 0, "cut"),
        ({"fault": "answer", "status": 503, "body": "<html>"}, 0, 503),
        ({"fault": "answer_after", "status": 500}, 1, 500),
        ({"fault": "delay_answer", "seconds": 0.02}, 1, 202),
        ({"fault": "delay_answer", "seconds": 5}, 1, "silence"),
        ({"fault": "quoted"}, 1, 202),
        ({"fault": "empty"}, 1, 202),
        ({"fault": "hang_after"}, 1, "silence"),
        ({"fault": "hang_after", "seconds": 0.02}, 1, "cut"),
        ({"fault": "twice"}, 2, 202),
        ({"fault": "cut_answer"}, 1, "cut"),
        ({"fault": "drip", "seconds": 0.05}, 1, 202),
        ({"fault": "drip", "seconds": 5}, 1, "silence"),
    ],
)
async def test_a_fault_hits_a_create_before_or_after_it_counts(
    cloud: Running, rule: dict[str, Any], creates: int, outcome: str | int
) -> None:
    async with aiohttp.ClientSession() as http:
        rules = [{"method": "POST", "path": "/instances", **rule}]
        async with http.put(f"{cloud.url}/v1/_sandbox/faults", json=rules) as put:
            assert put.status == 200
        met: str | int
        try:
            answer = await _order(http, cloud.url, 0.5 if outcome == "silence" else 20)
            await answer.read()
            met = answer.status
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            met = "cut"
        except TimeoutError:
            met = "silence"
        assert met == outcome
        async with http.get(f"{cloud.url}/_sandbox/state") as state:
            assert (await state.json())["creates"] == creates


async def test_the_token_endpoint_can_be_broken_or_silent(cloud: Running) -> None:
    grant = {"grant_type": "client_credentials", "client_id": "a", "client_secret": "b"}
    rules = [
        {"path": "/oauth2/token", "fault": "answer", "status": 500, "body": "<html>"},
        {"path": "/oauth2/token", "fault": "hang"},
    ]
    brief = aiohttp.ClientTimeout(total=0.3)
    async with aiohttp.ClientSession(timeout=brief) as http:
        await http.put(f"{cloud.url}/_sandbox/faults", json=rules)
        async with http.post(f"{cloud.url}/v1/oauth2/token", json=grant) as answer:
            assert (answer.status, await answer.text()) == (500, "<html>")
        with pytest.raises(TimeoutError):
            await http.post(f"{cloud.url}/v1/oauth2/token", json=grant)
        async with http.post(f"{cloud.url}/v1/oauth2/token", json=grant) as answer:
            assert answer.status == 200


class _Streaming:
    """A core with one endless stream, to see how the shell carries it."""

    def __init__(self) -> None:
        self.stream = Stream()
        self.left = asyncio.Event()
        self.ticks = 0
        self.stream.on_abandon = self.left.set

    def handle(self, request: Request) -> Response:
        if request.path == "/watch":
            self.stream.put(b"one\n")
            return Response(200, b"", {"Content-Type": "application/json"}, self.stream)
        self.stream.put(request.body)
        self.stream.close()
        return Response(204)

    def tick(self) -> float | None:
        self.ticks += 1
        return 0.005 if self.ticks < 3 else None


async def test_a_stream_is_carried_until_it_is_closed() -> None:
    core = _Streaming()
    running = await serve(core)
    async with aiohttp.ClientSession() as http, http.get(f"{running.url}/watch") as watch:
        assert await watch.content.readline() == b"one\n"
        async with http.post(f"{running.url}/put", data=b"x" * 2_000_000) as put:
            assert put.status == 204
        assert len(await watch.read()) == 2_000_000
    assert not core.left.is_set()
    assert core.ticks >= 3
    await running.stop()


async def test_a_client_that_leaves_is_told_to_the_core() -> None:
    core = _Streaming()
    running = await serve(core)
    async with aiohttp.ClientSession() as http:
        watch = await http.get(f"{running.url}/watch")
        watch.close()
        await asyncio.wait_for(core.left.wait(), 10)
    await running.stop()


async def test_a_stop_is_prompt_with_streams_and_hanging_requests_open() -> None:
    core = _Streaming()
    running = await serve(core)
    async with aiohttp.ClientSession() as http:
        await http.put(f"{running.url}/_sandbox/faults", json=[{"path": "/hang", "fault": "hang"}])
        hanging = asyncio.create_task(http.post(f"{running.url}/hang"))
        async with http.get(f"{running.url}/watch") as watch:
            await watch.content.readline()
            await asyncio.wait_for(running.stop(), 10)  # left alone, connections are waited for a minute
            assert core.left.is_set()
        with pytest.raises(aiohttp.ClientConnectionError):
            await hanging


async def test_the_command_prints_its_url_first_and_ends_on_sigterm() -> None:
    code = "import asyncio; from controller.sandbox.cloud.command import run; asyncio.run(run(credentials='a:b'))"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    assert url.startswith("http://127.0.0.1:")
    assert url.endswith("/v1")
    async with aiohttp.ClientSession() as http, http.get(f"{url}/instance-types") as answer:
        assert len(await answer.json()) == 55
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
