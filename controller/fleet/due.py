"""When time alone would change what is decided about a machine, so that nobody has to look before.

What is seen of it changes its record as well; whoever hears of that looks at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.domain.machine import Machine, Phase
from controller.domain.policy import Deadlines


def due(machine: Machine, limits: Deadlines, now: float) -> float | None:
    """The next moment after which `life.step` may come to something else from the same picture."""
    return min((moment for moment in _moments(machine, limits) if moment >= now), default=None)


def joins_until(machine: Machine, limits: Deadlines) -> float | None:
    """The end of its deadline, of one whose next step only the cluster can show."""
    match machine.phase:
        case Phase.BOOTING:
            return machine.running_at + limits.join
        case Phase.JOINED:
            return machine.joined_at + limits.ready
        case Phase.STARTED:
            return machine.node_ready_at + limits.gpu
    return None


def _moments(machine: Machine, limits: Deadlines) -> Iterable[float]:
    if (end := joins_until(machine, limits)) is not None:
        yield end
    match machine.phase:
        case Phase.ORDERED:
            yield machine.ordered_at + limits.launch
        case Phase.STARTED if machine.gpus_seen_at:
            yield machine.gpus_seen_at + limits.gpu_settle
        case Phase.READY:
            if machine.stopped_at:
                yield machine.stopped_at + limits.stopped
            if machine.node_missing_at:
                yield machine.node_missing_at + limits.ready
            if machine.gpus_lost_at:
                yield machine.gpus_lost_at + limits.gpu_lost
