"""What nobody could have paid less than: a clairvoyant buyer with the same catalogue, boots and billing.

A machine with G GPUs costs its price for every second of its life, whatever runs on it, and at most G GPUs
are used at a time. So each pod costs at least its GPU seconds at the lowest price of a GPU among the machines
that could hold it at all, its share of the system disk included; and whoever runs anything pays for one boot.
Waiting costs nothing here and packing is perfect, so the bound is below what is possible, never above.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

import msgspec

from controller.cloud.verda.parsing import instance_type
from controller.domain.cloudthings import InstanceType
from controller.domain.names import gpu_slug
from controller.domain.policy import Policy, Pool
from controller.planning.choice import allows_type
from controller.sandbox.cloud.billing import HOURS_IN_MONTH
from controller.sandbox.cloud.catalogue import InstanceType as Row
from controller.sandbox.cloud.catalogue import load, shown_type
from controller.sandbox.simulator.possible import gpus_shown
from controller.sandbox.simulator.workload import Work

_GPU_S = Decimal(3600)


class Sold(NamedTuple):
    """A type that the settings allow, with the GPUs that its pool shows, and what an hour of it costs with its disk."""

    kind: InstanceType
    price: Decimal


class Best(NamedTuple):
    """The best that a course may have offered, its faults included."""

    kinds: Sequence[InstanceType]  # one for each price that a type may have had
    disk_gb_month: Decimal
    shortest_boot: float  # seconds that are paid before a pod can begin, at least
    slices: int  # GPUs that a fault may have cut those of any machine into


def sold(policy: Policy, kinds: Iterable[InstanceType], disk_gb_month: Decimal) -> list[Sold]:
    disk = disk_gb_month / HOURS_IN_MONTH
    return [
        Sold(msgspec.structs.replace(kind, gpus=gpus), _price(kind, pool) + disk * pool.disk_gb)
        for kind in kinds
        for pool in policy.pools
        if allows_type(pool, kind) and kind.gpus and kind.images and _price(kind, pool) > 0
        if (gpus := gpus_shown(pool, kind.gpus))
    ]


def everything_sold() -> list[InstanceType]:
    """The sandbox's catalogue, whatever a controller happens to know of it."""
    return shown_as_types(load().types)


def shown_as_types(types: Mapping[str, Row]) -> list[InstanceType]:
    """Rows of a catalogue as the adapter reads them."""
    return [
        instance_type(shown_type(kind, name=name, currency="usd", rate=Decimal(1)))
        for name, kind in types.items()
    ]


def lower_bound(
    works: Iterable[Work],
    policy: Policy,
    best: Best,
) -> Decimal:
    offers = [
        Sold(msgspec.structs.replace(kind, gpus=max(kind.gpus, best.slices)), price)
        for kind, price in sold(policy, best.kinds, best.disk_gb_month)
    ]
    total, cheapest = Decimal(0), None
    for work in works:
        fitting = [(price / kind.gpus, price) for kind, price in offers if holds(kind, work)]
        if not fitting:
            continue
        of_a_gpu, _ = min(fitting)
        total += Decimal(str(work.lasts)) * work.gpus * of_a_gpu / _GPU_S
        machine = min(price for _, price in fitting)
        cheapest = machine if cheapest is None else min(cheapest, machine)
    return total + (cheapest or Decimal(0)) * Decimal(str(best.shortest_boot)) / _GPU_S


def _price(kind: InstanceType, pool: Pool) -> Decimal:
    prices = [kind.price_in(market) for market in pool.markets()]
    return min((price for price in prices if price > 0), default=Decimal(0))


def holds(kind: InstanceType, work: Work) -> bool:
    if work.models and gpu_slug(kind.model) not in work.models:
        return False
    return (
        kind.gpus >= work.gpus
        and kind.vcpus * 1000 >= work.cpu_milli
        and kind.memory_gib * 1024 >= work.memory_mib
    )
