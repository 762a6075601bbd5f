"""What is checked before anything is decided: pools, cluster id, rights, credentials, catalogue, ways to join.

Each trouble ends the program with one clear line; what the cloud merely does not sell today is a warning,
because a running controller has machines to look after.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from controller.app.driver import Driver
from controller.app.exits import CONFIGURATION, UNREACHABLE, Ends
from controller.app.parts import (
    Now,
    check_cloud,
    cluster_id_of,
    join_entries,
    kept_secret,
    know_tokens,
    secrets_of,
)
from controller.app.program import Program
from controller.app.surroundings import OwnSurroundings
from controller.app.switches import make_endpoints, secrets_of_switches
from controller.cloud.protocol import Cloud
from controller.cluster.connection import Connection
from controller.cluster.protocol import ClusterError
from controller.cluster.writer import ClusterWriter
from controller.config.catalogue_check import check_against
from controller.config.load import Loaded
from controller.config.policy import to_policy
from controller.join.joiner import ScriptJoiner

log = logging.getLogger("gpu_autoscaler")

NOTHING_TO_DO = "pools: none is configured; expected at least one pool that says what may be bought, or machines to switch"
READING = ("get ", "list ", "watch ")  # all that a dry run needs


async def prepare(
    loaded: Loaded,
    connection: Connection,
    cloud: Cloud,
    now: Now,
    *,
    identity: str,
    deployment: str = "",
    dry_run: bool = False,
    driver: Driver | None = None,
    environ: Mapping[str, str] | None = None,
) -> Program:
    """Check what can be checked before anything is decided, then put the program together."""
    around = OwnSurroundings(os.environ if environ is None else environ)
    settings = loaded.settings
    for warning in loaded.warnings:
        log.warning(warning)
    if not (settings.pools or settings.machines):
        raise Ends(CONFIGURATION, NOTHING_TO_DO)
    cluster_id = settings.cluster_id or await cluster_id_of(connection, settings.namespace)
    policy = to_policy(settings, cluster_id=cluster_id)
    if driver is not None and (objections := driver.objections(policy)):
        raise Ends(CONFIGURATION, *objections)
    try:
        secrets = (*secrets_of(settings), *secrets_of_switches(settings))
        missing = await connection.missing_rights(policy.namespace, secrets)
    except ClusterError as error:
        raise Ends(UNREACHABLE, error.message) from error
    if dry_run:
        missing = [line for line in missing if line.startswith(READING)]
    if missing:
        raise Ends(
            UNREACHABLE,
            f"rights are missing, so nothing is bought or switched: {'; '.join(missing)} (the chart's roles grant them)",
        )
    writer = ClusterWriter(
        connection, namespace=policy.namespace, wall=now.wall, sleep=now.sleep, rng=now.rng
    )
    read_token = kept_secret(writer.read_secret)
    await know_tokens(settings, read_token, around)
    catalogue = await check_cloud(cloud, settings)
    for problem in check_against(policy, catalogue, loaded.origins):
        log.warning(str(loaded.draft.theirs(problem)))
    entries = await join_entries(settings, connection, policy.namespace)
    joiner = ScriptJoiner(entries, read_token, now.monotonic, around)
    endpoints = make_endpoints(settings, writer.read_secret, now.wall)
    log.info(
        "ready to start",
        extra={
            "cluster_id": cluster_id,
            "pools": ",".join(p.name for p in policy.pools),
            "machines": ",".join(s.name for s in policy.switches),
            "namespace": policy.namespace,
        },
    )
    return Program(
        loaded,
        policy,
        connection,
        cloud,
        joiner,
        now,
        endpoints=endpoints,
        identity=identity,
        deployment=deployment,
        dry_run=dry_run,
        driver=driver,
        line=connection.apart(),
    )
