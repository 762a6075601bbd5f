"""The sandbox cluster as a program: serves on loopback, prints its URL, runs until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from typing import Any

import yaml

from controller.sandbox.cluster.join import Defaults, read_yaml
from controller.sandbox.cluster.machines import Poll, follow
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.world import ClusterWorld
from controller.sandbox.shell import serve

TOKEN = "sandbox"
ENDS = (signal.SIGTERM, signal.SIGINT)


def kubeconfig_of(url: str, token: str = TOKEN) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": {"server": url}}],
        "users": [{"name": "sandbox", "user": {"token": token}}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        "current-context": "sandbox",
    }


def _read_settings(path: str | None, speed: float) -> Settings:
    settings = Settings(speed=speed)
    if path:
        settings.change(read_yaml(path, "settings") or {})
    return settings


def _write_private(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)


async def run(
    *,
    port: int = 0,
    cloud: str | None = None,
    kubeconfig: str | None = None,
    join_defaults: str | None = None,
    speed: float = 40,
    settings_file: str | None = None,
    seed: int = 0,
) -> None:
    """Serve until SIGTERM or SIGINT."""
    world = ClusterWorld(time.time, seed, _read_settings(settings_file, speed))
    defaults = Defaults.read(join_defaults) if join_defaults else None
    running = await serve(world, port=port)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in ENDS:
        loop.add_signal_handler(sign, ended.set)
    poll = asyncio.create_task(follow(cloud, Poll(world, defaults))) if cloud else None
    try:
        if kubeconfig:
            _write_private(kubeconfig, yaml.safe_dump(kubeconfig_of(running.url), sort_keys=False))
        print(running.url, flush=True)
        await ended.wait()
    finally:
        for sign in ENDS:
            loop.remove_signal_handler(sign)
        if poll is not None:
            poll.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await poll
        await running.stop()
