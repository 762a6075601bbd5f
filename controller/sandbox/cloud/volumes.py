"""The paths of disks: create, read, delete, the trash, and the PUT that carries every other action.

The quirks: deleting a deleted disk is a 204 (or, reported for a repeated permanent delete, a 400), a
disk on a machine that is up cannot be touched, HDDs can no longer be made, and by-id reads go on
showing what is long gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.sandbox.cloud import disks
from controller.sandbox.cloud.answers import (
    Refusal,
    id_answer,
    id_list,
    invalid,
    json_object,
    list_answer,
)
from controller.sandbox.cloud.billing import HOURS_IN_MONTH, volume_hourly
from controller.sandbox.cloud.disk_orders import VOLUME_TYPES, read_disk_fields
from controller.sandbox.cloud.model import DESTROY, TRASH, Instance, Volume
from controller.sandbox.cloud.state import State
from controller.sandbox.cloud.tags import has_tags, parse_tags, wanted_tags
from controller.sandbox.wire import Request, Response

STATUSES = (
    "ordered",
    "created",
    "attaching",
    "attached",
    "detaching",
    "detached",
    "cloning",
    "restoring",
    "exported",
    "deleting",
    "deleted",
    "canceling",
    "canceled",
)
UNAVAILABLE = ("cancel", "create", "export", "transfer")  # in the document, explained nowhere
ACTIONS = ("attach", "detach", "delete", "rename", "resize", "restore", "clone", *UNAVAILABLE)


def list_all(state: State, request: Request) -> Response:
    status = request.first("status")
    if status and status not in STATUSES:
        raise invalid(f"Invalid status {status}")
    wanted = wanted_tags(state, request)
    rows = [
        volume.shown(state.settings)
        for volume in state.volumes.values()
        if (volume.status == status if status else volume.live) and has_tags(volume, wanted)
    ]
    return list_answer(rows, state.settings)


def list_trash(state: State) -> Response:
    rows = [volume.shown(state.settings) for volume in state.volumes.values() if volume.in_trash]
    return list_answer(rows, state.settings)


def find(state: State, volume_id: str) -> Volume:
    volume = state.volumes.get(volume_id)
    if volume is None:
        raise Refusal(404, "Volume not found")
    return volume


def read(state: State, volume_id: str) -> Response:
    return Response.of_json(200, find(state, volume_id).shown(state.settings))


def create(state: State, request: Request) -> Response:
    body = json_object(request)
    name, size, kind = read_disk_fields(state.settings, body)
    location = body.get("location_code")
    if location not in state.catalogue.codes:
        raise invalid(
            "location_code is required" if location is None else f"Invalid location code {location}"
        )
    tags = parse_tags(state, body.get("tags"))
    targets = body.get("instance_ids") or body.get("instance_id")
    instances = [
        _target(state, one, location) for one in (id_list(targets, "instance_id") if targets else [])
    ]
    disks.check_quota(state, size, 1)
    _check_money(state, size)
    volume = disks.make(state, name=name, size=size, kind=kind, location=location, tags=tags)
    for instance in instances:
        disks.attach(state, volume, instance, slowly=True)
    return id_answer(202, volume.id, state.settings)


def _check_money(state: State, size: int) -> None:
    hourly = volume_hourly(size, state.settings.volume_gb_month)
    if not state.account.affords(hourly, state.ground.machine):
        raise Refusal(402, "Insufficient funds")


def _target(state: State, instance_id: Any, location: str) -> Instance:
    instance = state.instances.get(instance_id) if isinstance(instance_id, str) else None
    if instance is None or not instance.live:
        raise invalid("Invalid instance id")
    if instance.location != location:
        raise invalid(f"Instance {instance_id} is not in location {location}")
    if instance.status != "offline":
        raise Refusal(403, "The instance must be shut down first")
    return instance


def _check_untouched(state: State, volume: Volume) -> None:
    instance = state.instances.get(volume.instance_id or "")
    if instance is not None and instance.status != "offline":
        raise Refusal(403, "The volume is attached to an instance that is not shut down")


# -- delete


def delete(state: State, request: Request, volume_id: str) -> Response:
    permanent = json_object(request).get("is_permanent") or False
    if not isinstance(permanent, bool):
        raise invalid("is_permanent must be a boolean")
    return Response(202 if _delete(state, find(state, volume_id), permanent=permanent) else 204)


def _delete(state: State, volume: Volume, *, permanent: bool) -> bool:
    """Begin or sharpen a deletion; false when there is nothing left to do."""
    if volume.destroyed:
        if permanent and state.settings.repeated_permanent_delete_status == 400:
            raise invalid(f"Volume {volume.id} is already permanently deleted")
        return False
    if volume.in_trash:
        if permanent:
            disks.destroy(state, volume)
        return permanent
    if volume.fate in (TRASH, DESTROY):
        sharper = permanent and volume.fate == TRASH
        volume.fate = DESTROY if permanent else volume.fate
        return sharper
    _check_untouched(state, volume)
    wait = state.draw(state.settings.volume_delete_s)
    disks.condemn(state, volume, DESTROY if permanent else TRASH, wait)
    return True


# -- actions


def act(state: State, request: Request) -> Response:
    body = json_object(request)
    ids, action = id_list(body.get("id", body.get("ids")), "id"), body.get("action")
    if not isinstance(action, str) or action not in ACTIONS:
        raise invalid(f"Invalid action {action}")
    volumes = [find(state, volume_id) for volume_id in ids]
    if action in UNAVAILABLE:
        raise Refusal(403, f"Action {action} is not available")
    if action == "clone":
        copies = [_clone(state, volume, body) for volume in volumes]
        as_object = state.settings.clone_answer == "object"
        return Response.of_json(202, {"id": copies[0]} if as_object else copies)
    changed = [_act_on(state, volume, action, body) for volume in volumes]
    return Response(202 if any(changed) else 204)


def _act_on(state: State, volume: Volume, action: str, body: Mapping[str, Any]) -> bool:
    if action == "delete":
        return _delete(state, volume, permanent=body.get("is_permanent") is True)
    if action == "restore":
        if not volume.in_trash:
            raise invalid("Only a volume in the trash can be restored")
        _check_money(state, volume.size)
        disks.restore(state, volume)
        return True
    if not volume.live or volume.fate is not None:
        raise Refusal(403, "Can't change a deleted volume")
    if action == "detach":
        _check_untouched(state, volume)
        disks.detach(state, volume, state.settings.volume_change_s)
    elif action == "attach":
        if volume.instance_id is not None:
            raise invalid("The volume is attached already")
        target = _target(state, body.get("instance_id"), volume.location)
        disks.attach(state, volume, target, slowly=True)
    elif action == "rename":
        volume.name = _name(body)
    else:
        size = body.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < volume.size:
            raise invalid("size must be an integer, and not smaller than now")
        disks.check_quota(state, size - volume.size)
        disks.resize(state, volume, size)
    return True


def _name(body: Mapping[str, Any]) -> str:
    name = body.get("name")
    if not isinstance(name, str) or not name:
        raise invalid("name is required")
    return name


def _clone(state: State, volume: Volume, body: Mapping[str, Any]) -> str:
    if not volume.live:
        raise Refusal(403, "Can't clone a deleted volume")
    kind, name = body.get("type") or volume.type, body.get("name") or volume.name
    if kind not in VOLUME_TYPES or not isinstance(name, str):
        raise invalid(f"Invalid volume type {kind}" if isinstance(name, str) else "name must be a string")
    disks.check_quota(state, volume.size, 1)
    _check_money(state, volume.size)
    copy = disks.make(
        state,
        name=name,
        size=volume.size,
        kind=kind,
        location=volume.location,
        os_image=volume.os_image,
        during="cloning",
    )
    return copy.id


def types(state: State) -> Response:
    """The public price list of storage."""
    settings = state.settings
    month = float(settings.volume_gb_month)
    per_second = month / float(HOURS_IN_MONTH) / 3600
    rows = [
        {
            "type": kind,
            "price": {
                "price_per_month_per_gb": month,
                "cps_per_gb": round(per_second, 12),
                "currency": settings.currency,
            },
            "is_shared_fs": kind.endswith("_Shared"),
        }
        for kind in ("NVMe", "NVMe_Shared")
    ]
    return Response.of_json(200, rows)
