"""How many machines may be on their way out at once, for any reason and for each, and at which hours.

A machine whose Node is not Ready, or is being deleted, is lost to its work already, so it counts like one that
is being removed. One that failed before it was of use to anybody does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, Snapshot
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.domain.windows import change_after, open_at

REASONS = (Reason.IDLE, Reason.EXPIRED, Reason.DRIFTED, Reason.CONSOLIDATION)


def allowed_at_once(budget: str, machines: int) -> int:
    """Machines that may be on their way out together; a share is rounded up, so that one always may."""
    if budget.endswith("%"):
        return math.ceil(machines * float(budget[:-1]) / 100)
    return int(budget)


class Allowance:
    """What is left of the budgets, taken one machine after the other."""

    def __init__(self, policy: Policy, alive: Sequence[Machine], nodes: Mapping[str, Node]) -> None:
        self._policy = policy
        leaving = [m for m in alive if m.phase.leaving and not m.failed]
        lost = sorted(m.name for m in alive if m.phase is Phase.READY and _is_lost(m, nodes))
        self._lost = lost
        taken = len(leaving) + len(lost)
        self._left = max(0, allowed_at_once(policy.disruption_budget, len(alive)) - taken)
        self._of: dict[str, int] = {}
        for reason, share in policy.disruption_budgets.items():
            # One that is held up, or lost, may count for any reason: nobody knows better.
            same = sum(1 for m in leaving if m.reason not in REASONS or m.reason == reason)
            self._of[reason] = max(0, allowed_at_once(share, len(alive)) - same - len(lost))

    def refuses(self, reason: Reason) -> str:
        """Why no other may go for this reason now, or ""."""
        if self._left < 1:
            name, share = "disruption.budget", self._policy.disruption_budget
        elif self._of.get(reason.value, 1) < 1:
            name, share = f"disruption.budgets.{reason.value}", self._policy.disruption_budgets[reason.value]
        else:
            return ""
        away = f" while {', '.join(self._lost)} is not Ready" if self._lost else ""
        return f"{name} ({share}) lets no more go at once{away}"

    def take(self, reason: Reason) -> None:
        self._left -= 1
        if reason.value in self._of:
            self._of[reason.value] -= 1


def closed(snapshot: Snapshot) -> Explanation | None:
    """Why nothing is removed at this hour."""
    policy = snapshot.policy
    if open_at(policy.not_during, snapshot.now):
        return Explanation(Reason.WINDOW, "nothing is removed at this hour (disruption.not_during)")
    if policy.windows and not open_at(policy.windows, snapshot.now):
        return Explanation(Reason.WINDOW, "nothing is removed outside of disruption.windows")
    return None


def hours_change(snapshot: Snapshot) -> float | None:
    return change_after((*snapshot.policy.windows, *snapshot.policy.not_during), snapshot.now)


def _is_lost(machine: Machine, nodes: Mapping[str, Node]) -> bool:
    node = nodes.get(machine.name)
    return node is None or not node.ready or node.deleting
