"""What no record speaks of any more: scripts and disks that a crash left behind, removed when provably ours.

A script is ours by its name and its second line; a disk by its name and its tags, or, where tags fail, by
the machine that it was made with, read by id. One mark alone is only reported, and anything that a known
machine may still need is left alone. A disk that is attached is removed only when its machine, asked for
by id, is gone: the list of machines may be older; where nobody knows it, not while its Node is Ready. What nobody
can say, or is refused, holds nothing else up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from controller.cloud.protocol import Cloud, CloudError
from controller.domain import names
from controller.domain.cloudthings import Inventory, Script, Volume
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Outcome, Refused
from controller.domain.reason import Reason
from controller.fleet import ownership
from controller.fleet.removal import LOOSE

# Refusals that end by themselves; anything else somebody should look at.
_FOR_A_WHILE = frozenset(
    {Reason.ALREADY_GONE, Reason.NOT_ALLOWED_YET, Reason.RATE_LIMITED, Reason.UNAVAILABLE}
)
_NEEDS_SCRIPT = frozenset({Phase.INTENDED, Phase.ORDERED, Phase.BOOTING})


class Orphans(msgspec.Struct, frozen=True):
    scripts: tuple[Script, ...] = ()
    disks: tuple[Volume, ...] = ()
    doubtful: tuple[str, ...] = ()  # what looks like ours and cannot be proven to be


def orphan_scripts(
    cluster_id: str, scripts: Collection[Script], machines: Mapping[str, Machine], busy: Callable[[str], bool]
) -> tuple[Script, ...]:
    found = []
    for script in scripts:
        intent = names.owned_script(cluster_id, script.name, script.text)
        machine = machines.get(intent)
        if not intent or busy(intent) or (machine is not None and machine.phase in _NEEDS_SCRIPT):
            continue
        found.append(script)
    return tuple(found)


def orphan_disks(
    cluster_id: str, volumes: Collection[Volume], machines: Mapping[str, Machine], instances: Collection[str]
) -> tuple[tuple[Volume, ...], tuple[Volume, ...]]:
    """Disks of machines that are gone, and those of which only the name says so."""
    ours, doubtful = [], []
    for volume in volumes:
        found = names.parse_hostname(cluster_id, volume.name)
        tags = dict(volume.tags)
        if found is None or volume.instance_id in instances:
            continue
        if tags.get(names.TAG_CLUSTER, cluster_id) != cluster_id:
            continue  # of another cluster whose id begins like ours
        intent = found[1]
        known = machines.get(intent)
        if known is not None and known.phase is not Phase.TOMBSTONE:
            continue
        if tags.get(names.TAG_CLUSTER) == cluster_id and tags.get(names.TAG_INTENT) == intent:
            ours.append(volume)
        else:
            doubtful.append(volume)
    return tuple(ours), tuple(doubtful)


async def find(
    cloud: Cloud,
    cluster_id: str,
    machines: Mapping[str, Machine],
    inventory: Inventory,
    busy: Callable[[str], bool],
    runs: Callable[[str], bool],
) -> Orphans:
    """`inventory`: the last complete list. The row of a machine that is gone may stand in it for long.
    `runs`: whether the Node of this name is Ready, so that what is attached to its machine is in use."""
    instances = {instance.id for instance in inventory.instances if instance.state != "gone"}
    scripts = orphan_scripts(cluster_id, await cloud.scripts(f"gpuas-{cluster_id}-"), machines, busy)
    disks, doubtful = orphan_disks(cluster_id, (await cloud.volumes()).listed, machines, instances)
    loose, left = [], []
    for disk in (*disks, *doubtful):
        try:
            maker = await cloud.instance(disk.instance_id) if disk.instance_id else None
        except CloudError as error:
            left.append(
                f"disk {disk.id} ({disk.name}) stays until its machine can be asked for: {error.message}"
            )
            continue
        if maker is None and disk.instance_id and disk.status not in LOOSE and runs(disk.name):
            left.append(
                f"disk {disk.id} stays: nobody knows its machine {disk.instance_id}, and Node {disk.name} is Ready"
            )
            continue
        if disk in disks:
            if maker is None or maker.state == "gone":
                loose.append(disk)
            continue
        claim = ownership.of_volume(disk, (cluster_id,), maker)
        if maker is not None and maker.state == "gone" and claim is not None and claim.proven:
            loose.append(disk)
        else:
            left.append(f"disk {disk.id} is named {disk.name} and carries no tags of ours; it is left alone")
    return Orphans(scripts, tuple(loose), tuple(left))


def agreed(orphans: Orphans, before: Collection[str]) -> tuple[Orphans, set[str]]:
    """Without the attached disks that were not found the last time, too; and all that were found this time."""
    attached = {disk.id for disk in orphans.disks if disk.instance_id and disk.status not in LOOSE}
    disks = tuple(disk for disk in orphans.disks if disk.id not in attached or disk.id in before)
    return msgspec.structs.replace(orphans, disks=disks), attached


async def remove(
    cloud: Cloud, orphans: Orphans, may_act: Callable[[], bool] = lambda: True
) -> tuple[str, ...]:
    """Ask for it all; returns what a person should know of."""
    refused = []
    for script in orphans.scripts:
        if may_act():
            refused += _told(f"script {script.id} ({script.name})", await cloud.delete_script(script.id))
    for disk in orphans.disks:
        if disk.status != "deleting" and may_act():
            refused += _told(f"disk {disk.id} ({disk.name})", await cloud.delete_volume(disk.id))
    return tuple(refused)


def _told(what: str, outcome: Outcome) -> list[str]:
    if not isinstance(outcome, Refused) or outcome.reason in _FOR_A_WHILE:
        return []
    return [f"{what} belongs to no machine any more and is not deleted: {outcome.message}"]
