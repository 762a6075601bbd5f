"""Why a machine that is off is not switched on now, and why an idle one that is on stays on. Pure.

Refusals end in sentences on pods, so they carry no times that change by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.domain import names
from controller.domain.kube import Node
from controller.domain.policy import Policy, halts
from controller.domain.reason import SENTENCES, Reason
from controller.domain.switching import DAY, Power, Stay, Switch, Switched

_HOLD = 60.0  # what holds a machine back lasts at least until the next look
_TAKEN = {
    Power.RISING: "it is on its way already, and its room is taken",
    Power.ON: "it is on already, and has no room left",
    Power.DRAINING: "it is on already, and being drained",
}


def _lately(record: Switched, now: float) -> tuple[float, ...]:
    return tuple(at for at in record.ons if at > now - DAY)


def hindrance(switch: Switch, record: Switched, node: Node | None, now: float) -> Stay | None:
    """Why it is not switched on now."""
    if record.power is Power.FALLING:
        words = record.note if record.reason is Reason.OFF_DEADLINE else "it is being switched off"
        return Stay(now + _HOLD, Reason.SWITCHING_OFF, words)
    if record.power is not Power.OFF:
        return Stay(now + _HOLD, Reason.IN_USE, _TAKEN[record.power])
    lately = _lately(record, now)
    found: Iterable[Stay] = (
        Stay(
            record.refused_until,
            record.reason or Reason.SWITCH_FAILED,
            f"{(record.note or SENTENCES[record.reason or Reason.SWITCH_FAILED]).rstrip('.')}; it is tried again later",
        ),
        Stay(
            record.hand_until,
            Reason.SWITCHED_BY_HAND,
            f"{record.note or 'somebody else switched it'}; it is left alone for a while (left_alone_for)",
        ),
        Stay(
            record.off_since + switch.min_off if record.off_since else 0.0,
            Reason.MIN_OFF,
            f"it was switched off a moment ago (min_off is {switch.min_off:g} s)",
        ),
        Stay(
            lately[-switch.per_day] + DAY if len(lately) >= switch.per_day else 0.0,
            Reason.SWITCH_LIMIT,
            f"it was switched on {switch.per_day} times in 24 hours, as often as switches_per_day allows",
        ),
        Stay(
            now + _HOLD if node is not None and node.unschedulable else 0.0,
            Reason.PAUSED,
            "its Node is cordoned",
        ),
        Stay(
            now + _HOLD
            if node is not None and halts("scale-up", node.annotations.get(names.PAUSE, ""))
            else 0.0,
            Reason.PAUSED,
            f"its Node says {names.PAUSE}",
        ),
    )
    return next((stay for stay in found if stay.until > now), None)


def paused(policy: Policy, switch: Switch, node: Node | None, direction: str) -> bool:
    said = node.annotations.get(names.PAUSE, "") if node is not None else ""
    return halts(direction, policy.pause, switch.pause, said)


def stays(switch: Switch, record: Switched, now: float) -> tuple[Stay, ...]:
    """Why an idle machine that is on stays on."""
    lately = _lately(record, now)
    found = (
        Stay(
            now + _HOLD if record.down_at else 0.0,
            Reason.SWITCHED_BY_HAND,
            "its Node is not Ready: somebody else may be switching it off; nothing is decided about it",
        ),
        Stay(
            record.on_since + switch.min_on,
            Reason.MIN_ON,
            f"idle; it stays on for min_on ({switch.min_on:g} s)",
        ),
        Stay(
            record.hand_until,
            Reason.SWITCHED_BY_HAND,
            "idle; somebody else switched it on, and it is left alone for a while (left_alone_for)",
        ),
        Stay(
            lately[-switch.per_day] + DAY if len(lately) >= switch.per_day else 0.0,
            Reason.SWITCH_LIMIT,
            f"idle; it was switched on {switch.per_day} times in 24 hours, so it is left on (switches_per_day)",
        ),
        Stay(
            record.refused_until,
            Reason.SWITCH_FAILED,
            f"idle; {record.note.rstrip('.')}; it is tried again later",
        ),
    )
    return tuple(stay for stay in found if stay.until > now)
