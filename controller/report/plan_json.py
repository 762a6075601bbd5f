"""A plan as JSON and as text: the same words for events, `plan`, the status and the simulator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from controller.domain.machine import Machine
from controller.domain.plan import Action, Explanation, KeepAfterAll, Launch, MarkIdle, Plan, Retire
from controller.domain.reason import Reason


def money(amount: Decimal) -> float:
    """Money in JSON is a number with four decimals; the currency stands beside it."""
    return float(amount.quantize(Decimal("0.0001")))


def action_json(action: Action, machines: Mapping[str, Machine]) -> dict[str, Any]:
    """Every action has every key; `reason` is always a stable code, `message` the sentence to it."""
    if isinstance(action, Launch):
        return {
            "verb": "launch",
            "pool": action.pool,
            "instance_type": action.offer.type.name,
            "location": action.offer.location,
            "market": action.offer.market,
            "count": 1,
            "pods": list(action.pods),
            "reason": (Reason.LAUNCHING if action.pods else Reason.MIN_SIZE).value,
            "message": action.reason,
            "price_per_hour": money(action.offer.price),
        }
    verb, reason, message = _about(action)
    machine = machines.get(action.machine)
    return {
        "verb": verb,
        "pool": machine.pool if machine else "",
        "instance_type": machine.instance_type if machine else "",
        "location": machine.location if machine else "",
        "market": machine.market if machine else "",
        "count": 1,
        "pods": list(machine.pods) if machine else [],
        "reason": reason.value,
        "message": message,
        "machine": action.machine,
    }


def _about(action: Retire | MarkIdle | KeepAfterAll) -> tuple[str, Reason, str]:
    match action:
        case Retire():
            return "retire", action.reason, action.message
        case MarkIdle(since=None):
            return "mark_busy", Reason.IN_USE, "its GPUs are in use again"
        case MarkIdle():
            return "mark_idle", Reason.COOLDOWN, "nothing uses its GPUs any more; its cooldown begins"
        case KeepAfterAll():
            return "keep", Reason.NEEDED, action.message


def plan_json(plan: Plan, currency: str, machines: Iterable[Machine] = ()) -> dict[str, Any]:
    """Equal launches are one action with a count; the order is the plan's own."""
    known = {machine.name: machine for machine in machines}
    actions: list[dict[str, Any]] = []
    same: dict[tuple[Any, ...], dict[str, Any]] = {}
    for action in plan.actions:
        shown = action_json(action, known)
        if isinstance(action, Launch):
            key = (action.pool, action.offer.key)
            if key in same:
                same[key]["count"] += 1
                same[key]["pods"] += shown["pods"]
                same[key]["message"] += f"; {shown['message']}"
                continue
            same[key] = shown
        actions.append(shown)
    shown_plan: dict[str, Any] = {
        "actions": actions,
        "pods": _told(plan.pods),
        "machines": _told(plan.machines),
        "currency": currency,
    }
    if plan.pools:
        shown_plan["pools"] = _told(plan.pools)
    if plan.price_floor is not None:
        bought = [a for a in plan.actions if isinstance(a, Launch) and a.pods]
        price = sum((launch.offer.price for launch in bought), Decimal(0))
        shown_plan["bound"] = {
            "price_per_hour": money(price),
            "at_least_per_hour": money(plan.price_floor),
            "gap": round(float(price / plan.price_floor - 1), 4) if plan.price_floor else None,
        }
    return shown_plan


def _told(part: Mapping[str, Explanation]) -> dict[str, dict[str, str]]:
    return {key: {"code": e.code.value, "message": e.message} for key, e in sorted(part.items())}


def plan_lines(plan: Plan, currency: str) -> list[str]:
    """The plan for people: what would be done, then why, for each pod and machine."""
    shown = plan_json(plan, currency)
    lines = [_action_line(action, currency) for action in shown["actions"]] or ["nothing to do"]
    if bound := shown.get("bound"):
        lines.append(
            f"{bound['price_per_hour']:.4f} {currency} an hour for these pods; no machines for them cost less than "
            f"{bound['at_least_per_hour']:.4f}"
        )
    for title, part in (
        ("pods", shown["pods"]),
        ("machines", shown["machines"]),
        ("pools", shown.get("pools")),
    ):
        if part:
            lines += ["", f"{title}:"]
            lines += [f"  {key}: {told['code']}: {told['message']}" for key, told in part.items()]
    return lines


def _action_line(action: dict[str, Any], currency: str) -> str:
    if action["verb"] == "launch":
        times = f"{action['count']} x " if action["count"] > 1 else ""
        whom = f" for {', '.join(action['pods'])}" if action["pods"] else f" ({action['message']})"
        return (
            f"launch {times}{action['instance_type']} in {action['location']} ({action['market']}, "
            f"{action['price_per_hour']:.4f} {currency} an hour each) from pool {action['pool']}{whom}"
        )
    return f"{action['verb']} {action['machine']}: {action['message']}"
