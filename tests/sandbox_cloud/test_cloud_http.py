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
from verda import VerdaClient
from verda.exceptions import APIException

from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.world import CloudWorld
from controller.sandbox.shell import Running, serve
from controller.sandbox.wire import Request, Response, Stream

SPEED = 20_000  # a boot of minutes passes in hundredths of a second


@pytest.fixture
async def cloud() -> AsyncIterator[Running]:
    settings = Settings().changed({"speed": SPEED, "rate_limits": False})
    running = await serve(CloudWorld(time.time, random.Random(1), settings))
    yield running
    await running.stop()


def _drive(url: str) -> None:
    """A whole life through the SDK, which is synchronous."""
    client = VerdaClient("id", "secret", base_url=f"{url}/v1")
    types = {one.instance_type: one for one in client.instance_types.get()}
    assert types["1A100.22V"].price_per_hour == 1.29
    assert client.instances.is_available("1A100.22V", is_spot=True, location_code="FIN-03") is True
    assert {row["location_code"] for row in client.instances.get_availabilities(is_spot=False)} == {
        "FIN-01",
        "FIN-02",
        "FIN-03",
        "ICE-01",
    }
    image = client.images.get(instance_type="1A100.22V")[-1]
    assert client.locations.get()[0]["code"] == "FIN-01"
    assert client.volume_types.get()[0].price_per_month_per_gb == 0.2
    script = client.startup_scripts.create("gpuas-boot", "#!/bin/bash\n")
    assert client.startup_scripts.get_by_id(script.id).script == "#!/bin/bash\n"
    key = client.ssh_keys.create("me", "ssh-ed25519 AAAA")
    assert client.ssh_keys.get_by_id(key.id).name == "me"

    instance = client.instances.create(
        "1A100.22V",
        image.image_type,
        "home-a100-abcdefghij",
        "gpuas home abcdefghij",
        ssh_key_ids=[key.id],
        startup_script_id=script.id,
        os_volume={"name": "home-a100-abcdefghij", "size": 100},
        wait_for_status="running",
        initial_interval=0.01,
        max_interval=0.01,
    )
    assert (instance.status, instance.location, bool(instance.ip)) == ("running", "FIN-03", True)
    client.startup_scripts.delete_by_id(script.id)
    volume_id = str(instance.os_volume_id)
    assert client.volumes.get_by_id(volume_id).instance_id == instance.id
    client.instances.action(instance.id, "delete", volume_ids=[volume_id], delete_permanently=True)
    deadline = time.monotonic() + 5
    while client.instances.get() or client.volumes.get():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert client.volumes.get_in_trash() == []
    assert client.instances.get_by_id(instance.id).status == "discontinued"
    client.instances.action(instance.id, "delete")
    assert 9_990 < client.balance.get().amount < 10_000
    with pytest.raises(APIException) as refused:
        client.instances.get_by_id("00000000-0000-4000-8000-000000000000")
    assert refused.value.code == "not_found"


def _keep_and_throw_away(url: str) -> None:
    client = VerdaClient("id", "secret", base_url=f"{url}/v1")
    volume = client.volumes.create("NVMe", "data", 50)
    client.volumes.rename(volume.id, "other")
    client.volumes.increase_size(volume.id, 60)
    assert client.volumes.clone(volume.id, "copy").size == 60
    client.volumes.delete_by_id(volume.id)
    deadline = time.monotonic() + 5
    while [one.name for one in client.volumes.get_in_trash()] != ["other"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_the_unmodified_sdk_buys_and_deletes_a_machine(cloud: Running) -> None:
    await asyncio.to_thread(_drive, cloud.url)


async def test_the_unmodified_sdk_moves_disks_to_the_trash(cloud: Running) -> None:
    await asyncio.to_thread(_keep_and_throw_away, cloud.url)


async def _order(http: aiohttp.ClientSession, url: str) -> aiohttp.ClientResponse:
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
        timeout=aiohttp.ClientTimeout(total=0.5),
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
            answer = await _order(http, cloud.url)
            await answer.read()
            met = answer.status
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            met = "cut"
        except TimeoutError:
            met = "silence"
        assert met == outcome
        async with http.get(f"{cloud.url}/_sandbox/state") as state:
            assert (await state.json())["creates"] == creates


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
        await asyncio.wait_for(core.left.wait(), 2)
    await running.stop()


async def test_a_stop_is_prompt_with_streams_and_hanging_requests_open() -> None:
    core = _Streaming()
    running = await serve(core)
    async with aiohttp.ClientSession() as http:
        await http.put(f"{running.url}/_sandbox/faults", json=[{"path": "/hang", "fault": "hang"}])
        hanging = asyncio.create_task(http.post(f"{running.url}/hang"))
        async with http.get(f"{running.url}/watch") as watch:
            await watch.content.readline()
            await asyncio.wait_for(running.stop(), 1)
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
