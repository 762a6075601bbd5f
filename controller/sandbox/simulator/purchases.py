"""Whether a purchase was right: promised before, made once, needed, and within the limits.

The first promise is judged here, never to pay twice. What could be doubted is judged in the controller's favour:
who changed the picture after the decision, and what a scheduler may do with GPUs that are offered.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

from controller.domain.machine import Machine, Phase
from controller.domain.policy import Policy, halts
from controller.sandbox.cloud.model import Instance
from controller.sandbox.simulator.books import Books
from controller.sandbox.simulator.holdings import Holdings
from controller.sandbox.simulator.needs import Need, all_placed
from controller.sandbox.simulator.owner import Owner
from controller.sandbox.simulator.possible import gpus_shown
from controller.sandbox.simulator.worlds import BEGAN

_LONGEST = 60.0  # seconds from a decision to its order; a clock that was set wrong says anything


class Purchases:
    def __init__(self, policy: Policy, books: Books, holdings: Holdings, owner: Owner) -> None:
        self.twice = 0
        self._policy = policy
        self._books = books
        self._holdings = holdings
        self._owner = owner

    def wrong(self, one: Instance) -> list[str]:
        """What is wrong with a purchase that has just been made, in words."""
        record = self._books.machine(one.hostname)
        if record is None:
            return [f"{one.hostname} was bought without an intent in the ledger"]
        found = []
        if record.phase is not Phase.INTENDED:
            found.append(f"{one.hostname} was bought when its intent was already {record.phase.value}")
        self._holdings.promised(one, record)
        alive = self._holdings.alive()
        if any(other.hostname == one.hostname and other is not one for other in alive):
            self.twice += 1
            found.append(f"{one.hostname} was bought twice")
        elif self._needless(one, record):
            self.twice += 1
            found.append(
                f"{one.hostname} was bought for {', '.join(record.pods) or 'nobody'}, whom machines on their way "
                "would have served"
            )
        return found + self._above_limits(record)

    def _needless(self, one: Instance, record: Machine) -> bool:
        """Whether everybody who waits would have found a place on what was on its way already.

        What a minimum or headroom has brought on its way is capacity for pods like any other. Bought for nobody is
        what these want; a pod may have been given a place on what fills a minimum up, and is not why it was bought.
        """
        if not record.pods or self._fills_minimum(record):
            return False
        coming = []
        for other in self._holdings.promised_once():
            known = self._holdings.promise(other)
            if other is one or known is None or not known.phase.on_the_way or known.failed:
                continue
            if not known.pods and known.intended_at == record.intended_at:
                continue  # the same decision keeps it free for others, and only their order of arrival is chance
            if not self._holdings.served(other) and self._takes_pods(known):
                coming.append(self._as_shown(known))
        if not coming:
            return False
        wanted = {want.pod: want.work for want in self._owner.waited(self._decided(record))}
        for key in record.pods:
            want = self._owner.want_of(key.partition("/")[2])
            if want is None:
                return False  # gone since it was decided
            wanted[want.pod] = want.work
        needs = [Need(work.gpus, work.cpu_milli, work.memory_mib, work.models) for work in wanted.values()]
        return all_placed(needs, coming)

    def _takes_pods(self, machine: Machine) -> bool:
        """Pods of a simulation tolerate nothing: a pool with a taint of its own is for others."""
        pool = self._policy.pool(machine.pool)
        return pool is None or not any(taint.effect != "PreferNoSchedule" for taint in pool.taints)

    def _as_shown(self, machine: Machine) -> Machine:
        """With the GPUs that its Node will have, where its pool cuts them."""
        pool = self._policy.pool(machine.pool)
        if pool is None or not pool.resources:
            return machine
        return msgspec.structs.replace(machine, gpus=gpus_shown(pool, machine.gpus))

    def _fills_minimum(self, record: Machine) -> bool:
        """Whether its pool has fewer than its minimum without it."""
        pool = self._policy.pool(record.pool)
        if pool is None or not pool.min:
            return False
        known = [self._books.machine(one.hostname) for one in self._holdings.promised_once()]
        there = [
            other
            for other in known
            if other is not None and other.pool == pool.name and other.name != record.name
            and (other.phase.on_the_way or other.phase is Phase.READY) and not (other.failed or other.surplus)
        ]  # fmt: skip
        return len(there) < pool.min

    def _decided(self, record: Machine) -> float:
        """When. Pods that were bound since then may have left a place that nobody could count on."""
        now = self._owner.now
        return max(min(record.intended_at - BEGAN, now), now - _LONGEST)

    def _above_limits(self, record: Machine) -> list[str]:
        # Those that nobody could know of do not count, nor does one whose end was told: that was a lie of the cloud's.
        there = [one for one in self._holdings.promised_once() if self._books.machine(one.hostname)]
        pairs = [(one, self._holdings.promise(one)) for one in there]
        known_of = [
            (one, known)
            for one, known in pairs
            if known is not None and not known.surplus and known.phase is not Phase.TOMBSTONE
        ]
        alive, records = [one for one, _ in known_of], [known for _, known in known_of]
        found = []
        pool = self._policy.pool(record.pool)
        mine = [known for known in records if known.pool == record.pool]
        if pool is not None and halts("scale-up", pool.pause, self._policy.pause):
            found.append(f"{record.name} was bought while scale-up of pool {pool.name} is paused")
        if pool is not None and len(mine) > pool.max:
            found.append(f"{len(mine)} machines in pool {pool.name}, of {pool.max} at most")
        limits, gpus = self._policy.limits, sum(known.gpus for known in records)
        price = sum((one.price for one in alive), Decimal(0))
        for what, got, most in (
            ("machines", len(alive), limits.machines),
            ("GPUs", gpus, limits.gpus),
            ("an hour", price, limits.price_per_hour),
        ):
            if most is not None and got > most:
                found.append(f"{got} {what}, of {most} at most")
        return found
