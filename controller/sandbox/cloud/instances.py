"""The paths of instances: create, list, read, and the one PUT that carries every action.

The quirks: 202 with nothing but the new id; a list that may lag behind the by-id read; one PUT for many
ids that answers 202, 204 or 207 with results in camelCase; a refused delete while provisioning.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from controller.sandbox.cloud import disks, lifecycle
from controller.sandbox.cloud.answers import Refusal, id_answer, id_list, invalid, json_object
from controller.sandbox.cloud.billing import HOUR, Meter, volume_hourly
from controller.sandbox.cloud.model import Instance
from controller.sandbox.cloud.order import Order, read_order
from controller.sandbox.cloud.state import State
from controller.sandbox.cloud.tags import has_tags, wanted_tags
from controller.sandbox.wire import Request, Response

STATUSES = (
    "new",
    "ordered",
    "provisioning",
    "validating",
    "running",
    "offline",
    "deleting",
    "discontinued",
    "no_capacity",
    "installation_failed",
    "error",
    "unknown",
    "notfound",
)
VERBS = {"delete": "discontinue", "discontinue": "discontinue", "delete_stuck": "discontinue"}
ALLOWED_FROM: Mapping[str, tuple[str, ...]] = {
    "shutdown": ("running",),
    "force_shutdown": ("running",),
    "start": ("offline",),
    "boot": ("offline",),
    "hibernate": ("offline", "running"),
}
REACHED: Mapping[str, str] = {
    "shutdown": "offline",
    "force_shutdown": "offline",
    "start": "running",
    "boot": "running",
}


# -- create


def create(state: State, request: Request) -> Response:
    order = read_order(state, json_object(request))
    check_affordable(state, order)
    instance = place(state, order)
    instance.outcome = state.outcome_for(order.kind.instance_type, order.location, instance.market)
    state.creates += 1
    lifecycle.begin(state, instance)
    return id_answer(202, instance.id, state.settings.id_body)


def check_affordable(state: State, order: Order) -> None:
    """Quotas, then money, then stock, as the real refusals rank."""
    settings = state.settings
    live = [instance for instance in state.instances.values() if instance.live]
    asked = [*order.disks, *([] if order.os_from else [order.os_disk])]
    size = sum(disk.size for disk in asked)
    checks = (
        (settings.gpu_quota, sum(one.kind.gpus for one in live) + order.kind.gpus, "GPU"),
        (settings.instance_quota, len(live) + 1, "Instance"),
        (settings.storage_quota_gb, disks.stored_gb(state) + size, "Storage"),
        (settings.volume_quota, disks.in_quota(state) + len(asked), "Volume"),
    )
    for quota, wanted, name in checks:
        if quota is not None and wanted > quota:
            raise invalid(f"{name} limit exceeded")
    hourly = state.price(order.kind, spot=order.spot) + volume_hourly(size, settings.volume_gb_month)
    if state.balance < hourly * Decimal(str(settings.billing_increment_s)) / HOUR:
        raise Refusal(402, "Insufficient funds")
    where = (order.kind.instance_type, order.location, "spot" if order.spot else "on-demand")
    if settings.stock_taken == "acceptance" and not state.stock.has(where):
        gpus = order.kind.gpus
        what = f"{gpus} GPU instance type" if gpus else "CPU instance type"
        raise Refusal(503, f"Not enough resources to deploy a {what} {order.type_name} in {order.location}")


def place(state: State, order: Order) -> Instance:
    """Make the record, its extra disks and what is attached to it. Time has not begun for it yet."""
    settings = state.settings
    price = state.price(order.kind, spot=order.spot)
    instance = Instance(
        id=state.new_id(),
        kind=order.kind,
        type_name=order.type_name,
        hostname=order.hostname,
        description=order.description,
        location=order.location,
        image=order.image,
        os_name=order.os_name,
        spot=order.spot,
        contract=order.contract,
        created_at=state.now,
        price=price,
        meter=Meter(price),
        ssh_key_ids=order.ssh_key_ids,
        startup_script_id=order.script.id if order.script else None,
        script=order.script.script if order.script else None,
        os_size=order.os_disk.size,
        os_name_wanted=order.os_disk.name,
        os_fate=order.os_disk.fate,
        os_tags=order.os_disk.tags,
        tags=list(order.tags),
        listed_from=state.now + settings.list_lag_s,
    )
    state.instances[instance.id] = instance
    if order.os_from is not None:
        instance.os_volume_id = order.os_from.id
        disks.attach(order.os_from, instance)
    for disk in order.disks:
        volume = disks.make(
            state,
            name=disk.name,
            size=disk.size,
            kind=disk.type,
            location=order.location,
            fate=disk.fate,
            tags=disk.tags,
        )
        disks.attach(volume, instance)
    for volume in order.existing:
        disks.attach(volume, instance)
    return instance


# -- read


def list_all(state: State, request: Request) -> Response:
    status = request.first("status")
    if status and status not in STATUSES:
        raise invalid(f"Invalid status {status}")
    wanted = wanted_tags(state, request)
    rows = [
        instance.shown(state.settings)
        for instance in state.instances.values()
        if _listed(state, instance, status) and has_tags(instance, wanted)
    ]
    return Response.of_json(200, rows)


def _listed(state: State, instance: Instance, status: str) -> bool:
    settings = state.settings
    if instance.listed_from > state.now or {instance.id, instance.hostname} & set(settings.hide_from_list):
        return False
    if status:
        return instance.status == status
    if instance.discontinued_at is None:
        return True
    return (state.now - instance.discontinued_at) * settings.speed < settings.discontinued_listed_s


def find(state: State, instance_id: str) -> Instance:
    instance = state.instances.get(instance_id)
    if instance is not None and instance.discontinued_at is not None:
        readable = state.settings.discontinued_readable_s
        gone_for = (state.now - instance.discontinued_at) * state.settings.speed
        if readable is not None and gone_for >= readable:
            instance = None
    if instance is None:
        if state.settings.unknown_id_status == 400:
            raise invalid("Invalid instance id")
        raise Refusal(404, "Instance not found")
    return instance


def read(state: State, instance_id: str) -> Response:
    return Response.of_json(200, find(state, instance_id).shown(state.settings))


def journal(state: State, instance_id: str | None) -> list[dict[str, Any]]:
    """Events, newest first: of one instance, or of all."""
    rows = [event for event in state.events if instance_id in (None, event.instance_id)]
    return [event.shown() for event in reversed(rows)]


# -- actions


def act(state: State, request: Request) -> Response:
    body = json_object(request)
    ids, action = id_list(body.get("id"), "id"), body.get("action")
    if not isinstance(action, str) or not (action in VERBS or action in ALLOWED_FROM):
        raise invalid(f"Invalid action {action}")
    volume_ids = _volume_ids(state, body)
    if not isinstance(body.get("delete_permanently") or False, bool):
        raise invalid("delete_permanently must be a boolean")
    permanently = bool(body.get("delete_permanently"))
    if len(ids) == 1:
        if not _act_on(state, ids[0], action, volume_ids, permanently=permanently):
            return Response(204)
        return Response.of_json(202, [_result(ids[0], action)])
    results = []
    for instance_id in ids:
        try:
            _act_on(state, instance_id, action, volume_ids, permanently=permanently)
            results.append(_result(instance_id, action))
        except Refusal as refusal:
            results.append(_result(instance_id, action, refusal))
    failed = any(result["status"] == "error" for result in results)
    return Response.of_json(207 if failed else 202, results)


def _volume_ids(state: State, body: Mapping[str, Any]) -> list[str] | None:
    raw = body.get("volume_ids")
    if raw is None:
        return None
    if not isinstance(raw, list) or not all(isinstance(item, str) for item in raw):
        raise invalid("volume_ids must be an array of ids")
    for volume_id in raw:
        if volume_id not in state.volumes:
            raise invalid(f"Invalid volume id {volume_id}")
    return raw


def _result(instance_id: str, action: str, refusal: Refusal | None = None) -> dict[str, Any]:
    shown: dict[str, Any] = {"instanceId": instance_id, "action": action, "status": "success"}
    if refusal is not None:
        shown |= {"status": "error", "error": refusal.message, "statusCode": refusal.status}
    return shown


def _act_on(
    state: State, instance_id: str, action: str, volume_ids: list[str] | None, *, permanently: bool
) -> bool:
    """Do it; false when it was so already."""
    instance = find(state, instance_id)
    if action in VERBS:
        return _delete(state, instance, action, volume_ids, permanently=permanently)
    if instance.status == REACHED.get(action):
        return False
    if instance.status not in ALLOWED_FROM[action]:
        name = action.replace("_", " ")
        raise Refusal(
            state.settings.action_refused_status, f"Can't {name} {_article(instance.status)} instance"
        )
    if action == "hibernate":
        lifecycle.delete(state, instance, {})
    elif action in ("shutdown", "force_shutdown"):
        lifecycle.shut_down(state, instance)
    else:
        lifecycle.start(state, instance)
    return True


def _delete(
    state: State, instance: Instance, action: str, volume_ids: list[str] | None, *, permanently: bool
) -> bool:
    settings = state.settings
    if instance.status == "deleting":
        return False
    if instance.status == "discontinued":
        if settings.delete_discontinued_status == 403:
            raise Refusal(403, "Can't discontinue a discontinued instance")
        return False
    if instance.status in settings.undeletable_statuses and action != "delete_stuck":
        raise Refusal(
            settings.action_refused_status, f"Can't discontinue {_article(instance.status)} instance"
        )
    lifecycle.delete(
        state, instance, lifecycle.fates_of(state, instance, volume_ids, permanently=permanently)
    )
    return True


def _article(status: str) -> str:
    return f"{'an' if status[0] in 'aeiou' else 'a'} {status}"
