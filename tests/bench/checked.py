"""Whether the scheduler could bind what was planned, in the order in which the planner took the places."""

from __future__ import annotations

from controller.domain.plan import Plan, Snapshot
from controller.planning.planner import placements
from tests.bench import replay


def faults(snapshot: Snapshot, plan: Plan) -> list[str]:
    """What the plan does that the scheduler would not allow."""
    order = [(one.pod, one.place) for one in placements(snapshot)]
    return replay.faults(snapshot, plan, order)
