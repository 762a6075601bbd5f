from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
from kubernetes import client

from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.world import ClusterWorld
from controller.sandbox.shell import serve

from .town import Town


@pytest.fixture
def town() -> Town:
    return Town()


class Served:
    """A world behind real HTTP, with an official client that talks to it."""

    def __init__(self, url: str, world: ClusterWorld) -> None:
        self.url = url
        self.world = world

    def client(self, token: str = "") -> client.ApiClient:
        configuration = client.Configuration(host=self.url)
        configuration.api_key = {"authorization": f"Bearer {token or 'any'}"}
        configuration.retries = False
        return client.ApiClient(configuration)


@pytest.fixture
def served() -> Iterator[Served]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    world = ClusterWorld(time.time, 3, Settings(speed=2000.0))
    running = asyncio.run_coroutine_threadsafe(serve(world), loop).result(5)
    try:
        yield Served(running.url, world)
    finally:
        asyncio.run_coroutine_threadsafe(running.stop(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()
