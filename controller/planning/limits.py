"""Limits are never exceeded: a tally of what exists, asked before each machine is added to it.

Everything that costs money counts, also machines that are failing or leaving.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

from controller.domain.machine import Machine, Phase
from controller.domain.money import at_least, in_words
from controller.domain.plan import Explanation, Snapshot
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.planning.choice import Candidate
from controller.planning.fit import Ask

RATE_WINDOW = 60.0


class Tally:
    """Mutable within one planning run; `copy` before trying something."""

    def __init__(self, snapshot: Snapshot) -> None:
        alive = [m for m in snapshot.machines if m.phase is not Phase.TOMBSTONE and not m.gone_at]
        self.limits = snapshot.policy.limits
        self.machines = len(alive)
        self.gpus = sum(m.gpus for m in alive)
        self.price = sum((m.price for m in alive), Decimal(0))
        self.of_pool: Counter[str] = Counter(m.pool for m in alive)
        self._lately = sorted(at for at in snapshot.launches if at > snapshot.now - RATE_WINDOW)
        self.launches = len(self._lately)
        self.scripts = sum(1 for m in alive if holds_script(snapshot.policy, m))
        self._scripts_at_most = self.limits.scripts
        if snapshot.scripts_free is not None:
            self._scripts_at_most = min(self._scripts_at_most, self.scripts + snapshot.scripts_free)

    @property
    def rate_eases_at(self) -> float | None:
        """When the limit on launches would allow one more, if it forbids any now."""
        at = len(self._lately) - self.limits.launches_per_minute
        return self._lately[at] + RATE_WINDOW if 0 <= at < len(self._lately) else None

    def copy(self) -> Tally:
        other = object.__new__(Tally)
        other.__dict__.update(self.__dict__)
        other.of_pool = self.of_pool.copy()
        return other

    def add(self, candidate: Candidate, inside: Sequence[Ask] = ()) -> None:
        self.machines += 1
        self.gpus += candidate.gpus
        self.price += candidate.price
        self.of_pool[candidate.pool.name] += 1
        self.launches += 1
        self.scripts += candidate.pool.own_script

    def remove(self, candidate: Candidate, inside: Sequence[Ask] = ()) -> None:
        """Take back an addition of this planning run."""
        self.machines -= 1
        self.gpus -= candidate.gpus
        self.price -= candidate.price
        self.of_pool[candidate.pool.name] -= 1
        self.launches -= 1
        self.scripts -= candidate.pool.own_script

    def join(self, candidate: Candidate, inside: Sequence[Ask], ask: Ask) -> None:
        """The pod shares a machine of this run."""

    def objection_to_join(self, candidate: Candidate, inside: Sequence[Ask], ask: Ask) -> Explanation | None:
        return None

    @property
    def exhausted(self) -> bool:
        """Whether no machine with GPUs is allowed any more, of whatever kind."""
        limits = self.limits
        return (
            self.launches >= limits.launches_per_minute
            or (limits.machines is not None and self.machines >= limits.machines)
            or (limits.gpus is not None and self.gpus >= limits.gpus)
        )

    def objection(self, candidate: Candidate, inside: Sequence[Ask] = ()) -> Explanation | None:
        """Why one more such machine is not allowed, with the number that would have to change."""
        limits, pool = self.limits, candidate.pool
        if self.of_pool[pool.name] >= pool.max:
            return Explanation(
                Reason.LIMIT_MACHINES,
                f"pool {pool.name} has {self.of_pool[pool.name]} of at most {pool.max} machines: raise its max to "
                f"at least {self.of_pool[pool.name] + 1}",
            )
        if limits.machines is not None and self.machines >= limits.machines:
            return Explanation(
                Reason.LIMIT_MACHINES,
                f"limits.machines is {limits.machines} and {self.machines} are there: raise it to at least "
                f"{self.machines + 1}",
            )
        if limits.gpus is not None and self.gpus + candidate.gpus > limits.gpus:
            return Explanation(
                Reason.LIMIT_GPUS,
                f"limits.gpus is {limits.gpus}, {self.gpus} are there, and the machine to buy "
                f"({candidate.offer.type.name}) has {candidate.gpus}: raise it to at least "
                f"{self.gpus + candidate.gpus}",
            )
        if limits.price_per_hour is not None and self.price + candidate.price > limits.price_per_hour:
            return Explanation(
                Reason.LIMIT_PRICE,
                f"limits.price_per_hour is {in_words(limits.price_per_hour)}, {in_words(self.price)} is spent, and "
                f"{candidate.offer.type.name} costs {in_words(candidate.price)}: raise it to at least "
                f"{at_least(self.price + candidate.price)}",
            )
        if self.launches >= limits.launches_per_minute:
            return Explanation(
                Reason.LIMIT_RATE,
                f"limits.launches_per_minute is {limits.launches_per_minute}; the rest follows within a minute",
            )
        if pool.own_script and self.scripts >= self._scripts_at_most:
            return self._too_many_scripts()
        return None

    def _too_many_scripts(self) -> Explanation:
        # No counts: they change with every machine, and the sentence becomes an event.
        if self.scripts >= self.limits.scripts:
            why = f"limits.scripts is {self.limits.scripts}, and as many machines boot with a script of their own"
        else:
            why = (
                "the cloud account takes no more startup scripts: remove those that nobody needs, or have its "
                "quota raised and set verda.script_quota"
            )
        return Explanation(Reason.LIMIT_SCRIPTS, f"{why}; the rest follows when some have joined")


def holds_script(policy: Policy, machine: Machine) -> bool:
    """Whether a script of its own is there for the machine, or is about to be uploaded."""
    if machine.script_id:
        return True
    pool = policy.pool(machine.pool)
    return machine.phase is Phase.INTENDED and pool is not None and pool.own_script
