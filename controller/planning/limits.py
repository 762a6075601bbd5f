"""Limits are never exceeded: a tally of what exists, asked before each machine is added to it.

Everything that costs money counts, also machines that are failing or leaving, until their end is proven.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.money import at_least, in_words
from controller.domain.plan import Explanation, Snapshot
from controller.domain.policy import OWN, Policy, Pool
from controller.domain.reason import Reason
from controller.domain.resources import GPU
from controller.planning.budget import committed, reserved
from controller.planning.choice import Candidate
from controller.planning.fit import Ask
from controller.planning.namespaces import Charges
from controller.planning.own import any_own, is_own
from controller.planning.predict import GIB

RATE_WINDOW = 60.0


class Tally:
    """Mutable within one planning run; `copy` before trying something.

    `inside` are the pods that a machine is for; the first of them opened it. The namespaces of pods pay.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        every = [m for m in snapshot.machines if m.phase is not Phase.TOMBSTONE and not m.gone_at]
        every += snapshot.surplus
        alive = [m for m in every if not is_own(m)]  # what is switched and not bought escapes these limits
        others = _others(snapshot) if snapshot.policy.limits.cluster_wide else []
        self.limits = snapshot.policy.limits
        self.machines = len(alive) + len(others)
        self.gpus = sum(m.gpus for m in alive) + sum(node.capacity.get(GPU, 0) for node in others)
        self.cores = sum(m.vcpus for m in alive) + sum(_up(n.capacity.get("cpu", 0), 1000) for n in others)
        self.memory = sum(m.memory_gib for m in alive)
        self.memory += sum(_up(node.capacity.get("memory", 0), GIB) for node in others)
        self.price = sum((m.price for m in alive), Decimal(0))
        self.of_pool: Counter[str] = Counter(m.pool for m in every)
        self.gpus_of_pool: Counter[str] = Counter()
        for machine in alive:
            self.gpus_of_pool[machine.pool] += machine.gpus
        self.charges = Charges(snapshot)
        self._own = any_own(snapshot.offers)
        self._billing = snapshot.policy.billing
        limits = self.limits
        amounts = (limits.gpus, limits.cores, limits.memory_gb, limits.price_per_hour, limits.price_per_month)
        # Whether one machine in the place of another of its pool is the same to all limits.
        self._counts_only = not self.charges.limited and all(most is None for most in amounts)
        self.committed = Decimal(0)
        if self.limits.price_per_month is not None:
            self.committed = committed(snapshot)
        self._lately = sorted(at for at in snapshot.launches if at > snapshot.now - RATE_WINDOW)
        self.launches = len(self._lately)
        self.scripts = sum(1 for m in alive if holds_script(snapshot.policy, m))
        self._scripts_at_most = self.limits.scripts
        if snapshot.scripts_free is not None:
            self._scripts_at_most = min(self._scripts_at_most, self.scripts + snapshot.scripts_free)

    @property
    def rate_is_used_up(self) -> bool:
        return self.launches >= self.limits.launches_per_minute

    @property
    def rate_eases_at(self) -> float | None:
        """When the limit on launches would allow one more than it does now."""
        at = max(0, len(self._lately) - self.limits.launches_per_minute)
        return self._lately[at] + RATE_WINDOW if at < len(self._lately) else None

    def copy(self) -> Tally:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.of_pool, other.gpus_of_pool = self.of_pool.copy(), self.gpus_of_pool.copy()
        other.charges = self.charges.copy()
        return other

    def add(self, candidate: Candidate, inside: Sequence[Ask] = ()) -> None:
        self._count(candidate, inside, 1)

    def remove(self, candidate: Candidate, inside: Sequence[Ask] = ()) -> None:
        """Take back an addition of this planning run, with the pods that are charged for it now."""
        self._count(candidate, inside, -1)

    def _count(self, candidate: Candidate, inside: Sequence[Ask], sign: int) -> None:
        pool, kind = candidate.pool, candidate.offer.type
        self.of_pool[pool.name] += sign
        if is_own(candidate.offer):
            return
        self.machines += sign
        self.gpus += sign * kind.gpus
        self.cores += sign * kind.vcpus
        self.memory += sign * kind.memory_gib
        self.price += sign * candidate.price
        self.gpus_of_pool[pool.name] += sign * kind.gpus
        self.launches += sign
        self.scripts += sign * pool.own_script
        if self.limits.price_per_month is not None:
            self.committed += sign * reserved(candidate.price, self._billing)
        if inside:
            self.charges.add(candidate, inside, sign)

    def places(self, pool: Pool) -> int:
        """How many more machines it may have, by their number alone."""
        rest = pool.max - self.of_pool[pool.name]
        if self.limits.machines is not None and pool.market != OWN:
            rest = min(rest, self.limits.machines - self.machines)
        return rest

    def without(self, machine: Machine) -> Tally:
        """As if this one, which nobody uses, were gone. What it has cost, and the least that it will, stays counted."""
        other = self.copy()
        other.of_pool[machine.pool] -= 1
        if not is_own(machine):
            other.machines -= 1
            other.gpus -= machine.gpus
            other.cores -= machine.vcpus
            other.memory -= machine.memory_gib
            other.price -= machine.price
            other.gpus_of_pool[machine.pool] -= machine.gpus
        return other

    def exchange(
        self, old: Candidate, new: Candidate, inside: Sequence[Ask], more: Sequence[Ask] = ()
    ) -> Explanation | None:
        """Another machine for these pods, unless something objects to it for them and some more."""
        pool = new.pool
        if self._same_to_limits(old, new):
            was, kind = old.offer.type, new.offer.type
            self.cores += kind.vcpus - was.vcpus
            self.memory += kind.memory_gib - was.memory_gib
            self.price += new.price - old.price
            self.gpus += kind.gpus - was.gpus
            self.gpus_of_pool[pool.name] += kind.gpus - was.gpus
            return None
        self.remove(old, inside)
        why = self.objection(new, [*inside, *more])
        self.add(old if why is not None else new, inside)
        return why

    def allows_instead(self, old: Candidate, new: Candidate, inside: Sequence[Ask]) -> bool:
        """Whether one machine may take the place of another; nothing is changed."""
        if self._same_to_limits(old, new):
            return True
        self.remove(old, inside)
        why = self.objection(new, inside)
        self.add(old, inside)
        return why is None

    def _same_to_limits(self, old: Candidate, new: Candidate) -> bool:
        same = self._counts_only and old.pool is new.pool and not self._own
        return same and new.pool.max_gpus_total is None

    def join(self, candidate: Candidate, inside: Sequence[Ask], ask: Ask) -> None:
        """The pod shares a machine of this run, and its namespace the price."""
        if self.charges.limited and not is_own(candidate.offer):
            self.charges.add(candidate, inside, -1)
            self.charges.add(candidate, [*inside, ask])

    def part(self, candidate: Candidate, inside: Sequence[Ask], ask: Ask) -> None:
        """Undo `join`: the pod leaves the others that are inside."""
        if self.charges.limited and not is_own(candidate.offer):
            self.charges.add(candidate, inside, -1)
            self.charges.add(candidate, [other for other in inside if other is not ask])

    def objection_to_join(self, candidate: Candidate, inside: Sequence[Ask], ask: Ask) -> Explanation | None:
        if not self.charges.limited or is_own(candidate.offer):
            return None
        return self.charges.objection_to_join(candidate, inside, ask)

    def slots(self, candidate: Candidate) -> int:
        """How many machines its pool may have more at most, of whatever kind."""
        limits = self.limits
        slots = [candidate.pool.max - self.of_pool[candidate.pool.name]]
        if not is_own(candidate.offer):
            slots.append(limits.launches_per_minute - self.launches)
            if limits.machines is not None:
                slots.append(limits.machines - self.machines)
        return max(0, min(slots))

    @property
    def gpus_left(self) -> int | None:
        return None if self.limits.gpus is None else max(0, self.limits.gpus - self.gpus)

    @property
    def exhausted(self) -> bool:
        """Whether no machine is allowed any more, of whatever kind."""
        limits = self.limits
        return not self._own and (
            self.rate_is_used_up
            or (limits.machines is not None and self.machines >= limits.machines)
            or (limits.cores is not None and self.cores >= limits.cores)
            or (limits.memory_gb is not None and self.memory >= limits.memory_gb)
            or (limits.price_per_month is not None and self.committed >= limits.price_per_month)
        )

    @property
    def out_of_gpus(self) -> bool:
        """Whether none with GPUs is."""
        return not self._own and self.limits.gpus is not None and self.gpus >= self.limits.gpus

    def objection(self, candidate: Candidate, inside: Sequence[Ask] = ()) -> Explanation | None:
        """Why one more such machine, for these pods, is not allowed, with the number that would have to change."""
        limits, pool, kind = self.limits, candidate.pool, candidate.offer.type
        name = pool.name
        if self.of_pool[name] >= pool.max and is_own(candidate.offer):
            return Explanation(Reason.LIMIT_MACHINES, f"{name} is switched on for others")
        # Before what all share: what is raised of that helps nobody whose own limit is in the way.
        if (
            inside
            and not is_own(candidate.offer)
            and (why := self.charges.objection(candidate, inside)) is not None
        ):
            return why
        if self.of_pool[name] >= pool.max:
            return Explanation(
                Reason.LIMIT_MACHINES,
                f"pool {name} has {self.of_pool[name]} of at most {pool.max} machines: raise its max to "
                f"at least {self.of_pool[name] + 1}",
            )
        if is_own(candidate.offer):
            return None
        # A machine without GPUs exceeds no limit of them, not even one that is exceeded already.
        most = pool.max_gpus_total
        if most is not None and kind.gpus and self.gpus_of_pool[name] + kind.gpus > most:
            return _too_many(
                Reason.LIMIT_GPUS,
                f"max_gpus_total of pool {name}",
                most,
                self.gpus_of_pool[name],
                kind.name,
                kind.gpus,
            )
        if limits.machines is not None and self.machines >= limits.machines:
            return Explanation(
                Reason.LIMIT_MACHINES,
                f"limits.machines is {limits.machines} and {self.machines} are there: raise it to at least "
                f"{self.machines + 1}",
            )
        if limits.gpus is not None and kind.gpus and self.gpus + kind.gpus > limits.gpus:
            return _too_many(Reason.LIMIT_GPUS, "limits.gpus", limits.gpus, self.gpus, kind.name, kind.gpus)
        if limits.cores is not None and self.cores + kind.vcpus > limits.cores:
            return _too_many(
                Reason.LIMIT_CORES, "limits.cores", limits.cores, self.cores, kind.name, kind.vcpus
            )
        if limits.memory_gb is not None and self.memory + kind.memory_gib > limits.memory_gb:
            return _too_many(
                Reason.LIMIT_MEMORY,
                "limits.memory_gb",
                limits.memory_gb,
                self.memory,
                kind.name,
                kind.memory_gib,
            )
        if limits.price_per_hour is not None and self.price + candidate.price > limits.price_per_hour:
            return Explanation(
                Reason.LIMIT_PRICE,
                f"limits.price_per_hour is {in_words(limits.price_per_hour)}, {in_words(self.price)} is spent, and "
                f"{kind.name} costs {in_words(candidate.price)}: raise it to at least "
                f"{at_least(self.price + candidate.price)}",
            )
        if limits.price_per_month is not None:
            needed = reserved(candidate.price, self._billing)
            if self.committed + needed > limits.price_per_month or self.committed >= limits.price_per_month:
                # No sum: it grows by the minute, and the sentence becomes an event.
                return Explanation(
                    Reason.LIMIT_BUDGET,
                    f"limits.price_per_month is {in_words(limits.price_per_month)}, and what is left of it this "
                    f"month is less than the {in_words(needed)} that {kind.name} reserves: raise it, or wait for "
                    "the next month (UTC)",
                )
        if self.rate_is_used_up:
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


def _too_many(code: Reason, key: str, most: int, there: int, name: str, more: int) -> Explanation:
    return Explanation(
        code,
        f"{key} is {most}, {there} are there, and the machine to buy ({name}) has {more}: raise it to at least "
        f"{there + more}",
    )


def _others(snapshot: Snapshot) -> list[Node]:
    """Nodes that are not machines of ours."""
    ours = {machine.name for machine in snapshot.machines if not is_own(machine)}
    # One that is switched off costs nothing, and one on its way is counted as soon as it is there.
    off = {switch.name for switch in snapshot.policy.switches}
    return [n for n in snapshot.nodes if n.name not in ours and (n.ready or n.name not in off)]


def _up(amount: int, unit: int) -> int:
    return -(-amount // unit)


def holds_script(policy: Policy, machine: Machine) -> bool:
    """Whether a script of its own is there for the machine, or is about to be uploaded."""
    if machine.script_id:
        return True
    pool = policy.pool(machine.pool)
    return machine.phase is Phase.INTENDED and pool is not None and pool.own_script
