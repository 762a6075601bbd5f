"""A verifier's word on a plan: the one of the planner's own tests where there is one, else a replay."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from controller.domain.plan import Plan, Snapshot
from tests.bench import replay

VERIFIER = "tests.planning.verifier"


def faults(snapshot: Snapshot, plan: Plan) -> list[str]:
    """What the plan does that the scheduler would not allow."""
    found = replay.faults(snapshot, plan)
    if find_spec(VERIFIER) is not None:
        found += import_module(VERIFIER).faults(snapshot, plan)
    return found
