"""The sandbox cloud as a program: on a loopback port, until it is told to stop.

Its first line on stdout is the base URL, for whoever started it to read. A settings file is YAML or
JSON: the knobs of `Settings`, and optionally `stock` and `outcomes` in the form of the control paths. A
scenario file is a list of faults and events, which begins when the cloud can be reached.
"""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from controller.sandbox.cloud.knobs import BadSetting
from controller.sandbox.cloud.outcomes import read_outcomes
from controller.sandbox.cloud.scenario import Entry, read_scenario
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.world import CloudWorld
from controller.sandbox.shell import serve


def build(
    values: dict[str, Any], *, speed: float, seed: int, credentials: str | None, clock: Any = time.time
) -> CloudWorld:
    """A world from settings; raises `BadSetting`. What the file says beats the arguments."""
    knobs = dict(values)
    stock, outcomes = knobs.pop("stock", None), knobs.pop("outcomes", None)
    given: dict[str, Any] = {"speed": speed} | ({"credentials": credentials} if credentials else {})
    world = CloudWorld(clock, random.Random(seed), Settings().changed(given | knobs))
    if stock is not None:
        world.state.stock.replace(stock)
    if outcomes is not None:
        world.state.outcomes = read_outcomes(outcomes)
    return world


def read_file(path: str) -> dict[str, Any]:
    values = _decoded("settings_file", path)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise BadSetting("settings_file", path, "an object of settings")
    return values


def read_scenario_file(path: str) -> list[Entry]:
    return read_scenario(_decoded("scenario_file", path))


def _decoded(key: str, path: str) -> Any:
    try:
        return yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, ValueError, OverflowError, RecursionError) as problem:
        told = " ".join(str(problem).split())
        raise BadSetting(key, path, f"a readable YAML or JSON file ({told})") from None


async def run(
    *,
    port: int = 0,
    speed: float = 40,
    settings_file: str | None = None,
    scenario_file: str | None = None,
    seed: int = 0,
    credentials: str | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. `credentials` is `id:secret`; without it any are accepted."""
    values = read_file(settings_file) if settings_file else {}
    entries = read_scenario_file(scenario_file) if scenario_file else []
    world = build(values, speed=speed, seed=seed, credentials=credentials)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    running = await serve(world, port=port)
    gc.freeze()  # else every few large lists wait for a look at all that was ever imported
    try:
        world.scenario.begin(entries)
        sys.stdout.write(f"{running.url}/v1\n")
        sys.stdout.flush()
        await stopped.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        await running.stop()
