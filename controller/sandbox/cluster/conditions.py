"""Conditions, as controllers write them."""

from __future__ import annotations

from typing import Any

from controller.sandbox.cluster.resources import Obj


def set_condition(held_in: Obj, now: str, /, **condition: Any) -> None:
    """Put a condition in its place; the transition time moves only with its status."""
    held = held_in.setdefault("conditions", [])
    old = next((each for each in held if each["type"] == condition["type"]), None)
    same = old is not None and old["status"] == condition["status"]
    condition["lastTransitionTime"] = old["lastTransitionTime"] if old and same else now
    if old is None:
        held.append(condition)
    else:
        held[held.index(old)] = condition


def set_doom(held: Obj, now: str, reason: str, message: str) -> None:
    """Say of a pod that it is about to be taken away, and by whom."""
    set_condition(
        held["status"],
        now,
        type="DisruptionTarget",
        status="True",
        reason=reason,
        message=message,
        lastProbeTime=None,
    )
