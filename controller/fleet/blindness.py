"""How long nothing is concluded from what is not seen, after the cluster could not be looked at.

Who was as blind as we were, a kubelet say, is given time to be heard again: as long as that was, at most a limit.
Where the API server is away nobody holds the lease either, and nobody looks at all; what a new leader finds says how
long that was. A machine that is past a deadline is condemned by whoever looks, so nobody has.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.domain.machine import Machine
from controller.domain.policy import Deadlines
from controller.fleet.due import joins_until

# From one leader to the next, the end of a lease and the first reading of everything included.
_CHANGE = 60.0


class Blindness:
    def __init__(self) -> None:
        self._since = 0.0  # since when nothing is to be seen
        self._until = 0.0  # how long what that may have hidden is waited for
        self._looked = 0.0  # when we did last

    def lasts(self, old: bool, most: float, now: float) -> bool:
        """`old`: what is seen now is."""
        self._looked = now
        self._since = (self._since or now) if old else 0.0
        if old:
            self._until = max(self._until, now + min(most, max(0.0, now - self._since)))
        self._until = min(self._until, now + most)  # a clock may be set back
        return old or now <= self._until

    def led_again(self, machines: Iterable[Machine], limits: Deadlines, now: float) -> list[Machine]:
        """Somebody leads from now on; returns the machines that are given more time for that, which is done once in each phase.
        That others did while we did not is not known: it costs a machine that never joins some minutes, while one that is condemned too
        early is bought twice."""
        away = now - (self._looked or now)
        until = now + min(limits.ready, away) if away > _CHANGE else 0.0
        spared = []
        for machine in machines:
            end = joins_until(machine, limits)
            if end is None or now - end <= _CHANGE:
                continue
            began = max(machine.running_at, machine.joined_at, machine.node_ready_at)
            spared_at = machine.spared_at if began <= machine.spared_at <= now else 0.0
            if not spared_at:
                spared.append(machine)
            until = max(until, (spared_at or now) + min(limits.ready, now - end))
        self._until = max(self._until, until)
        return spared
