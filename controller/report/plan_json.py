"""A plan as JSON and as text: the same words for events, `plan`, the status and the simulator."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from controller.domain.plan import Action, KeepAfterAll, Launch, MarkIdle, Plan, Retire


def money(amount: Decimal) -> float:
    """Money in JSON is a number with four decimals; the currency stands beside it."""
    return float(amount.quantize(Decimal("0.0001")))


def action_json(action: Action) -> dict[str, Any]:
    match action:
        case Launch():
            return {
                "verb": "launch",
                "pool": action.pool,
                "instance_type": action.offer.type.name,
                "location": action.offer.location,
                "market": action.offer.market,
                "count": 1,
                "pods": list(action.pods),
                "price_per_hour": money(action.offer.price),
                "reason": action.reason,
            }
        case Retire():
            return {
                "verb": "retire",
                "machine": action.machine,
                "count": 1,
                "pods": [],
                "reason": action.reason.value,
                "message": action.message,
            }
        case MarkIdle():
            verb = "mark_idle" if action.since is not None else "mark_busy"
            return {"verb": verb, "machine": action.machine, "count": 1, "pods": [], "reason": verb}
        case KeepAfterAll():
            return {
                "verb": "keep",
                "machine": action.machine,
                "count": 1,
                "pods": [],
                "reason": "needed",
                "message": action.message,
            }


def plan_json(plan: Plan, currency: str) -> dict[str, Any]:
    """Equal launches are one action with a count; the order is the plan's own."""
    actions: list[dict[str, Any]] = []
    same: dict[tuple[Any, ...], dict[str, Any]] = {}
    for action in plan.actions:
        shown = action_json(action)
        if isinstance(action, Launch):
            key = (action.pool, action.offer.key)
            if key in same:
                same[key]["count"] += 1
                same[key]["pods"] += shown["pods"]
                continue
            same[key] = shown
        actions.append(shown)
    return {
        "actions": actions,
        "pods": {key: {"code": e.code.value, "message": e.message} for key, e in sorted(plan.pods.items())},
        "machines": {
            key: {"code": e.code.value, "message": e.message} for key, e in sorted(plan.machines.items())
        },
        "currency": currency,
    }


def plan_lines(plan: Plan, currency: str) -> list[str]:
    """The plan for people: what would be done, then why, for each pod and machine."""
    shown = plan_json(plan, currency)
    lines = [_action_line(action, currency) for action in shown["actions"]] or ["nothing to do"]
    for title, part in (("pods", shown["pods"]), ("machines", shown["machines"])):
        if part:
            lines += ["", f"{title}:"]
            lines += [f"  {key}: {told['code']}: {told['message']}" for key, told in part.items()]
    return lines


def _action_line(action: dict[str, Any], currency: str) -> str:
    if action["verb"] == "launch":
        times = f"{action['count']} x " if action["count"] > 1 else ""
        whom = f" for {', '.join(action['pods'])}" if action["pods"] else f" ({action['reason']})"
        return (
            f"launch {times}{action['instance_type']} in {action['location']} ({action['market']}, "
            f"{action['price_per_hour']:.4f} {currency} an hour each) from pool {action['pool']}{whom}"
        )
    return f"{action['verb']} {action['machine']}: {action.get('message', action['reason'])}"
