"""Who owes what for what, at any time: a row for every machine and disk there ever was, and their sums.

Read-only. Sums are made per value of the cluster tag; what carries none is in `rest`. A disk in the
trash shows what taking it out again would cost, because that is when the real cloud asks for it.
"""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any

from controller.domain.names import TAG_CLUSTER
from controller.sandbox.cloud import disks
from controller.sandbox.cloud.answers import money_number
from controller.sandbox.cloud.billing import HOUR, SECOND, Meter
from controller.sandbox.cloud.model import Instance, Tag, Volume, stamp
from controller.sandbox.cloud.state import State


def bill(state: State) -> dict[str, Any]:
    now, account = state.ground.machine, state.account
    rows = [_instance(state, one) for one in state.instances.values()]
    rows += [_volume(state, one) for one in state.volumes.values()]
    sums: dict[str | None, list[tuple[str, Decimal, Decimal]]] = defaultdict(list)
    for row in rows:
        meter: Meter = row.pop("meter")
        cost, rate = account.cost(meter, now), meter.hourly if meter.since is not None else Decimal(0)
        sums[row["cluster"]].append((row["kind"], cost, rate))
        row |= _metered(state, meter)
    clusters = {str(name): _sum(found) for name, found in sorted(sums.items(), key=str) if name is not None}
    return {
        "project": state.project,
        "now": stamp(state.now),
        "currency": state.settings.currency,
        "billing": state.settings.billing,
        "increment_s": account.increment / SECOND,
        "paid_in": money_number(account.credit),
        "total": money_number(account.total(now)),
        "balance": money_number(state.balance),
        "per_hour": money_number(account.rate),
        "clusters": clusters,
        "rest": _sum(sums[None]),
        "rows": rows,
    }


def _sum(found: list[tuple[str, Decimal, Decimal]]) -> dict[str, Any]:
    def total(kind: str) -> float:
        return money_number(sum((cost for one, cost, _ in found if one == kind), Decimal(0)))

    return {
        "instances": total("instance"),
        "volumes": total("volume"),
        "total": money_number(sum((cost for _, cost, _ in found), Decimal(0))),
        "per_hour": money_number(sum((rate for _, _, rate in found), Decimal(0))),
    }


def _metered(state: State, meter: Meter) -> dict[str, Any]:
    now, account = state.ground.machine, state.account
    return {
        "running": meter.since is not None,
        "since": None if meter.began_at is None else stamp(meter.began_at),
        "until": None if meter.ended_at is None else stamp(meter.ended_at),
        "seconds": meter.lasted(now) / SECOND,
        "increments": account.increments(meter, now),
        "per_hour": money_number(meter.hourly),
        "cost": money_number(account.cost(meter, now)),
    }


def _instance(state: State, one: Instance) -> dict[str, Any]:
    return {
        "kind": "instance",
        "id": one.id,
        "name": one.hostname,
        "type": one.type_name,
        "market": one.market,
        "location": one.location,
        "status": one.status,
        "description": one.description,
        **_marks(one.tags),
        "instance_id": None,
        "owed_on_restore": 0.0,
        "meter": one.meter,
    }


def _volume(state: State, one: Volume) -> dict[str, Any]:
    owed = one.meter.hourly * disks.owed_on_restore(state, one) / HOUR
    return {
        "kind": "volume",
        "id": one.id,
        "name": one.name,
        "type": f"{one.type} {one.size} GB",
        "market": None,
        "location": one.location,
        "status": "destroyed" if one.destroyed else "trash" if one.in_trash else one.status,
        "description": "",
        **_marks(one.tags),
        "instance_id": one.shown_instance_id,
        "owed_on_restore": money_number(owed),
        "meter": one.meter,
    }


def _marks(tags: list[Tag]) -> dict[str, Any]:
    held = {tag.key: tag.value for tag in tags}
    return {"tags": held, "cluster": held.get(TAG_CLUSTER)}
