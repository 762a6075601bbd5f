"""GPU pods of one, two, four and eight, beside nodes that are almost full: what this product is for.

Types and prices are the sandbox cloud's. Each pod asks for 30 to 100 % of the CPU and memory that a
machine has for each of its GPUs, so hardly two are alike. Half of the nodes are machines of ours, half
are somebody else's; the daemons that GPU nodes really have run on all of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from controller.domain.cloudthings import InstanceType, Offer, arch_of
from controller.domain.images import ANY_IMAGE
from controller.domain.kube import DaemonSet, Namespace, Node, Pod, PodShape, Toleration
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Snapshot
from controller.domain.policy import PREFER_SPOT, Limits, Policy, Pool
from controller.domain.resources import GPU, Resources
from controller.planning import predict
from controller.sandbox.bench.planner.workload import NOW, SEED, UNBOUND, Workload, waiting_pods
from controller.sandbox.cloud import catalogue

OFFERS, NODES = 100, 1000
GIB, MIB = 2**30, 2**20
SIZES, OF_TEN = (1, 2, 4, 8), (6, 2, 1, 1)
FULL = 0.8
_POOL = Pool(name="bench", min_gpu_memory_gb=1, market=PREFER_SPOT, max=UNBOUND, join="k3s")
_DAEMONS = {
    "network": {"cpu": 100, "memory": 50 * MIB},
    "proxy": {"cpu": 100, "memory": 64 * MIB},
    "node-exporter": {"cpu": 50, "memory": 30 * MIB},
    "device-plugin": {"cpu": 50, "memory": 64 * MIB},
    "gpu-exporter": {"cpu": 100, "memory": 128 * MIB},
}


def workload(pods: int, offers: int = OFFERS, nodes: int = NODES, strategy: str = "smallest") -> Workload:
    draw = random.Random(SEED)
    sold = offered(offers)
    policy = policy_for(strategy)
    daemonsets = tuple(_daemonset(name, requests) for name, requests in _DAEMONS.items())
    kinds = _by_size({offer.type.name: offer.type for offer in sold}.values())
    shares = Shares(policy, kinds, daemonsets)
    there = [_node(number, draw, kinds, policy, sold) for number in range(nodes)]
    running = [pod for node, kind in there for pod in _running(node, kind, draw, shares, daemonsets)]
    base = Snapshot(
        now=NOW,
        policy=policy,
        pods=tuple(running),
        nodes=tuple(node for node, _ in there),
        daemonsets=daemonsets,
        namespaces=(Namespace(name="default"), Namespace(name="kube-system")),
        machines=tuple(_machine(node, kind) for node, kind in there if node.provider_id),
        offers=sold,
    )
    return Workload(base, lambda: waiting_pods(shares.ask(draw) for draw in [random.Random(SEED + 1)] * pods))


def on_offers(sold: tuple[Offer, ...], pods: int, draw: random.Random, strategy: str) -> Snapshot:
    """Pods that wait, these offers, and no nodes at all."""
    policy = policy_for(strategy)
    daemonsets = tuple(_daemonset(name, requests) for name, requests in _DAEMONS.items())
    shares = Shares(policy, _by_size({offer.type.name: offer.type for offer in sold}.values()), daemonsets)
    return Snapshot(
        now=NOW,
        policy=policy,
        pods=waiting_pods([shares.ask(draw) for _ in range(pods)]),
        daemonsets=daemonsets,
        namespaces=(Namespace(name="default"), Namespace(name="kube-system")),
        offers=sold,
    )


def policy_for(strategy: str) -> Policy:
    limits = Limits(launches_per_minute=UNBOUND)
    return Policy(cluster_id="bench", pools=(_POOL,), strategy=strategy, limits=limits)


@cache
def _catalogue() -> tuple[InstanceType, ...]:
    return tuple(
        InstanceType(
            name=kind.instance_type,
            model=kind.model,
            gpus=kind.gpus,
            vcpus=kind.vcpus,
            memory_gib=kind.hardware["memory"]["size_in_gigabytes"],
            gpu_memory_gib=kind.hardware["gpu_memory"]["size_in_gigabytes"],
            price=kind.price_per_hour,
            spot_price=kind.spot_price,
            images=(ANY_IMAGE,),
        )
        for kind in catalogue.load().types.values()
        if kind.gpus and arch_of(kind.model) == "amd64"
    )


def every_offer() -> Iterator[Offer]:
    """All types in one place and market, then in the next; places beyond the cloud's own are made up."""
    number = 0
    codes = catalogue.load().codes
    while True:
        location = codes[number] if number < len(codes) else f"MORE-{number:02d}"
        for market in catalogue.MARKETS:
            for kind in _catalogue():
                yield Offer(type=kind, location=location, market=market)
        number += 1


def offered(count: int) -> tuple[Offer, ...]:
    return tuple(offer for offer, _ in zip(every_offer(), range(count), strict=False))


