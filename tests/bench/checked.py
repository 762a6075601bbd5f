"""The verifier's word on a plan."""

from __future__ import annotations

from importlib.util import find_spec

from controller.domain.plan import Plan, Snapshot


def faults(snapshot: Snapshot, plan: Plan) -> list[str] | None:
    """What the plan does that the scheduler would not allow; None where there is no verifier."""
    if find_spec("tests.planning.verifier") is None:
        return None
    from tests.planning import verifier

    return list(verifier.faults(snapshot, plan))
