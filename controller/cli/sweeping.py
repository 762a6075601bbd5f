"""`sweep`: what a cluster left behind in the cloud account; with --apply it is removed, and proven gone.

Cloud credentials are enough, so that a cluster that is dead can be tidied up after. What cannot be seen
that way is said: whether pods still run on a machine. So machines go only for a cluster that was named
on the command line; one that can be asked is asked, and one whose controller lives is left to it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable

import typer

from controller.app.exits import CONFIGURATION, FAILED, UNREACHABLE, Ends
from controller.app.parts import Now, make_cloud
from controller.cli import sweep_report
from controller.cli.clusterside import SAME, UNCLEAR, ClusterSide, look
from controller.cli.given import Given, without_configurations
from controller.cloud.protocol import Cloud, CloudError
from controller.cluster.protocol import ClusterError
from controller.config.settings import Settings
from controller.domain.names import NAME_FORM
from controller.fleet.cleanup import Cleanup, Result, read
from controller.fleet.orphans import DISK, MACHINE, Found, survey
from controller.report.logs import set_up


def run(
    *,
    config: str | None,
    kubeconfig: str,
    cluster_id: str,
    apply: bool,
    yes: bool,
    patience: float,
    as_json: bool,
) -> None:
    set_up("error", "text")
    code = asyncio.run(
        sweep(
            config=config,
            kubeconfig=kubeconfig,
            cluster_id=cluster_id,
            apply=apply,
            yes=yes,
            patience=patience,
            as_json=as_json,
            now=Now(),
        )
    )
    if code:
        raise typer.Exit(code)


async def sweep(
    *,
    config: str | None,
    kubeconfig: str,
    cluster_id: str,
    apply: bool,
    yes: bool,
    patience: float,
    as_json: bool,
    now: Now,
) -> int:
    """The exit code; raises Ends."""
    if cluster_id and not NAME_FORM.fullmatch(cluster_id):
        raise Ends(
            CONFIGURATION,
            f"--cluster-id {cluster_id!r}: expected 1 to 20 of a-z, 0-9 and -, with no - at either end",
        )
    settings = Given(config).load(without_configurations()).settings
    wanted = cluster_id or settings.cluster_id or ""
    if apply and not wanted:
        raise Ends(
            CONFIGURATION,
            "--apply needs --cluster-id: only what belongs to a named cluster is removed (without --apply every "
            "cluster id that is found is listed)",
        )
    work = _Sweep(settings, wanted, named=bool(cluster_id), yes=yes, patience=patience, now=now)
    return await work.run(kubeconfig, apply=apply, as_json=as_json)


def _tell(line: str) -> None:
    typer.echo(line, err=True)


class _Sweep:
    def __init__(
        self, settings: Settings, wanted: str, *, named: bool, yes: bool, patience: float, now: Now
    ) -> None:
        self._settings = settings
        self._wanted = wanted
        self._named = named  # in so many words, on the command line
        self._yes = yes
        self._patience = patience
        self._now = now
        self._warnings: list[str] = []

    async def run(self, kubeconfig: str, *, apply: bool, as_json: bool) -> int:
        cloud = make_cloud(self._settings, self._now)
        try:
            side = await look(kubeconfig, self._settings, self._wanted)
            try:
                return await self._with(cloud, side, apply=apply, as_json=as_json)
            finally:
                await side.close()
        except CloudError as error:
            raise Ends(UNREACHABLE, error.message) from error
        except ClusterError as error:
            raise Ends(UNREACHABLE, error.message) from error
        finally:
            await cloud.close()

    async def _with(self, cloud: Cloud, side: ClusterSide, *, apply: bool, as_json: bool) -> int:
        _tell(f"reading the account at {self._settings.verda.base_url}")
        found = await self._found(cloud, side)
        self._warn(side, found)
        results: list[Result] = []
        if apply:
            await self._may(side, found)
            for line in self._warnings:
                _tell(f"warning: {line}")
            cleanup = Cleanup(
                cloud, clock=self._now.monotonic, sleep=self._now.sleep, last_look=side.last_look, tell=_tell
            )
            results = await cleanup.remove(found, self._patience)
        self._show(found, side, results, apply=apply, as_json=as_json)
        return FAILED if any(not result.gone for result in results) else 0

    async def _found(self, cloud: Cloud, side: ClusterSide) -> tuple[Found, ...]:
        account = await read(cloud)
        found = survey(account, self._now.wall(), self._wanted, side.living)
        if side.state != SAME:
            return found
        busy = {each.name: await side.last_look(each.name) for each in found if _concerns(side, each)}
        living = side.living
        living = type(living)(cluster_id=living.cluster_id, intents=living.intents, busy=busy)
        return survey(account, self._now.wall(), self._wanted, living)

    def _warn(self, side: ClusterSide, found: tuple[Found, ...]) -> None:
        if side.holder:
            self._warnings.append(
                f"controller {side.holder} holds the Lease of cluster {side.living.cluster_id} and sweeps by itself"
            )
        if side.state != SAME and (used := _in_words(found)):
            self._warnings.append(f"{side.note}: whether pods still use these cannot be seen: {used}")

    async def _may(self, side: ClusterSide, found: tuple[Found, ...]) -> None:
        """Raises Ends when nothing may be removed."""
        if side.state == SAME and await side.controller_lives(self._now, _tell):
            raise Ends(
                FAILED,
                f"controller {side.holder} is alive and looks after cluster {self._wanted} itself, so nothing is "
                "removed; stop it first (scale its Deployment to 0), or leave the sweeping to it",
            )
        if self._yes or side.state == SAME:
            return
        if side.state == UNCLEAR:
            raise Ends(
                UNREACHABLE,
                f"the cluster that is named cannot be asked: {side.note}",
                f"if it is dead for good, --yes removes what belongs to cluster {self._wanted} by cloud "
                "credentials alone",
            )
        used = _in_words(found)
        if used and not self._named:
            raise Ends(
                CONFIGURATION,
                f"{used} would be deleted, and whether pods use them cannot be seen: name the cluster with "
                f"--cluster-id {self._wanted}, or give --yes",
            )
        if used and sys.stdin.isatty():
            question = f"delete {used} of cluster {self._wanted}, whatever uses them?"
            if not typer.confirm(question, err=True):
                raise Ends(FAILED, "nothing was removed")

    def _show(
        self,
        found: tuple[Found, ...],
        side: ClusterSide,
        results: list[Result],
        *,
        apply: bool,
        as_json: bool,
    ) -> None:
        currency = str(self._settings.verda.currency)
        echo: Callable[[str], None] = typer.echo
        if as_json:
            report = sweep_report.as_json(
                found,
                wanted=self._wanted,
                currency=currency,
                state=side.state,
                warnings=self._warnings,
                applied=apply,
                results=results,
            )
            echo(json.dumps(report, indent=2))
            return
        for line in sweep_report.as_lines(found, currency=currency, applied=apply, results=results):
            echo(line)
        if not apply:
            for line in self._warnings:
                echo(f"warning: {line}")


def _concerns(side: ClusterSide, found: Found) -> bool:
    return found.may_be_in_use and found.cluster_id == side.living.cluster_id


def _in_words(found: tuple[Found, ...]) -> str:
    """How much of it something may still use."""
    used = [each.kind for each in found if each.may_be_in_use]
    parts = ((used.count(MACHINE), "machine"), (used.count(DISK), "attached disk"))
    return " and ".join(f"{number} {what}{'s' if number > 1 else ''}" for number, what in parts if number)
