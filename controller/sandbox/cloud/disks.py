"""What happens to disks over time: made, attached, detached, in the trash, destroyed.

A disk outlives its instance by minutes and goes on costing until it is really gone; one that was kept
costs until somebody deletes it. The trash holds a disk for 96 hours, counted against the storage quota
and, unless a knob says otherwise, free of charge; taking it out again bills the time it lay there.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.sandbox.cloud.answers import invalid
from controller.sandbox.cloud.billing import Meter, volume_hourly
from controller.sandbox.cloud.model import DESTROY, KEEP, Instance, Tag, Volume
from controller.sandbox.cloud.spread import Spread
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
    during: str = "ordered",
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
        on_spot_discontinue=fate,
        os_image=os_image,
        tags=list(tags or []),
    )
    state.volumes[volume.id] = volume
    state.start(volume.meter)
    _become(state, volume, during, "detached", state.settings.volume_change_s)
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
    attach(state, volume, instance)


def _become(
    state: State,
    volume: Volume,
    during: str,
    after: str,
    spread: Spread,
    then: Callable[[], None] | None = None,
) -> None:
    """From one status over another to a third, unless something else comes between."""
    volume.change += 1
    change, wait = volume.change, state.draw(spread)

    def act() -> None:
        if volume.change == change:
            volume.status = after
            if then is not None:
                then()

    if wait > 0:
        volume.status = during
        state.later(wait, act)
    else:
        act()


def attach(state: State, volume: Volume, instance: Instance, *, slowly: bool = False) -> None:
    """With an instance a disk is attached at once; by an action it takes its time."""
    volume.instance_id = volume.shown_instance_id = instance.id
    volume.hostname = instance.hostname
    if volume.id not in instance.volume_ids:
        instance.volume_ids.append(volume.id)
    if slowly:
        _become(state, volume, "attaching", "attached", state.settings.volume_change_s)
    else:
        volume.change += 1
        volume.status = "attached"


def detach(state: State, volume: Volume, spread: Spread) -> None:
    def let_go() -> None:
        _let_go(state, volume)

    _become(state, volume, "detaching", "detached", spread, let_go)


def _let_go(state: State, volume: Volume) -> None:
    instance = state.instances.get(volume.instance_id or "")
    if instance is not None and instance.live:
        instance.volume_ids = [other for other in instance.volume_ids if other != volume.id]
    volume.instance_id = None
    volume.hostname = ""


def attached(state: State, instance: Instance) -> list[Volume]:
    volumes = [state.volumes[volume_id] for volume_id in instance.volume_ids]
    return [volume for volume in volumes if volume.instance_id == instance.id]


def leave(state: State, volume: Volume, fate: str) -> None:
    """The instance is gone: a kept disk is detached, a condemned one lingers for minutes."""
    if fate == KEEP:
        volume.fate = None
        detach(state, volume, state.settings.volume_detach_s)
    else:
        condemn(state, volume, fate, state.draw(state.settings.volume_gone_s))


def condemn(state: State, volume: Volume, fate: str, machine_seconds: float) -> None:
    volume.change += 1
    volume.status = "deleting"
    volume.fate = fate
    _let_go(state, volume)

    def act() -> None:
        if volume.live and volume.fate is not None:
            finish(state, volume, volume.fate)

    state.later(machine_seconds, act)


def finish(state: State, volume: Volume, fate: str, *, broke: bool = False) -> None:
    """The disk is gone: into the trash, or for good."""
    _let_go(state, volume)
    volume.change += 1
    volume.status = "deleted"
    volume.fate = None
    volume.deleted_at, volume.thrown_away = state.now, state.ground.machine
    if broke or fate == DESTROY or state.settings.bill_trash != "always":
        state.stop(volume.meter)
    if fate == DESTROY:
        volume.destroyed = True
        return
    thrown_away = volume.deleted_at

    def purge() -> None:
        if volume.deleted_at == thrown_away and not volume.destroyed:
            destroy(state, volume)

    state.later(state.settings.trash_hours * 3600, purge)


def destroy(state: State, volume: Volume) -> None:
    """Out of the trash, for good."""
    state.stop(volume.meter)
    volume.destroyed = True


def owed_on_restore(state: State, volume: Volume) -> int:
    """Machine microseconds in the trash that a restore would have to pay for."""
    if not volume.in_trash or state.settings.bill_trash != "on_restore":
        return 0
    return state.ground.machine - volume.thrown_away


def restore(state: State, volume: Volume) -> None:
    state.account.charge(volume.meter, owed_on_restore(state, volume))
    volume.deleted_at = None
    state.start(volume.meter)
    _become(state, volume, "restoring", "detached", state.settings.volume_change_s)


def resize(state: State, volume: Volume, size: int) -> None:
    """More expensive from now on; what it cost so far stays."""
    volume.size = size
    hourly = volume_hourly(size, state.settings.volume_gb_month)
    state.account.reprice(volume.meter, hourly, state.ground.machine)


def stored_gb(state: State) -> int:
    """Storage that counts against the quota: the trash too, and disks of orders still to be made."""
    made = sum(volume.size for volume in state.volumes.values() if not volume.destroyed)
    coming = sum(instance.os_size for instance in state.instances.values() if instance.coming)
    return made + coming


def check_quota(state: State, gigabytes: int, count: int = 0) -> None:
    """Whether so much more, in so many disks, is allowed; the trash counts."""
    settings = state.settings
    if settings.storage_quota_gb is not None and stored_gb(state) + gigabytes > settings.storage_quota_gb:
        raise invalid("Storage limit exceeded")
    if settings.volume_quota is not None:
        kept = sum(not volume.destroyed for volume in state.volumes.values())
        if kept + count > settings.volume_quota:
            raise invalid("Volume limit exceeded")
