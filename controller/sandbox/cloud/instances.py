"""The paths of instances: create, list, read, and what the journal tells about them.

The quirks: 202 with nothing but the new id, and a list that may lag behind the by-id read. What the one
PUT does that carries every action is told in `actions`.
"""

from __future__ import annotations

from typing import Any

from controller.sandbox.cloud import disks, lifecycle
from controller.sandbox.cloud.answers import Refusal, id_answer, invalid, json_object, list_answer
from controller.sandbox.cloud.billing import Meter, volume_hourly
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


# -- create


def create(state: State, request: Request) -> Response:
    order = read_order(state, json_object(request))
    check_affordable(state, order)
    instance = place(state, order)
    instance.outcome = state.outcome_for(order.kind.instance_type, order.location, instance.market)
    state.creates += 1
    lifecycle.begin(state, instance)
    return id_answer(202, instance.id, state.settings)


def check_affordable(state: State, order: Order) -> None:
    """Quotas, then money, then stock, as the real refusals rank."""
    _check_quotas(state, order)
    hourly = order.price + volume_hourly(_new_gb(order), state.settings.volume_gb_month)
    if not state.account.affords(hourly, state.ground.machine):
        raise Refusal(402, "Insufficient funds")
    where = state.ground.place(order.kind, order.location, "spot" if order.spot else "on-demand")
    if state.settings.stock_taken == "acceptance" and not state.stock.has(where):
        gpus = order.kind.gpus
        what = f"{gpus} GPU instance type" if gpus else "CPU instance type"
        raise Refusal(503, f"Not enough resources to deploy a {what} {order.type_name} in {order.location}")


def _new_gb(order: Order) -> int:
    return sum(disk.size for disk in order.disks) + (0 if order.os_from else order.os_disk.size)


def _check_quotas(state: State, order: Order) -> None:
    settings = state.settings
    quotas = (settings.gpu_quota, settings.vcpu_quota, settings.instance_quota)
    if any(quota is not None for quota in quotas):
        live = [instance.kind for instance in state.instances.values() if instance.live] + [order.kind]
        counts = (sum(one.gpus for one in live), sum(one.vcpus for one in live), len(live))
        for quota, count, name in zip(quotas, counts, ("GPU", "vCPU", "Instance"), strict=True):
            if quota is not None and count > quota:
                raise invalid(f"{name} limit exceeded")
    disks.check_quota(state, _new_gb(order), len(order.disks) + (0 if order.os_from else 1))


def place(state: State, order: Order) -> Instance:
    """Make the record, its extra disks and what is attached to it. Time has not begun for it yet."""
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
        price=order.price,
        meter=Meter(order.price),
        ssh_key_ids=order.ssh_key_ids,
        startup_script_id=order.script.id if order.script else None,
        script=order.script.script if order.script else None,
        os_size=order.os_disk.size,
        os_name_wanted=order.os_disk.name,
        os_fate=order.os_disk.fate,
        os_tags=order.os_disk.tags,
        tags=list(order.tags),
        listed_from=state.now + state.settings.list_lag_s,
    )
    state.instances[instance.id] = instance
    if order.os_from is not None:
        instance.os_volume_id = order.os_from.id
        disks.attach(state, order.os_from, instance)
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
        disks.attach(state, volume, instance)
    for volume in order.existing:
        disks.attach(state, volume, instance)
    return instance


# -- read


def list_all(state: State, request: Request) -> Response:
    status = request.first("status")
    if status and status not in STATUSES:
        raise invalid(f"Invalid status {status}")
    wanted, settings, only = wanted_tags(state, request), state.settings, request.first("computeId")
    hidden = set(settings.hide_from_list)
    rows = [
        instance.shown(settings)
        for instance in state.instances.values()
        if _listed(state, instance, status)
        and has_tags(instance, wanted)
        and only in ("", instance.id)
        and not (hidden and {instance.id, instance.hostname} & hidden)
    ]
    return list_answer(rows, settings)


def _listed(state: State, instance: Instance, status: str) -> bool:
    if instance.listed_from > state.now:
        return False
    if status:
        return instance.status == status
    if instance.discontinued_at is None:
        return True
    settings = state.settings
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
