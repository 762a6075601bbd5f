"""The controller as a process: settings, the two worlds, and an end in order."""

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
from controller.app.parts import Now, make_connection, make_provider
from controller.app.program import Program
from controller.app.reload import Reload, mark
from controller.app.reload import files_of as files_of_settings
from controller.app.server import split_address
from controller.app.start import prepare
from controller.cli import drivers
from controller.cli.given import Given
from controller.config.credentials import files_of
from controller.config.load import Loaded
from controller.report.logs import set_up


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


def an_address(listen: str, option: str = "--listen") -> str:
    """Also where nobody will listen there: `--listen --dry-run` without an address is a wish that was lost."""
    try:
        split_address(listen)
    except ValueError as error:
        raise Ends(CONFIGURATION, str(error).replace("--listen", option, 1)) from error
    return listen


def run_controller(
    given: Given,
    *,
    listen: str,
    dry_run: bool,
    once: bool,
    log_level: str,
    log_format: str,
    driver: str = drivers.PLANNER,
    wish: drivers.Wish | None = None,
) -> None:
    log_level = given.flags.log_level or log_level
    if log_level not in ("debug", "info", "warning", "error"):
        raise Ends(CONFIGURATION, f"--log-level {log_level!r}: expected debug, info, warning or error")
    if log_format not in ("text", "json"):
        raise Ends(CONFIGURATION, f"--log-format {log_format!r}: expected text or json")
    theirs = given.flags.listen
    listen = an_address(theirs, "--address") if theirs else an_address(listen)
    set_up(log_level, log_format)
    loaded = given.load()
    seen = mark(files_of_settings(loaded))  # what changes while it starts is a change, too
    served = drivers.make(driver, loaded, wish or drivers.Wish())
    for wanted, option in ((dry_run, "--dry-run"), (once, "--once")):
        if wanted and served is not None:
            raise Ends(CONFIGURATION, f"{option}: expected with --driver planner only")
    # Not asyncio.run: at its end it waits for threads that may be stuck in a look-up or a time-out.
    # Everything is recorded when the work ends, and the process ends right after it.
    asyncio.new_event_loop().run_until_complete(
        until_told(
            _controller(
                loaded,
                given.kubeconfig,
                None if once else listen,
                dry_run,
                once,
                given.load,
                seen,
                served,
            )
        )
    )


async def _controller(
    loaded: Loaded,
    kubeconfig: str,
    listen: str | None,
    dry_run: bool,
    once: bool,
    again: Callable[[], Loaded],
    seen: Mapping[str, str],
    driver: Driver | None = None,
) -> None:
    now = Now()
    cloud = make_provider(loaded.settings, now, files_of(loaded.origins, os.environ))
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
        if once:
            await _once(program)
        else:
            reload = Reload(program, again, sleep=now.sleep, seen=seen)
            await program.run(listen, beside=reload.run)
    finally:
        await connection.close()
        await cloud.close()


async def _once(program: Program) -> None:
    from controller.report.plan_json import plan_lines

    await program.once()
    for line in plan_lines(program.loop.plan, program.fleet.catalogue.currency):
        print(line)


def identity() -> str:
    """Two processes on one host never take each other for themselves."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
