"""What an idle machine still waits for: its cooldown, the least age, the end of what is paid for.

Where the cloud gives back what is not used of a paid increment, increments are no reason to wait. Where it
does not, the machine is worth keeping until shortly before the end of the increment in which it could have
gone; not longer, also where something else held it up then.
"""

from __future__ import annotations

import math

from controller.domain.machine import Machine
from controller.domain.plan import Explanation, Snapshot
from controller.domain.reason import Reason
from controller.planning.choice import clock
from controller.planning.own import is_own

# A removal takes a while: the taint, the pause after it, the last look, the delete.
_AHEAD = 60.0


def reasons_to_wait(
    snapshot: Snapshot, machine: Machine, since: float, *, at_once: bool
) -> list[tuple[float, Explanation]]:
    """With the moments at which each ends; `at_once`: it had better be gone already."""
    policy, now = snapshot.policy, snapshot.now
    if is_own(machine):
        return _of_own(snapshot, machine, since, at_once=at_once)
    free = since if at_once else since + policy.cooldown
    old = machine.intended_at if machine.surplus else machine.intended_at + policy.min_age
    found = [
        (free, Reason.COOLDOWN, f"idle since {clock(since)}; goes after {clock(free)} (scale_down.cooldown)"),
        (old, Reason.MIN_AGE, f"idle; goes after {clock(old)} (scale_down.min_age)"),
    ]
    if not (policy.billing.refund_unused or at_once):
        paid = paid_until(snapshot, machine, max(free, old))
        found.append(
            (paid, Reason.PAID, f"idle; goes at {clock(paid)}, paid until then (billing.increment_s)")
        )
    return [(end, Explanation(code, words)) for end, code, words in found if now < end]


def _of_own(
    snapshot: Snapshot, machine: Machine, since: float, *, at_once: bool
) -> list[tuple[float, Explanation]]:
    """Nothing is paid ahead for it; but switching wears hardware, and somebody may be at work on it."""
    free = since if at_once else since + snapshot.policy.cooldown
    own = snapshot.own.get(machine.name)
    found = [
        (free, Reason.COOLDOWN, f"idle since {clock(since)}; goes after {clock(free)} (scale_down.cooldown)")
    ]
    found += [(stay.until, stay.reason, stay.message) for stay in (own.stays if own is not None else ())]
    return [(end, Explanation(code, words)) for end, code, words in found if snapshot.now < end]


def paid_until(snapshot: Snapshot, machine: Machine, moment: float) -> float:
    """When to begin the removal of a machine that could go at this moment."""
    increment = snapshot.policy.billing.increment
    begun = machine.intended_at or machine.ordered_at
    ahead = min(increment / 4, _AHEAD + snapshot.policy.deadlines.drain_pause)
    end = begun + math.ceil(max(0.0, moment - begun) / increment) * increment
    return max(moment, end - ahead)