def _by_size(kinds: Sequence[InstanceType] | Any) -> dict[int, list[InstanceType]]:
    found: dict[int, list[InstanceType]] = {}
    for kind in kinds:
        found.setdefault(kind.gpus, []).append(kind)
    return found


class Shares:
    """How much of a machine there is for each of its GPUs, once its daemons run; and pods that want some of it."""

    def __init__(
        self, policy: Policy, kinds: dict[int, list[InstanceType]], daemonsets: Sequence[DaemonSet]
    ) -> None:
        self._overhead = predict.daemon_overhead(daemonsets, "", {}, ())
        self._policy = policy
        self._large_enough = {
            size: [kind for of, some in sorted(kinds.items()) if of >= size for kind in some]
            for size in SIZES
        }
        self.sizes = [
            (size, weight) for size, weight in zip(SIZES, OF_TEN, strict=True) if self._large_enough[size]
        ]

    def ask(self, draw: random.Random) -> dict[str, Any]:
        (size,) = draw.choices([size for size, _ in self.sizes], [weight for _, weight in self.sizes])
        return self.of(draw.choice(self._large_enough[size]), size, draw)

    def of(self, kind: InstanceType, gpus: int, draw: random.Random) -> dict[str, Any]:
        there = predict.allocatable_of(self._policy, _POOL, kind)
        wanted = {}
        for name, step in (("cpu", 100), ("memory", 64 * MIB)):
            share = (there[name] - self._overhead.get(name, 0)) * gpus * draw.randint(30, 100)
            wanted[name] = share // (100 * kind.gpus) // step * step
        return {"requests": {**wanted, GPU: gpus}}


def _node(
    number: int,
    draw: random.Random,
    kinds: dict[int, list[InstanceType]],
    policy: Policy,
    sold: Sequence[Offer],
) -> tuple[Node, InstanceType]:
    ours = number % 2 == 0
    sizes = [(size, weight) for size, weight in zip(SIZES, OF_TEN, strict=True) if size in kinds]
    (size,) = draw.choices([size for size, _ in sizes], [weight for _, weight in sizes])
    kind = draw.choice(kinds[size])
    offer = draw.choice([offer for offer in sold if offer.type is kind])
    name = f"bench-bench-{number:010d}" if ours else f"metal-{number:04d}"
    there = predict.allocatable_of(policy, _POOL, kind)
    node = Node(
        name=name,
        uid=f"node-{number}",
        provider_id=f"verda://{name}" if ours else "",
        labels=predict.labels_of(_POOL, offer, name),
        capacity=there,
        allocatable=there,
        ready=True,
        ready_since=NOW - 3600,
        created=NOW - 3700,
    )
    return node, kind


def _machine(node: Node, kind: InstanceType) -> Machine:
    return Machine(
        intent=node.name.rpartition("-")[2],
        name=node.name,
        pool=_POOL.name,
        instance_type=kind.name,
        location=node.labels["topology.kubernetes.io/zone"],
        market=node.labels["gpu-autoscaler/market"],
        phase=Phase.READY,
        price=Decimal(kind.price),
        gpus=kind.gpus,
        vcpus=kind.vcpus,
        memory_gib=kind.memory_gib,
        model=kind.model,
        ready_at=NOW - 3600,
        node_uid=node.uid,
        instance_id=node.uid,
    )


def _running(
    node: Node,
    kind: InstanceType,
    draw: random.Random,
    shares: Shares,
    daemonsets: Sequence[DaemonSet],
) -> Iterator[Pod]:
    """The daemons, and pods on four of five GPUs, on average over all nodes."""
    for daemonset in daemonsets:
        yield _bound(node, daemonset.namespace, daemonset.name, daemonset.shape)
    taken = int(kind.gpus * FULL + draw.random())
    while taken > 0:
        gpus = draw.choice([size for size in SIZES if size <= taken])
        taken -= gpus
        owner = f"job-{node.name}-{taken}"
        shape = PodShape(
            **shares.of(kind, gpus, draw), owner_kind="ReplicaSet", owner_uid=owner, owner_name=owner
        )
        yield _bound(node, "default", f"running-{taken}", shape)


def _bound(node: Node, namespace: str, name: str, shape: PodShape) -> Pod:
    return Pod(
        namespace=namespace,
        name=f"{name}-{node.name}",
        uid=f"{name}-{node.name}",
        shape=shape,
        phase="Running",
        node=node.name,
        created=NOW - 3500,
    )


def _daemonset(name: str, requests: Resources) -> DaemonSet:
    shape = PodShape(
        requests=requests,
        owner_kind="DaemonSet",
        owner_uid=f"ds-{name}",
        owner_name=name,
        tolerations=(Toleration(operator="Exists"),),
    )
    return DaemonSet(namespace="kube-system", name=name, uid=f"ds-{name}", shape=shape)
