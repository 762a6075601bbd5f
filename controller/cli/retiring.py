"""`retire`: the end of the program in a cluster. Everything that was bought is drained and deleted.

The controller does it, by a wish that stands as an annotation on its status ConfigMap; so it survives restarts, and
nothing is bought as long as it stands. Where no controller lives, that is said: a dead cluster is swept instead.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import typer

from controller.app.exits import CONFIGURATION, FAILED, UNREACHABLE, Ends
from controller.app.parts import Now
from controller.cli.clusterside import SAME, ClusterSide, look
from controller.cli.given import Given, without_configurations
from controller.cluster.protocol import ClusterError
from controller.domain import names
from controller.domain.policy import AFTER_WORK, FORCE
from controller.fleet.book import LedgerError
from controller.report.logs import set_up

_POLL = 2.0
_HEEDED = 60.0  # a controller reads the wish every fifteen seconds


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    all: bool = False
    after_work: bool = False
    force: bool = False
    undo: bool = False
    wait: bool = False
    patience: float = 3600.0

    def annotation(self) -> str | None:
        """As it stands on the ConfigMap; None takes it away. Raises Ends."""
        if self.all == self.undo:
            raise Ends(CONFIGURATION, "retire: expected either --all or --undo")
        if self.after_work and self.force:
            raise Ends(CONFIGURATION, "--force: expected without --after-work, which evicts no work")
        if self.undo:
            if self.after_work or self.force or self.wait:
                raise Ends(CONFIGURATION, "--undo: expected alone")
            return None
        return AFTER_WORK if self.after_work else FORCE if self.force else "all"


def run(*, config: str | None, kubeconfig: str, wish: Wish, as_json: bool) -> None:
    set_up("error", "text")
    code = asyncio.run(retire(config=config, kubeconfig=kubeconfig, wish=wish, as_json=as_json, now=Now()))
    if code:
        raise typer.Exit(code)


async def retire(*, config: str | None, kubeconfig: str, wish: Wish, as_json: bool, now: Now) -> int:
    """The exit code; raises Ends."""
    how = wish.annotation()
    settings = Given(config).load(without_configurations()).settings
    side = await look(kubeconfig, settings, settings.cluster_id or "")
    try:
        if side.state != SAME:
            raise Ends(UNREACHABLE, side.note or "the cluster cannot be asked")
        if not await side.annotate_status({names.RETIRE: how}):
            raise Ends(
                FAILED,
                f"there is no ConfigMap {names.STATUS_CONFIGMAP} in namespace {settings.namespace}: no controller has "
                "led there yet (--config or GPU_AUTOSCALER_NAMESPACE says where it is)",
            )
        return await _told(side, wish, how, as_json, now)
    except (ClusterError, LedgerError) as error:
        raise Ends(UNREACHABLE, str(error)) from error
    finally:
        await side.close()


def _tell(line: str) -> None:
    typer.echo(line, err=True)


async def _told(side: ClusterSide, wish: Wish, how: str | None, as_json: bool, now: Now) -> int:
    if how is None:
        typer.echo(
            json.dumps({"retiring": ""}) if as_json else "machines are bought again where pods need them"
        )
        return 0
    if not await side.controller_lives(now, _tell):
        raise Ends(
            FAILED,
            f"no controller of cluster id {side.living.cluster_id} lives (nobody renews its Lease): the next one that "
            "starts does what was asked for; where none will, sweep --cluster-id "
            f"{side.living.cluster_id} --apply removes what is left",
        )
    left = await _followed(side, wish.patience, now, _tell) if wish.wait else (await side.retirement())[1]
    if as_json:
        typer.echo(
            json.dumps({"cluster_id": side.living.cluster_id, "retiring": how, "left": left}, indent=2)
        )
    elif not left:
        typer.echo(f"nothing of cluster id {side.living.cluster_id} is left")
    else:
        for each in left:
            typer.echo(_line(each))
        typer.echo(f"{len(left)} to go; --wait tells when they are gone, --undo ends it")
    if wish.wait and left:
        raise Ends(
            FAILED, f"{len(left)} machines are left after {wish.patience:g} s; it goes on, --undo ends it"
        )
    return 0


def _line(machine: dict[str, Any]) -> str:
    why = f": {machine['message']}" if machine["message"] else ""
    return f"{machine['name']} ({machine['phase']}){why}"


async def _followed(
    side: ClusterSide, patience: float, now: Now, tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Until nothing is left, and each change is told once; what is left when the time is over."""
    began, said = now.monotonic(), dict[str, str]()
    while True:
        heeded, machines = await side.retirement()
        for each in machines:
            if said.get(each["name"]) != _line(each):
                said[each["name"]] = _line(each)
                tell(_line(each))
        for name in [name for name in said if name not in {each["name"] for each in machines}]:
            del said[name]
            tell(f"{name} is gone")
        waited = now.monotonic() - began
        over = waited >= patience
        if (over and machines) or (heeded and not machines):
            return machines
        if not heeded and (
            over or waited >= _HEEDED
        ):  # where nobody heeds it, machines may be bought at any moment
            raise Ends(FAILED, await side.why_not_heeded())
        await now.sleep(min(_POLL, max(0.05, patience - waited)))
