"""Which namespace a machine is charged to, and whether its limits allow one more.

A machine belongs to the pods that are on it or that it was bought for, each by its share of the GPUs.
What nobody asked for belongs to the namespace whose pod it was bought for first, for as long as it is
there; the rest of a machine of a pool's minimum, to none. Nodes that are not ours cost nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import lru_cache

from controller.domain.kube import Pod
from controller.domain.machine import Machine, Phase
from controller.domain.money import at_least, in_words
from controller.domain.plan import Explanation, Snapshot
from controller.domain.policy import NamespaceLimit, Pool
from controller.domain.reason import Reason
from controller.domain.resources import Resources
from controller.planning.choice import Candidate
from controller.planning.fit import Ask
from controller.planning.own import is_own
from controller.planning.predict import gpu_resources
from controller.planning.room import Room

# Parts of a machine, and of a GPU, are counted in these: whole numbers are compared thousands of times.
_ALL = 720720
_MICRO = 10**6


class Charges:
    """What each namespace with a limit is charged; only those are counted."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._limits: Mapping[str, NamespaceLimit] = snapshot.policy.namespaces
        self._pools = {pool.name: pool for pool in snapshot.policy.pools}
        self._gpus: dict[str, int] = {}
        self._price: dict[str, int] = {}
        self._most = {
            name: (
                None if limit.gpus is None else limit.gpus * _ALL,
                None if limit.price_per_hour is None else int(limit.price_per_hour * _MICRO) * _ALL,
            )
            for name, limit in self._limits.items()
        }
        self._totals: dict[int, Resources] = {}
        self._counted: frozenset[tuple[str, str]] = frozenset()  # pods in the charges, with their machine
        if self._limits:
            self._count(snapshot)

    @property
    def limited(self) -> bool:
        return bool(self._limits)

    @property
    def gpus(self) -> dict[str, Fraction]:
        return {name: Fraction(parts, _ALL) for name, parts in self._gpus.items()}

    @property
    def price(self) -> dict[str, Fraction]:
        return {name: Fraction(parts, _ALL * _MICRO) for name, parts in self._price.items()}

    def copy(self) -> Charges:
        other = object.__new__(Charges)
        other.__dict__.update(self.__dict__)
        other._gpus, other._price = dict(self._gpus), dict(self._price)
        return other

    def add(self, candidate: Candidate, inside: Sequence[Ask], sign: int = 1) -> None:
        """A new machine for these pods; the first of them opened it."""
        if not self._limits or not inside:
            return
        for namespace, share in self._shares(candidate, inside).items():
            self._charge(namespace, sign * share, candidate.gpus, _micro(candidate.price))

    def objection(self, candidate: Candidate, inside: Sequence[Ask]) -> Explanation | None:
        """Why no machine may be bought for these pods; what adds nothing exceeds nothing, whatever is charged already."""
        if not self._limits or not inside:
            return None
        for namespace, share in self._shares(candidate, inside).items():
            if (why := self._exceeds(namespace, share, candidate)) is not None:
                return why
        return None

    def most(self, candidate: Candidate, ask: Ask) -> int | None:
        """How many such pods its namespace allows on new machines of this kind at most; None: no limit of GPUs."""
        limit, _ = self._most.get(ask.pod.namespace, (None, None))
        part = _part(ask.pod, gpu_resources(candidate.pool, candidate.gpus)) * candidate.gpus
        if limit is None or not part:
            return None
        return max(0, limit - self._gpus.get(ask.pod.namespace, 0)) // part

    def objection_to_join(self, candidate: Candidate, inside: Sequence[Ask], ask: Ask) -> Explanation | None:
        """Why the pod may not share a machine that is bought for others."""
        namespace = ask.pod.namespace
        if namespace not in self._limits or not inside:
            return None
        before, after = self._shares(candidate, inside), self._shares(candidate, [*inside, ask])
        more = after.get(namespace, 0) - before.get(namespace, 0)
        return self._exceeds(namespace, more, candidate) if more > 0 else None

    def placed(self, rooms: Iterable[Room]) -> None:
        """Pods that are about to run on machines that are there."""
        if not self._limits:
            return
        for room in rooms:
            machine, offer = room.machine, room.offer
            if is_own(machine) or is_own(offer):
                continue
            if machine is not None:
                totals, gpus, price = _totals(machine, self._pools), machine.gpus, machine.price
            elif offer is not None and room.pool is not None:
                totals, gpus, price = gpu_resources(room.pool, offer.type.gpus), offer.type.gpus, offer.price
            else:
                continue
            for pod in room.pods:
                if (pod.key, room.name) not in self._counted:
                    self._charge(pod.namespace, _part(pod, totals), gpus, _micro(price))

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
        for machine in (*snapshot.machines, *snapshot.surplus):
            if machine.phase is Phase.TOMBSTONE or machine.gone_at or is_own(machine):
                continue
            totals = _totals(machine, self._pools)
            promised = [waiting[key] for key in machine.pods if key in waiting]
            rest = _ALL
            for pod in [*bound.get(machine.name, ()), *promised]:
                share = min(rest, _part(pod, totals))
                rest -= share
                counted.add((pod.key, machine.name))
                self._charge(pod.namespace, share, machine.gpus, _micro(machine.price))
            if machine.pods:
                opener = machine.pods[0].split("/", 1)[0]
                self._charge(opener, rest, machine.gpus, _micro(machine.price))
        self._counted = frozenset(counted)

    def _charge(self, namespace: str, share: int, gpus: int, price: int) -> None:
        if namespace in self._limits and share:
            self._gpus[namespace] = self._gpus.get(namespace, 0) + share * gpus
            self._price[namespace] = self._price.get(namespace, 0) + share * price

    def _shares(self, candidate: Candidate, inside: Sequence[Ask]) -> dict[str, int]:
        totals = self._totals.get(id(candidate))
        if totals is None:
            totals = self._totals[id(candidate)] = gpu_resources(candidate.pool, candidate.gpus)
        shares: dict[str, int] = {}
        rest = _ALL
        for ask in inside:
            share = min(rest, _part(ask.pod, totals))
            rest -= share
            namespace = ask.pod.namespace
            shares[namespace] = shares.get(namespace, 0) + share
        opener = inside[0].pod.namespace
        shares[opener] += rest
        return shares

    def _exceeds(self, namespace: str, share: int, candidate: Candidate) -> Explanation | None:
        if namespace not in self._most:
            return None
        most_gpus, most_price = self._most[namespace]
        gpus, held = share * candidate.gpus, self._gpus.get(namespace, 0)
        name = candidate.offer.type.name
        if most_gpus is not None and gpus and held + gpus > most_gpus:
            return Explanation(
                Reason.LIMIT_NAMESPACE,
                f"namespaces.{namespace}.gpus is {most_gpus // _ALL}, {_number(held)} are charged to it, and {name} "
                f"would add {_number(gpus)}: raise it to at least {-(-(held + gpus) // _ALL)}",
            )
        if most_price is None:
            return None
        cost, paid = share * _micro(candidate.price), self._price.get(namespace, 0)
        if cost and paid + cost > most_price:
            return Explanation(
                Reason.LIMIT_NAMESPACE,
                f"namespaces.{namespace}.price_per_hour is {in_words(_decimal(most_price))}, "
                f"{in_words(_decimal(paid))} is charged to it, and {name} would add {in_words(_decimal(cost))}: "
                f"raise it to at least {at_least(_decimal(paid + cost))}",
            )
        return None


def _totals(machine: Machine, pools: Mapping[str, Pool]) -> Resources:
    pool = pools.get(machine.pool) or Pool(name=machine.pool, max=0)
    return gpu_resources(pool, machine.gpus)


def share_of(pod: Pod, totals: Resources) -> Fraction:
    """Of a machine: by the accelerator that the pod takes the largest part of."""
    return Fraction(_part(pod, totals), _ALL)


def _part(pod: Pod, totals: Resources) -> int:
    """The same, rounded up where it is no whole number of parts."""
    most = 0
    for name, units in pod.shape.requests.items():
        if there := totals.get(name, 0):
            most = max(most, -(-units * _ALL // there))
    return min(_ALL, most)


@lru_cache(maxsize=4096)
def _micro(price: Decimal) -> int:
    return int((price * _MICRO).to_integral_value(ROUND_CEILING))


def _number(parts: int) -> str:
    return str(parts // _ALL) if not parts % _ALL else f"{parts / _ALL:.2f}"


def _decimal(parts: int) -> Decimal:
    return Decimal(parts) / (_ALL * _MICRO)
