"""The status as one JSON document: what is there, what is decided and why, what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from controller.domain.cloudhealth import CloudHealth
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, Plan, Refusal
from controller.domain.policy import Policy
from controller.domain.switching import Switch, Switched
from controller.report.plan_json import money

# A ConfigMap holds 1 MiB in all.
MOST_BYTES = 1_000_000


def as_text(status: Mapping[str, Any], most: int = MOST_BYTES) -> str:
    """The document as it is published. What does not fit is left out from the end, and counted."""
    shown = dict(status)
    text = _encoded(shown)
    for part in ("pods", "machines"):
        every = shown[part]
        kept = list(every.items() if isinstance(every, Mapping) else every)
        while len(text) > most and kept:
            kept = kept[: len(kept) // 2]
            shown[part] = dict(kept) if isinstance(every, Mapping) else kept
            shown[f"{part}_left_out"] = len(every) - len(kept)
            text = _encoded(shown)
    return text.decode()


def _encoded(document: Mapping[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=1)


def iso(moment: float) -> str | None:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds") if moment else None


def status_json(
    *,
    policy: Policy,
    plan: Plan,
    machines: Sequence[Machine],
    switched: Sequence[tuple[Switch, Switched]] = (),
    refusals: Sequence[Refusal],
    costs: Mapping[str, Decimal],
    reports: Mapping[str, str],
    leader: bool,
    currency: str,
    problems: Sequence[str],
    cloud: CloudHealth | None = None,
) -> dict[str, Any]:
    alive = [m for m in machines if m.phase is not Phase.TOMBSTONE]
    return {
        "cluster_id": policy.cluster_id,
        "leader": leader,
        "paused": policy.pause,
        "retiring": policy.retire,
        "currency": currency,
        "price_per_hour": money(sum((m.price for m in alive if not m.gone_at), Decimal(0))),
        "closed_costs_by_day": {day: money(cost) for day, cost in costs.items()},
        "pools": {
            pool.name: {
                "min": pool.min,
                "max": pool.max,
                "machines": sum(1 for m in alive if m.pool == pool.name),
                "gpus": sum(m.gpus for m in alive if m.pool == pool.name),
            }
            | _told(plan.pools.get(pool.name))
            for pool in policy.pools
        },
        "machines": [_machine(m, plan) for m in alive],
        "pods": {key: {"code": e.code.value, "message": e.message} for key, e in plan.pods.items()},
        "refusals": [
            {"offer": r.offer, "reason": r.reason.value, "until": iso(r.until), "message": r.message}
            for r in refusals
        ],
        "cloud": _cloud(cloud or CloudHealth()),
        "reports": dict(sorted(reports.items())),
        "problems": list(problems),
    } | ({"switched": [_switched(s, record, plan) for s, record in switched]} if switched else {})


def _told(why: Explanation | None) -> dict[str, str]:
    return {"code": why.code.value, "message": why.message} if why is not None else {}


def _cloud(health: CloudHealth) -> dict[str, Any]:
    """Without what changes all the time: the status is written when it changed."""
    return {"breaker": health.breaker, "since": iso(health.since), "message": health.message}


def _switched(switch: Switch, record: Switched, plan: Plan) -> dict[str, Any]:
    why = plan.machines.get(switch.name)
    return {
        "name": switch.name,
        "gpus": switch.gpus,
        "price_per_hour": money(switch.price),
        "power": record.power.value,
        "code": why.code.value if why else "",
        "message": why.message if why else "",
        "pods": list(record.pods),
        "on_since": iso(record.on_since),
        "off_since": iso(record.off_since),
        "switched_on_last_day": len(record.ons),
        "left_alone_until": iso(record.hand_until),
    }


def _machine(machine: Machine, plan: Plan) -> dict[str, Any]:
    why = plan.machines.get(machine.name)
    return {
        "name": machine.name,
        "pool": machine.pool,
        "instance_type": machine.instance_type,
        "location": machine.location,
        "market": machine.market,
        "gpus": machine.gpus,
        "price_per_hour": money(machine.price),
        "phase": machine.phase.value,
        "code": why.code.value if why else "",
        "message": why.message if why else "",
        "pods": list(machine.pods),
        "since": iso(machine.intended_at),
        "surplus": machine.surplus,
    }
