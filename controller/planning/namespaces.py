"""Which namespace a machine is charged to, and whether its limits allow one more.

A machine belongs to the pods that are on it or that it was bought for, each by its share of the GPUs.
What nobody asked for belongs to the namespace whose pod it was bought for first, for as long as it is
there; the rest of a machine of a pool's minimum, to none. Nodes that are not ours cost nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from controller.domain.kube import Pod
from controller.domain.machine import Machine, Phase
from controller.domain.money import at_least, in_words
from controller.domain.plan import Explanation, Snapshot
from controller.domain.policy import NamespaceLimit, Pool
from controller.domain.reason import Reason
from controller.domain.resources import Resources
from controller.planning.choice import Candidate
from controller.planning.fit import Ask
from controller.planning.predict import gpu_resources
from controller.planning.room import Room

_NONE, _ALL = Fraction(0), Fraction(1)


class Charges:
    """What each namespace with a limit is charged; only those are counted."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._limits: Mapping[str, NamespaceLimit] = snapshot.policy.namespaces
        self._pools = {pool.name: pool for pool in snapshot.policy.pools}
        self.gpus: dict[str, Fraction] = {}
        self.price: dict[str, Fraction] = {}
        self._totals: dict[int, Resources] = {}
        self._counted: frozenset[tuple[str, str]] = frozenset()  # pods in the charges, with their machine
        if self._limits:
            self._count(snapshot)

    @property
    def limited(self) -> bool:
        return bool(self._limits)

    def copy(self) -> Charges:
        other = object.__new__(Charges)
        other.__dict__.update(self.__dict__)
        other.gpus, other.price = dict(self.gpus), dict(self.price)
        return other

    def add(self, candidate: Candidate, inside: Sequence[Ask], sign: int = 1) -> None:
        """A new machine for these pods; the first of them opened it."""
        if not self._limits or not inside:
            return
        for namespace, share in self._shares(candidate, inside).items():
            self._charge(namespace, sign * share, candidate.gpus, Fraction(candidate.price))

    def objection(self, candidate: Candidate, inside: Sequence[Ask]) -> Explanation | None:
        """Why no machine may be bought for these pods."""
        if not self._limits or not inside:
            return None
        for namespace, share in self._shares(candidate, inside).items():
            if (why := self._exceeds(namespace, share, candidate)) is not None:
                return why
        return None

    def objection_to_join(self, candidate: Candidate, inside: Sequence[Ask], ask: Ask) -> Explanation | None:
        """Why the pod may not share a machine that is bought for others."""
        namespace = ask.pod.namespace
        if namespace not in self._limits or not inside:
            return None
        before, after = self._shares(candidate, inside), self._shares(candidate, [*inside, ask])
        more = after.get(namespace, _NONE) - before.get(namespace, _NONE)
        return self._exceeds(namespace, more, candidate) if more > 0 else None

    def placed(self, rooms: Iterable[Room]) -> None:
        """Pods that are about to run on machines that are there."""
        if not self._limits:
            return
        for room in rooms:
            machine, offer = room.machine, room.offer
            if machine is not None:
                totals, gpus, price = _totals(machine, self._pools), machine.gpus, machine.price
            elif offer is not None and room.pool is not None:
                totals, gpus, price = gpu_resources(room.pool, offer.type.gpus), offer.type.gpus, offer.price
            else:
                continue
            for pod in room.pods:
                if (pod.key, room.name) not in self._counted:
                    self._charge(pod.namespace, share_of(pod, totals), gpus, Fraction(price))

    def _count(self, snapshot: Snapshot) -> None:
        bound: dict[str, list[Pod]] = {}
        waiting: dict[str, Pod] = {}
        for pod in snapshot.pods:
            if pod.finished or pod.shape.is_daemon or pod.shape.mirror:
                continue
            if pod.node:
                bound.setdefault(pod.node, []).append(pod)
            else:
                waiting[pod.key] = pod
        counted = set()
        for machine in snapshot.machines:
            if machine.phase is Phase.TOMBSTONE or machine.gone_at:
                continue
            totals = _totals(machine, self._pools)
            promised = [waiting[key] for key in machine.pods if key in waiting]
            rest = _ALL
            for pod in [*bound.get(machine.name, ()), *promised]:
                share = min(rest, share_of(pod, totals))
                rest -= share
                counted.add((pod.key, machine.name))
                self._charge(pod.namespace, share, machine.gpus, Fraction(machine.price))
            if machine.pods:
                opener = machine.pods[0].split("/", 1)[0]
                self._charge(opener, rest, machine.gpus, Fraction(machine.price))
        self._counted = frozenset(counted)

    def _charge(self, namespace: str, share: Fraction, gpus: int, price: Fraction) -> None:
        if namespace in self._limits and share:
            self.gpus[namespace] = self.gpus.get(namespace, _NONE) + share * gpus
            self.price[namespace] = self.price.get(namespace, _NONE) + share * price

    def _shares(self, candidate: Candidate, inside: Sequence[Ask]) -> dict[str, Fraction]:
        totals = self._totals.get(id(candidate))
        if totals is None:
            totals = self._totals[id(candidate)] = gpu_resources(candidate.pool, candidate.gpus)
        shares: dict[str, Fraction] = {}
        rest = _ALL
        for ask in inside:
            share = min(rest, share_of(ask.pod, totals))
            rest -= share
            namespace = ask.pod.namespace
            shares[namespace] = shares.get(namespace, _NONE) + share
        opener = inside[0].pod.namespace
        shares[opener] += rest
        return shares

    def _exceeds(self, namespace: str, share: Fraction, candidate: Candidate) -> Explanation | None:
        limit = self._limits.get(namespace)
        if limit is None:
            return None
        name = candidate.offer.type.name
        more = share * candidate.gpus
        held = self.gpus.get(namespace, _NONE)
        if limit.gpus is not None and held + more > limit.gpus:
            return Explanation(
                Reason.LIMIT_NAMESPACE,
                f"namespaces.{namespace}.gpus is {limit.gpus}, {_number(held)} are charged to it, and {name} would "
                f"add {_number(more)}: raise it to at least {_whole(held + more)}",
            )
        cost = share * Fraction(candidate.price)
        paid = self.price.get(namespace, _NONE)
        if limit.price_per_hour is not None and paid + cost > Fraction(limit.price_per_hour):
            needed = _decimal(paid + cost)
            return Explanation(
                Reason.LIMIT_NAMESPACE,
                f"namespaces.{namespace}.price_per_hour is {in_words(limit.price_per_hour)}, "
                f"{in_words(_decimal(paid))} is charged to it, and {name} would add {in_words(_decimal(cost))}: "
                f"raise it to at least {at_least(needed)}",
            )
        return None


def _totals(machine: Machine, pools: Mapping[str, Pool]) -> Resources:
    pool = pools.get(machine.pool) or Pool(name=machine.pool, max=0)
    return gpu_resources(pool, machine.gpus)


def share_of(pod: Pod, totals: Resources) -> Fraction:
    """Of a machine: by the accelerator that the pod takes the largest part of."""
    parts = (Fraction(units, totals[name]) for name, units in pod.shape.requests.items() if totals.get(name))
    return min(_ALL, max(parts, default=_NONE))


def _number(amount: Fraction) -> str:
    return str(amount.numerator) if amount.denominator == 1 else f"{float(amount):.2f}"


def _whole(amount: Fraction) -> int:
    return -(-amount.numerator // amount.denominator)


def _decimal(amount: Fraction) -> Decimal:
    return Decimal(amount.numerator) / Decimal(amount.denominator)
