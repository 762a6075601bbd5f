"""The workload of Karpenter's own scheduling benchmark, retold in our nouns.

Types of i CPUs, 2i GiB and 10i pods in three zones; a fifth each of plain pods, pods spread over zones,
spread over hosts, drawn into one zone by their own kind, and kept off each other's hosts. What its types
keep for the kubelet reaches the planner as figures that real nodes have shown. Its pods ask for no GPU,
so the pool declares a resource of which each pod asks for one: that is what makes pods demand.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from controller.domain.cloudthings import ON_DEMAND, SPOT, InstanceType, Offer
from controller.domain.images import ANY_IMAGE
from controller.domain.kube import Namespace, PodTerm, Selector, Spread
from controller.domain.names import LABEL_HOSTNAME, LABEL_ZONE
from controller.domain.plan import Snapshot
from controller.domain.policy import PREFER_SPOT, Limits, Policy, Pool
from controller.sandbox.bench.planner.workload import NOW, SEED, UNBOUND, Workload, waiting_pods

TYPES = 400
SLOT = "sandbox/slot"
GIB, MIB = 2**30, 2**20
_ZONES = ("zone-1", "zone-2", "zone-3")
_SPOT_ZONES = _ZONES[:2]
_PRICE_PER_STEP = Decimal("0.1") + Decimal("0.1") * 2 * GIB / 10**9  # one CPU, and two GiB by the gigabyte
_KEPT_CPU, _KEPT_MEMORY = 100, 10 * MIB
_CPUS = (100, 250, 500, 1000, 1500)
_MEMORIES = tuple(size * MIB for size in (100, 256, 512, 1024, 2048, 4096))
_LETTERS = "abcdefg"


def workload(pods: int, types: int = TYPES, strategy: str = "cheapest") -> Workload:
    names = {step: f"type-{step}" for step in range(1, types + 1)}
    pool = Pool(
        name="bench",
        instance_types=tuple(names.values()),
        market=PREFER_SPOT,
        max=UNBOUND,
        resources={SLOT: UNBOUND},
        feature_discovery=False,
    )
    policy = Policy(
        cluster_id="bench", pools=(pool,), strategy=strategy, limits=Limits(launches_per_minute=UNBOUND)
    )
    base = Snapshot(
        now=NOW,
        policy=policy,
        namespaces=(Namespace(name="default"),),
        offers=tuple(offer for step, name in names.items() for offer in _offers(step, name)),
        observed={name: _allocatable(step) for step, name in names.items()},
    )
    return Workload(base, lambda: waiting_pods(_shapes(pods)))


def _offers(step: int, name: str) -> Iterator[Offer]:
    price = _PRICE_PER_STEP * step
    kind = InstanceType(
        name=name,
        model="",
        gpus=0,
        vcpus=step,
        memory_gib=2 * step,
        price=price,
        spot_price=price,
        images=(ANY_IMAGE,),
    )
    for market, zones in ((ON_DEMAND, _ZONES), (SPOT, _SPOT_ZONES)):
        for zone in zones:
            yield Offer(type=kind, location=zone, market=market)


def _allocatable(step: int) -> dict[str, int]:
    return {"cpu": step * 1000 - _KEPT_CPU, "memory": 2 * step * GIB - _KEPT_MEMORY, "pods": 10 * step}


def _shapes(pods: int) -> Iterator[dict[str, Any]]:
    draw = random.Random(SEED)
    fifth = pods // 5
    for number in range(pods):
        part = number // fifth if fifth else 5
        yield {
            **(_plain, _zone_spread, _host_spread, _zone_affine, _apart)[part if part < 5 else 0](draw),
            "requests": {"cpu": draw.choice(_CPUS), "memory": draw.choice(_MEMORIES), SLOT: 1},
        }


def _plain(draw: random.Random) -> dict[str, Any]:
    return {"labels": {"kind": draw.choice(_LETTERS)}}


def _zone_spread(draw: random.Random) -> dict[str, Any]:
    return _spread(draw, LABEL_ZONE)


def _host_spread(draw: random.Random) -> dict[str, Any]:
    return _spread(draw, LABEL_HOSTNAME)


def _spread(draw: random.Random, key: str) -> dict[str, Any]:
    """Over those of a kind that is often not its own."""
    own, counted = draw.choice(_LETTERS), draw.choice(_LETTERS)
    spread = Spread(topology_key=key, selector=Selector(labels={"kind": counted}))
    return {"labels": {"kind": own}, "spreads": (spread,)}


def _zone_affine(draw: random.Random) -> dict[str, Any]:
    labels = {"company": draw.choice(_LETTERS)}
    term = PodTerm(topology_key=LABEL_ZONE, selector=Selector(labels=labels))
    return {"labels": labels, "affinity": (term,)}


def _apart(_draw: random.Random) -> dict[str, Any]:
    labels = {"app": "alone"}
    term = PodTerm(topology_key=LABEL_HOSTNAME, selector=Selector(labels=labels))
    return {"labels": labels, "anti_affinity": (term,)}
