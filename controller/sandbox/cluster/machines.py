"""Where machines come from: a poll of the sandbox cloud's state, told to the kubelets as running or gone.

A cloud that cannot be reached changes nothing: the machines stay as they were last seen. Several clusters
may share a cloud: a machine whose script names the cluster it was bought for boots into that one only.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from typing import Any

import aiohttp

from controller.sandbox.cluster.join import Defaults, Machine, from_script
from controller.sandbox.cluster.resources import CONFIG_MAPS, Obj
from controller.sandbox.cluster.world import ClusterWorld

log = logging.getLogger(__name__)
EVERY = 0.25
USUAL_DISK = 50.0
LEDGER = "gpu-autoscaler-ledger"
LEDGER_KEY = "ledger.json"
_OWNER = re.compile(r"# gpuas (\S+) \S+\s*")


def machine_of(instance: Obj, defaults: Defaults | None, disks: Mapping[str, float] | None = None) -> Machine:
    """A machine from an instance of the cloud's state; figures it does not tell are zero."""
    hostname = str(instance.get("hostname") or "")
    join = from_script(instance.get("script"), hostname, str(instance["id"]))
    if join is None and defaults is not None:
        join = defaults.of(hostname, str(instance["id"]))
    disk = (disks or {}).get(str(instance.get("os_volume_id")), USUAL_DISK)
    return Machine(
        id=str(instance["id"]),
        hostname=hostname,
        gpus=int(_figure(instance, "gpu", "number_of_gpus")),
        memory_gib=_figure(instance, "memory", "size_in_gigabytes"),
        cpus=int(_figure(instance, "cpu", "number_of_cores")),
        disk_gib=disk,
        instance_type=str(instance.get("instance_type") or ""),
        location=str(instance.get("location") or instance.get("location_code") or ""),
        ip=str(instance.get("ip") or ""),
        join=join,
    )


def _figure(instance: Obj, part: str, name: str) -> float:
    return float((instance.get(part) or {}).get(name) or 0)


def owner_of(instance: Obj) -> str:
    """The id of the cluster that a machine was bought for, as the second line of its script tells it."""
    lines = str(instance.get("script") or "").splitlines()
    found = _OWNER.fullmatch(lines[1]) if len(lines) > 1 else None
    return found[1] if found else ""


def owners_here(world: ClusterWorld) -> set[str]:
    """The ids of the controllers that keep a ledger in this cluster."""
    return {
        _cluster_id(each.get("data") or {})
        for each in world.store.every(CONFIG_MAPS)
        if each["metadata"]["name"] == LEDGER
    }


def _cluster_id(data: Obj) -> str:
    try:
        return str(json.loads(data[LEDGER_KEY])["cluster_id"])
    except (KeyError, TypeError, ValueError):
        return ""  # damaged: it is somebody's, but nobody knows whose


class Poll:
    """What was seen last, and what to tell the world about a new sight."""

    def __init__(self, world: ClusterWorld, defaults: Defaults | None = None) -> None:
        self.world = world
        self.defaults = defaults
        self.booted: set[str] = set()

    def see(self, state: Any) -> None:
        disks = {
            str(each["id"]): float(each["size"]) for each in state.get("volumes") or () if each.get("size")
        }
        instances = [each for each in state["instances"] if each.get("status") == "running"]
        now_running = {str(each["id"]) for each in instances}
        for machine_id in sorted(self.booted - now_running):
            self.world.gone(machine_id)
        self.booted &= now_running
        new = [each for each in instances if str(each["id"]) not in self.booted]
        here = owners_here(self.world) if any(owner_of(each) for each in new) else set()
        for instance in new:
            owner = owner_of(instance)
            if owner and here and owner not in here:
                continue  # another cluster's, unless a ledger here claims it later
            self.booted.add(str(instance["id"]))
            self.world.boot(machine_of(instance, self.defaults, disks))


async def follow(cloud: str, poll: Poll, *, every: float = EVERY) -> None:
    """Poll until cancelled."""
    url = cloud.rstrip("/").removesuffix("/v1") + "/_sandbox/state"
    reachable = True
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        while True:
            try:
                async with session.get(url) as answer:
                    answer.raise_for_status()
                    poll.see(json.loads(await answer.read()))
                reachable = True
            except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as problem:
                if reachable:
                    log.warning(
                        "the sandbox cloud does not answer, its machines stay as they were: %r", problem
                    )
                reachable = False
            await asyncio.sleep(every)
