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
from controller.cli.given import Given
from controller.cluster.protocol import ClusterError
from controller.cluster.roles import objects
from controller.config.catalogue_check import check_against
from controller.config.credentials import files_of
from controller.config.dialects.choosing import AUTO, CA_VERDA, DATACRUNCH, NATIVE, VERDACLOUD, WEBHOOK
from controller.config.load import Loaded
from controller.config.load import show as shown
from controller.config.policy import to_policy
from controller.report.logs import set_up

# The accounts that the predecessors' manifests run under.
_ACCOUNTS = {
    CA_VERDA: "verda-cloud-provider",
    DATACRUNCH: "cluster-autoscaler",
    VERDACLOUD: "cluster-autoscaler",
    WEBHOOK: "gpu-node-manager",
}
_OUR_ACCOUNT = "verda-gpu-autoscaler"


def show(given: Given, *, as_json: bool) -> None:
    settings = shown(given.load().settings)
    if as_json:
        typer.echo(json.dumps(settings, indent=2))
    else:
        typer.echo(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), nl=False)


def check(
    given: Given,
    *,
    cloud: bool,
    cluster: bool,
    as_json: bool,
    rights_only: bool = False,
    service_account: str = "",
) -> None:
    set_up("error", "text")
    problems: list[str] = []
    warnings: list[str] = []
    roles: list[dict[str, Any]] = []
    chosen = given.dialect
    code = CONFIGURATION
    try:
        loaded = given.load()
    except Ends as end:
        problems += end.lines
    else:
        warnings += loaded.warnings
        chosen = loaded.dialect
        settings = loaded.settings
        if not (settings.pools or settings.machines):
            problems.append(NOTHING_TO_DO)
        account = service_account or _ACCOUNTS.get(_kind(loaded), _OUR_ACCOUNT)
        secrets = (*secrets_of(settings), *secrets_of_switches(settings))
        roles = objects(_OUR_ACCOUNT, settings.namespace, account, secrets)
        try:
            found, missing = asyncio.run(_ask(loaded, given.kubeconfig, cloud, cluster))
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
        answer |= {"dialect": chosen, "rights": roles}
        typer.echo(json.dumps(answer, indent=2))
    else:
        for line in warnings:
            typer.echo(f"warning: {line}", err=rights_only)
        for line in problems:
            typer.echo(line, err=True)
        if not problems and not rights_only:
            typer.echo("ok")
        foreign = chosen not in (NATIVE, AUTO) or (bool(roles) and _kind(loaded) == WEBHOOK)
        if roles and (rights_only or (foreign and not problems)):
            if not rights_only:
                typer.echo("# The rights that it needs (--rights prints them alone, for kubectl apply -f -):")
            typer.echo(yaml.safe_dump_all(roles, sort_keys=False), nl=False)
    if problems:
        raise typer.Exit(code)


def _kind(loaded: Loaded) -> str:
    """Whose manifests these are: groups of variables alone are the webhook controller's."""
    only_machines = bool(loaded.settings.machines) and not loaded.settings.pools
    by_variables = loaded.origins.get("machines[0].name", "").endswith("_NAME")
    return WEBHOOK if loaded.dialect == NATIVE and only_machines and by_variables else loaded.dialect


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
        found = check_against(policy, catalogue, loaded.origins)
        problems += [str(loaded.draft.theirs(problem)) for problem in found]
    if cluster:
        connection = await make_connection(kubeconfig, os.environ, now)
        try:
            secrets = (*secrets_of(settings), *secrets_of_switches(settings))
            missing = await connection.missing_rights(settings.namespace, secrets)
        finally:
            await connection.close()
    return problems, missing
