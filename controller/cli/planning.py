"""`plan`: what would be done now and why, from the live world or from a snapshot file."""

from __future__ import annotations

import asyncio
import json
import os

import typer

from controller.app.exits import CONFIGURATION, UNREACHABLE, Ends
from controller.app.loop import Loop
from controller.app.parts import Now, make_connection, make_provider
from controller.app.snapshot_rows import SnapshotError
from controller.app.snapshots import read, write
from controller.app.start import prepare
from controller.cli.given import Given
from controller.cli.running import identity
from controller.config.credentials import files_of
from controller.config.errors import ConfigError
from controller.config.load import Loaded
from controller.config.settings import Settings
from controller.domain.plan import Snapshot
from controller.planning.planner import plan
from controller.report.logs import set_up
from controller.report.plan_json import plan_json, plan_lines


def show_plan(given: Given, *, snapshot: str | None, save: str | None, as_json: bool) -> None:
    set_up("warning", "text")
    if snapshot is not None:
        try:
            picture, settings = read(snapshot)
        except SnapshotError as error:
            raise Ends(CONFIGURATION, str(error)) from error
        except ConfigError as error:
            raise Ends(CONFIGURATION, *(f"{snapshot}: {line}" for line in str(error).splitlines())) from error
        currency = str(settings.verda.currency)
    else:
        picture, settings, currency = asyncio.run(_live(given.load(), given.kubeconfig))
    if save is not None:
        try:
            write(save, picture, settings)
        except OSError as error:
            raise Ends(CONFIGURATION, f"--save {save}: cannot be written: {error.strerror}") from error
    decided = plan(picture)
    if as_json:
        typer.echo(json.dumps(plan_json(decided, currency, picture.machines), indent=2))
    else:
        for line in plan_lines(decided, currency):
            typer.echo(line)


async def _live(loaded: Loaded, kubeconfig: str) -> tuple[Snapshot, Settings, str]:
    """The picture that the controller would decide on, without changing anything."""
    now = Now()
    cloud = make_provider(loaded.settings, now, files_of(loaded.origins, os.environ))
    connection = await make_connection(kubeconfig, os.environ, now)
    try:
        program = await prepare(loaded, connection, cloud, now, identity=identity(), dry_run=True)
        watching = asyncio.create_task(program.view.run())
        try:
            await _first_look(program.loop)
            return program.loop.snapshot(), loaded.settings, program.fleet.catalogue.currency
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    finally:
        await connection.close()
        await cloud.close()


async def _first_look(loop: Loop) -> None:
    try:
        async with asyncio.timeout(60):
            while not await loop.look():  # noqa: ASYNC110  (it is polled: the view tells no end of its start)
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise Ends(
            UNREACHABLE, *(loop.problems() or ["the cluster did not answer within a minute"])
        ) from error
