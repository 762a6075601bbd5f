"""`config check` and `config show`."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import typer
import yaml

from controller.app.exits import CONFIGURATION, UNREACHABLE, Ends
from controller.app.parts import Now, check_cloud, make_connection, make_provider, secrets_of
from controller.app.start import NOTHING_TO_DO
from controller.app.switches import secrets_of_switches
from controller.cli.running import load_settings
from controller.cluster.protocol import ClusterError
from controller.config.catalogue_check import check_against
from controller.config.credentials import files_of
from controller.config.load import Loaded
from controller.config.load import show as shown
from controller.config.policy import to_policy
from controller.report.logs import set_up


def show(*, config: str | None, as_json: bool) -> None:
    settings = shown(load_settings(config).settings)
    if as_json:
        typer.echo(json.dumps(settings, indent=2))
    else:
        typer.echo(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), nl=False)


def check(*, config: str | None, kubeconfig: str, cloud: bool, cluster: bool, as_json: bool) -> None:
    set_up("error", "text")
    problems: list[str] = []
    warnings: list[str] = []
    code = CONFIGURATION
    try:
        loaded = load_settings(config)
    except Ends as end:
        problems += end.lines
    else:
        warnings += loaded.warnings
        if not (loaded.settings.pools or loaded.settings.machines):
            problems.append(NOTHING_TO_DO)
        try:
            found, missing = asyncio.run(_ask(loaded, kubeconfig, cloud, cluster))
        except Ends as end:
            problems += end.lines
            code = end.code
        except ClusterError as error:
            problems.append(error.message)
            code = UNREACHABLE
        else:
            problems += found
            if missing and not problems:
                code = UNREACHABLE
            problems += [f"missing right: {line}" for line in missing]
    if as_json:
        answer: dict[str, Any] = {"ok": not problems, "problems": problems, "warnings": warnings}
        typer.echo(json.dumps(answer, indent=2))
    else:
        for line in warnings:
            typer.echo(f"warning: {line}")
        for line in problems:
            typer.echo(line, err=True)
        if not problems:
            typer.echo("ok")
    if problems:
        raise typer.Exit(code)


async def _ask(loaded: Loaded, kubeconfig: str, cloud: bool, cluster: bool) -> tuple[list[str], list[str]]:
    """What is wrong with the settings, and the rights that are missing."""
    now, settings = Now(), loaded.settings
    problems: list[str] = []
    missing: list[str] = []
    if cloud:
        provider = make_provider(settings, now, files_of(loaded.origins, os.environ))
        try:
            catalogue = await check_cloud(provider, settings)
        finally:
            await provider.close()
        policy = to_policy(settings, cluster_id="check")
        problems += [str(problem) for problem in check_against(policy, catalogue, loaded.origins)]
    if cluster:
        connection = await make_connection(kubeconfig, os.environ, now)
        try:
            secrets = (*secrets_of(settings), *secrets_of_switches(settings))
            missing = await connection.missing_rights(settings.namespace, secrets)
        finally:
            await connection.close()
    return problems, missing
