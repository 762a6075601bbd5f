"""Whether a pod can run at all under these settings, with what the cloud sells: what no controller could help is no violation.

Looked at from the settings and the catalogue alone. What the planner says of a pod is not asked: its mistakes would
excuse themselves. Where it cannot be told for certain (the last tenth of a machine's memory), a pod that waits counts as
one that cannot run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from controller.domain.cloudthings import InstanceType
from controller.domain.images import image_for
from controller.domain.machine import Machine
from controller.domain.names import gpu_slug
from controller.domain.policy import Policy, Pool, halts
from controller.domain.resources import GPU
from controller.planning.choice import allows_type
from controller.sandbox.simulator.needs import surely_usable
from controller.sandbox.simulator.owner import NAMESPACE
from controller.sandbox.simulator.workload import Work

SCHEDULER, PRIORITY = "default-scheduler", 0  # of all pods of a simulation
Sells = Callable[[str, str, str], bool]  # type, location, market


class _Way(NamedTuple):
    """One type that one pool might buy, for so much an hour at least."""

    pool: Pool
    kind: InstanceType
    price: Decimal


def gpus_shown(pool: Pool, gpus: int) -> int:
    """What a Node of this pool offers as GPUs: the machine's, or what the settings say that they are cut into."""
    if any(name.startswith("nvidia.com/") for name in pool.resources):
        return pool.resources.get(GPU, 0)
    return gpus


def why_never(
    work: Work,
    policy: Policy,
    kinds: Iterable[InstanceType],
    sells: Sells,
    *,
    there: Sequence[Machine] = (),
    spent: Decimal = Decimal(0),
) -> str:
    """In words that are the same for pods of one kind; "" where some machine could be bought for it.

    `there`: machines that stay, whatever happens. `spent`: in this month.
    """
    if NAMESPACE in policy.ignore_namespaces:
        return f"namespace {NAMESPACE} is ignored"
    if SCHEDULER not in policy.scheduler_names:
        return f"pods of {SCHEDULER} are not among planning.scheduler_names"
    if policy.priority_cutoff > PRIORITY:
        return f"planning.priority_cutoff is {policy.priority_cutoff}"
    pools = [pool for pool in policy.pools if not halts("scale-up", pool.pause, policy.pause)]
    if not pools:
        return "scale-up is paused"
    pools = [p for p in pools if p.max > sum(one.pool == p.name for one in there)]
    if not pools:
        return "no pool may have one machine more (max)"
    pools = [pool for pool in pools if all(taint.effect == "PreferNoSchedule" for taint in pool.taints)]
    if not pools:
        return "every pool has a taint, and the pods of a simulation tolerate none"
    ways = [
        _Way(pool, kind, price)
        for kind in kinds
        for pool in pools
        if allows_type(pool, kind) and image_for(pool.images, kind) and (price := _price(pool, kind, sells))
    ]
    models = " or ".join(work.models)
    for words, holds in (
        ("no type that a pool may buy is sold", lambda way: True),
        (f"no type that a pool may buy has {models}", lambda way: _of_model(work, way)),
        (
            f"no type that a pool may buy has {work.gpus} GPUs for one pod",
            lambda way: _gpus(way) >= work.gpus,
        ),
        ("no type that a pool may buy has the CPU and memory", lambda way: _fits(work, way)),
        ("max_price_per_hour of the pools is below every type that would do", _is_cheap),
        ("max_gpus_total of the pools", lambda way: _in_total(way, there)),
        ("limits", lambda way: _within_limits(way, policy, there, spent)),
        (f"the limits of namespace {NAMESPACE}", lambda way: _within_namespace(work, way, policy)),
    ):
        ways = [way for way in ways if holds(way)]
        if not ways:
            return words
    return ""


def _price(pool: Pool, kind: InstanceType, sells: Sells) -> Decimal:
    """The lowest where it is sold; 0: nowhere that the pool looks."""
    prices = [
        kind.price_in(market)
        for market in pool.markets()
        if any(sells(kind.name, place, market) for place in pool.locations or ("*",))
    ]
    return min((price for price in prices if price > 0), default=Decimal(0))


def _gpus(way: _Way) -> int:
    return gpus_shown(way.pool, way.kind.gpus)


def _of_model(work: Work, way: _Way) -> bool:
    return not work.models or gpu_slug(way.kind.model) in work.models


def _fits(work: Work, way: _Way) -> bool:
    cpu, memory = surely_usable(way.kind.vcpus, way.kind.memory_gib)
    return work.cpu_milli <= cpu and work.memory_mib <= memory


def _is_cheap(way: _Way) -> bool:
    most = way.pool.max_price_per_hour
    return most is None or way.price <= most


def _in_total(way: _Way, there: Sequence[Machine]) -> bool:
    most = way.pool.max_gpus_total
    used = sum(one.gpus for one in there if one.pool == way.pool.name)
    return most is None or used + way.kind.gpus <= most


def _within_limits(way: _Way, policy: Policy, there: Sequence[Machine], spent: Decimal) -> bool:
    limits, kind = policy.limits, way.kind
    pairs: tuple[tuple[int | Decimal | None, int | Decimal], ...] = (
        (limits.machines, len(there) + 1),
        (limits.gpus, sum(one.gpus for one in there) + kind.gpus),
        (limits.cores, sum(one.vcpus for one in there) + kind.vcpus),
        (limits.memory_gb, sum(one.memory_gib for one in there) + kind.memory_gib),
        (limits.price_per_hour, sum((one.price for one in there), Decimal(0)) + way.price),
        (limits.price_per_month, spent + way.price * policy.billing.reserve_hours),
    )
    return all(most is None or wanted <= most for most, wanted in pairs)


def _within_namespace(work: Work, way: _Way, policy: Policy) -> bool:
    limit = policy.namespaces.get(NAMESPACE)
    if limit is None:
        return True
    return (limit.gpus is None or way.kind.gpus <= limit.gpus) and (
        limit.price_per_hour is None or way.price <= limit.price_per_hour
    )
