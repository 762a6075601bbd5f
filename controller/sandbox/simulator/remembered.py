"""Plans that need not be made again: `plan` is pure, so an equal picture gives an equal plan.

Between two looks mostly nothing has changed but the time, and a plan says when time alone would change it.
So the last plan that ordered nothing stands until then, and for ten minutes at most, because what it says
about times would grow old. This is what makes a day pass in seconds; the decisions are the planner's.
"""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.plan import Plan, Snapshot
from controller.planning.planner import plan

LONGEST = 600.0


class Remembered:
    def __init__(self) -> None:
        self._seen: Snapshot | None = None
        self._plan = Plan()
        self.made = 0

    def __call__(self, snapshot: Snapshot) -> Plan:
        known = self._seen
        if known is not None and not self._plan.actions:
            until = known.now + LONGEST
            if self._plan.wake_at is not None:
                until = min(until, self._plan.wake_at)
            if known.now <= snapshot.now < until and known == replace(snapshot, now=known.now):
                return self._plan
        self.made += 1
        # The figures are one map that the fleet goes on writing to.
        figures = {kind: dict(figures) for kind, figures in snapshot.observed.items()}
        self._seen, self._plan = replace(snapshot, observed=figures), plan(snapshot)
        return self._plan
