"""How many machines may be on their way out at once, for any reason and for each, and at which hours.

A machine whose Node is not Ready, or is being deleted, is lost to its work already, so it counts like one that
is being removed: more may follow it. One that is lost for good counts no more, or idle machines beside it would be
paid for as long as nobody mends it: one that failed, that the cloud says is off, or whose Node is silent for long.
Nor does one whose delete the cloud accepted long ago: how long it takes to end is nothing that waiting would mend.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, Snapshot
from controller.domain.reason import Reason
from controller.domain.windows import change_after, open_at
from controller.planning.lost import is_for_good

# A delete takes seconds to minutes; in that time a mistake would show before more machines follow.
_DELETED_FOR = 600.0
REASONS = (Reason.IDLE, Reason.EXPIRED, Reason.DRIFTED, Reason.CONSOLIDATION)


def allowed_at_once(budget: str, machines: int) -> int:
    """Machines that may be on their way out together; a share is rounded up, so that one always may."""
    if budget.endswith("%"):
        return math.ceil(machines * float(budget[:-1]) / 100)
    return int(budget)


class Allowance:
    """What is left of the budgets, taken one machine after the other."""

    def __init__(self, snapshot: Snapshot, alive: Sequence[Machine], nodes: Mapping[str, Node]) -> None:
        self._policy = snapshot.policy
        self._all = len(alive)
        # One that is held up may go for any reason: nobody knows better.
        self._leaving = [
            m.reason.value if m.reason is not None and m.reason in REASONS else ""
            for m in alive
            if m.phase.leaving and not m.failed and not _is_past(counts_until(snapshot, m), snapshot.now)
        ]
        self._lost = {
            m.name
            for m in alive
            if m.phase is Phase.READY
            and _is_lost(m, nodes)
            and not is_for_good(snapshot, m, nodes.get(m.name))
        }

    def refuses(self, reason: Reason, machine: str) -> str:
        """Why it may not go for this reason now, or "". One that is lost itself takes nothing more away."""
        lost = set() if machine in self._lost else self._lost
        same = sum(1 for known in self._leaving if known in ("", reason.value))
        share = self._policy.disruption_budgets.get(reason.value)
        if allowed_at_once(self._policy.disruption_budget, self._all) <= len(self._leaving) + len(lost):
            name, held = "disruption.budget", self._policy.disruption_budget
        elif share is not None and allowed_at_once(share, self._all) <= same + len(lost):
            name, held = f"disruption.budgets.{reason.value}", share
        else:
            return ""
        away = (
            f" while {' and '.join(sorted(lost))} {'are' if len(lost) > 1 else 'is'} not Ready"
            if lost
            else ""
        )
        return f"{name} ({held}) lets no more go at once{away}"

    def take(self, reason: Reason, machine: str) -> None:
        self._leaving.append(reason.value)
        self._lost.discard(machine)


def counts_until(snapshot: Snapshot, machine: Machine) -> float | None:
    """When one whose delete was accepted stops counting. One that does not end is asked for again, and that is accepted
    again, so its drain bounds it, too: by the end of its grace it was deleted, or is not leaving any more.
    """
    if not (machine.phase.leaving and machine.delete_at):
        return None
    since = machine.delete_at
    if machine.drain_at:
        since = min(since, snapshot.policy.deadlines.drained_by(machine.drain_at))
    return since + _DELETED_FOR


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


def _is_past(moment: float | None, now: float) -> bool:
    return moment is not None and now >= moment


def _is_lost(machine: Machine, nodes: Mapping[str, Node]) -> bool:
    node = nodes.get(machine.name)
    return node is None or not node.ready or node.deleting
