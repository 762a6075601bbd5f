"""`adopt`: a predecessor's running machines, judged one by one, and taken over with --apply.

The controller may run meanwhile: the ledger is compared and swapped, and it takes up what stands there.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Sequence
from typing import Any

import typer

from controller.app.exits import CONFIGURATION, FAILED, UNREACHABLE, Ends
from controller.app.parts import Now, check_cloud, cluster_id_of, make_cloud, make_connection
from controller.cli.given import Given
from controller.cloud.protocol import CloudError
from controller.cluster import wire
from controller.cluster.connection import Connection
from controller.cluster.decode import Decoder, Unreadable
from controller.cluster.protocol import ClusterError
from controller.cluster.writer import ClusterWriter
from controller.config.credentials import files_of
from controller.config.dialects.draft import pool_name
from controller.config.load import Loaded
from controller.config.policy import to_policy
from controller.domain.cloudthings import Instance
from controller.domain.kube import Node
from controller.domain.policy import Policy
from controller.fleet import adoption
from controller.fleet.ledger import Ledger, LedgerError
from controller.fleet.predecessors import PROJECTS, Found, judge
from controller.report.logs import set_up

Row = dict[str, Any]
_SUFFIX = re.compile(r"-[0-9a-f]{1,16}$")


def run(given: Given, *, project: str, apply: bool, as_json: bool) -> None:
    set_up("error", "text")
    if project not in PROJECTS:
        raise Ends(CONFIGURATION, f"--from {project!r}: expected one of {', '.join(PROJECTS)}")
    rows = asyncio.run(_adopt(project, given.load(), given.kubeconfig, apply))
    taken = [row for row in rows if row["adopted"]]
    if as_json:
        typer.echo(json.dumps({"project": project, "applied": apply, "machines": rows}, indent=2))
    else:
        for row in rows:
            typer.echo(_line(row, apply))
        if not rows:
            typer.echo(f"no machine in the account has a hostname of {project}")
        elif not apply:
            count = sum(not row["because"] and not row["known"] for row in rows)
            typer.echo(f"nothing was taken over; --apply would take over {count}")
    if apply and any(row["adoptable"] and not row["adopted"] for row in rows):
        raise Ends(FAILED, f"{len(taken)} taken over, others not; see above")


def _line(row: Row, apply: bool) -> str:
    name = f"{row['hostname']} ({row['instance_id']}, group {row['group']})"
    if row["known"]:
        return f"{name}: is ours already"
    if row["because"]:
        return f"{name}: left alone: {row['because']}"
    return f"{name}: {'taken over' if apply else 'would be taken over'} into pool {row['pool']}"


async def _adopt(project: str, loaded: Loaded, kubeconfig: str, apply: bool) -> list[Row]:
    now, settings = Now(), loaded.settings
    cloud = make_cloud(settings, now, files_of(loaded.origins, os.environ))
    try:
        connection = await make_connection(kubeconfig, os.environ, now)
    except Ends:
        await cloud.close()
        raise
    try:
        catalogue = await check_cloud(cloud, settings)
        cluster_id = settings.cluster_id or await cluster_id_of(connection, settings.namespace)
        policy = to_policy(settings, cluster_id=cluster_id)
        writer = ClusterWriter(
            connection, namespace=settings.namespace, wall=now.wall, sleep=now.sleep, rng=now.rng
        )
        ledger = Ledger(writer, cluster_id)
        await ledger.load()
        inventory = await cloud.inventory()
        if not inventory.complete:
            raise Ends(UNREACHABLE, "the cloud's list of machines is not complete; nothing was taken over")
        nodes = await _nodes(connection)
        judged = _judged(project, loaded, policy, inventory.instances, nodes, ledger)
        found = [adoption.with_gpus(catalogue, each) for each in judged]
        if apply and any(not (each.because or each.known) for each in found):
            ledger.look_again()
            await ledger.flush()  # tags that no ledger can follow would make the machine nobody's
        rows: list[Row] = []
        for each in found:
            why = ""
            if apply and not each.because and not each.known:
                intent, why = await adoption.mark(cloud, policy, each, ledger.machines, now.rng)
                if intent:
                    ledger.put(adoption.record(policy, catalogue, each, intent, now.wall()))
            rows.append(_row(each, why, apply))
        await ledger.flush()
        return rows
    except (ClusterError, CloudError) as error:
        raise Ends(UNREACHABLE, error.message) from error
    except LedgerError as error:
        raise Ends(FAILED, str(error)) from error
    finally:
        await connection.close()
        await cloud.close()


def _judged(
    project: str,
    loaded: Loaded,
    policy: Policy,
    instances: Sequence[Instance],
    nodes: Sequence[Node],
    ledger: Ledger,
) -> list[Found]:
    found: list[Found] = []
    groups = loaded.draft.groups or _converted(instances)
    for instance in sorted(instances, key=lambda i: (i.hostname, i.id)):
        each = judge(project, instance, nodes, policy, groups, loaded.draft.prefixes)
        if each is not None:
            known = adoption.known_by(ledger, instance.id) is not None
            found.append(Found(instance=instance, group=each.group, known=True) if known else each)
    twice = {f.node for f in found if f.node and sum(f.node == other.node for other in found) > 1}
    return [
        Found(instance=f.instance, group=f.group, because=f"Node {f.node} is claimed by two machines")
        if f.node in twice
        else f
        for f in found
    ]


def _converted(instances: Sequence[Instance]) -> dict[str, str]:
    """Settings of our own, converted from theirs or not: how pools would be called after the groups that may be meant."""
    meant = {_SUFFIX.sub("", instance.hostname) for instance in instances}
    meant |= {instance.description.strip() for instance in instances}
    return {group: pool_name(group) for group in meant if group}


def _row(found: Found, why: str, apply: bool) -> Row:
    instance = found.instance
    return {
        "hostname": instance.hostname,
        "instance_id": instance.id,
        "group": found.group,
        "pool": found.pool,
        "node": found.node,
        "known": found.known,
        "adoptable": not found.because and not found.known,
        "adopted": apply and not found.because and not found.known and not why,
        "because": found.because or why,
    }


async def _nodes(connection: Connection) -> list[Node]:
    decoder = Decoder()
    found: list[Node] = []
    token = ""
    while True:
        query = {"limit": "250"} | ({"continue": token} if token else {})
        page = wire.page(await connection.request("GET", "/api/v1/nodes", query=query))
        for raw in page.items or ():
            try:
                found.append(decoder.node(raw))
            except Unreadable as error:
                raise ClusterError("other", f"cannot read the nodes: {error}") from None
        token = page.metadata.next
        if not token:
            return found
