"""What happens to disks over time: made, attached, detached, in the trash, destroyed.

A disk outlives its instance by minutes and goes on costing until it is really gone; one that was kept
costs until somebody deletes it. The trash holds a disk for 96 hours, free of charge, yet counted
against the storage quota; taking it out again bills the time it lay there.
"""

from __future__ import annotations

from controller.sandbox.cloud.billing import Meter, volume_hourly
from controller.sandbox.cloud.model import DESTROY, KEEP, Instance, Tag, Volume
from controller.sandbox.cloud.state import State


def make(
    state: State,
    *,
    name: str,
    size: int,
    kind: str,
    location: str,
    os_image: str | None = None,
    fate: str = KEEP,
    tags: list[Tag] | None = None,
) -> Volume:
    volume = Volume(
        id=state.new_id(),
        name=name,
        size=size,
        type=kind,
        location=location,
        is_os_volume=os_image is not None,
        created_at=state.now,
        meter=Meter(volume_hourly(size, state.settings.volume_gb_month)),
        status="detached",
        on_spot_discontinue=fate,
        os_image=os_image,
        tags=list(tags or []),
    )
    state.volumes[volume.id] = volume
    state.start(volume.meter)
    return volume


def make_os_disk(state: State, instance: Instance) -> None:
    """The OS disk appears with the machine, not with the order, unless an old one is booted again."""
    if instance.os_volume_id is not None:
        return
    volume = make(
        state,
        name=instance.os_name_wanted,
        size=instance.os_size,
        kind="NVMe",
        location=instance.location,
        os_image=instance.image,
        fate=instance.os_fate,
        tags=instance.os_tags,
    )
    instance.os_volume_id = volume.id
    attach(volume, instance)


def attach(volume: Volume, instance: Instance) -> None:
    volume.status = "attached"
    volume.instance_id = volume.shown_instance_id = instance.id
    volume.hostname = instance.hostname
    if volume.id not in instance.volume_ids:
        instance.volume_ids.append(volume.id)


def detach(state: State, volume: Volume) -> None:
    instance = state.instances.get(volume.instance_id or "")
    if instance is not None and instance.live:
        instance.volume_ids = [other for other in instance.volume_ids if other != volume.id]
    volume.status = "detached"
    volume.instance_id = None
    volume.hostname = ""


def attached(state: State, instance: Instance) -> list[Volume]:
    volumes = [state.volumes[volume_id] for volume_id in instance.volume_ids]
    return [volume for volume in volumes if volume.instance_id == instance.id]


def leave(state: State, volume: Volume, fate: str) -> None:
    """The instance is gone: a kept disk is free at once, a condemned one lingers for minutes."""
    detach(state, volume)
    volume.fate = None
    if fate != KEEP:
        condemn(state, volume, fate, state.draw(state.settings.volume_gone_s))


def condemn(state: State, volume: Volume, fate: str, machine_seconds: float) -> None:
    volume.status = "deleting"
    volume.fate = fate

    def act() -> None:
        if volume.live and volume.fate is not None:
            finish(state, volume, volume.fate)

    state.later(machine_seconds, act)


def finish(state: State, volume: Volume, fate: str) -> None:
    """The disk is gone: into the trash, or for good."""
    detach(state, volume)
    state.stop(volume.meter)
    volume.status = "deleted"
    volume.fate = None
    volume.deleted_at = state.now
    if fate == DESTROY:
        volume.destroyed = True
        return
    thrown_away = volume.deleted_at

    def purge() -> None:
        if volume.deleted_at == thrown_away:
            volume.destroyed = True

    state.later(state.settings.trash_hours * 3600, purge)


def restore(state: State, volume: Volume) -> None:
    lay = 0.0 if volume.deleted_at is None else state.now - volume.deleted_at
    volume.deleted_at = None
    volume.status = "detached"
    state.charge(volume.meter, lay * state.settings.speed)
    state.start(volume.meter)


def resize(state: State, volume: Volume, size: int) -> None:
    """More expensive from now on: what it cost so far stays on a meter of its own price."""
    state.stop(volume.meter)
    spent = volume.meter.hourly * volume.meter.ran
    volume.size = size
    volume.meter = Meter(volume_hourly(size, state.settings.volume_gb_month))
    volume.meter.ran = spent / volume.meter.hourly if volume.meter.hourly else volume.meter.ran
    state.start(volume.meter)


def stored_gb(state: State) -> int:
    """Storage that counts against the quota: the trash too, and disks of orders still to be made."""
    made = sum(volume.size for volume in state.volumes.values() if not volume.destroyed)
    coming = sum(
        instance.os_size
        for instance in state.instances.values()
        if instance.status == "ordered" and instance.os_volume_id is None
    )
    return made + coming


def in_quota(state: State) -> int:
    return sum(not volume.destroyed for volume in state.volumes.values())
