"""One process from its settings to its end, whoever decides on sizes."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from controller.app.driver import Driver
from controller.app.exits import CONFIGURATION, Ends
from controller.app.parts import Now, make_cloud, make_connection
from controller.app.program import Program
from controller.app.start import prepare
from controller.config.credentials import files_of
from controller.config.errors import ConfigError
from controller.config.load import Loaded, load
from controller.report.logs import set_up


def load_settings(config: str | None, overrides: Mapping[str, Any] | None = None) -> Loaded:
    try:
        return load(config, os.environ, overrides)
    except ConfigError as error:
        raise Ends(CONFIGURATION, *str(error).splitlines()) from error


def set_up_logs(log_level: str, log_format: str) -> None:
    if log_level not in ("debug", "info", "warning", "error"):
        raise Ends(CONFIGURATION, f"--log-level {log_level!r}: expected debug, info, warning or error")
    if log_format not in ("text", "json"):
        raise Ends(CONFIGURATION, f"--log-format {log_format!r}: expected text or json")
    set_up(log_level, log_format)


async def until_told(work: Coroutine[Any, Any, None]) -> None:
    """Run until it ends, or end it in order on SIGTERM and SIGINT."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for each in left:
            each.cancel()
        if left:
            await asyncio.wait(left, timeout=1.0)


def run_until_told(work: Coroutine[Any, Any, None]) -> None:
    """Not asyncio.run: at its end it waits for threads that may be stuck in a look-up or a time-out.
    Everything is recorded when the work ends, and the process ends right after it."""
    asyncio.new_event_loop().run_until_complete(until_told(work))


async def serve(
    loaded: Loaded,
    kubeconfig: str,
    run: Callable[[Program], Coroutine[Any, Any, None]],
    *,
    dry_run: bool = False,
    driver: Driver | None = None,
) -> None:
    """Connect, check, run, and close what was opened."""
    now = Now()
    cloud = make_cloud(loaded.settings, now, files_of(loaded.origins, os.environ))
    try:
        connection = await make_connection(kubeconfig, os.environ, now)
    except Ends:
        await cloud.close()
        raise
    try:
        deployment = os.environ.get("DEPLOYMENT_NAME", "")
        program = await prepare(
            loaded,
            connection,
            cloud,
            now,
            identity=identity(),
            deployment=deployment,
            dry_run=dry_run,
            driver=driver,
        )
        await run(program)
    finally:
        await connection.close()
        await cloud.close()


def identity() -> str:
    """Two processes on one host never take each other for themselves."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
