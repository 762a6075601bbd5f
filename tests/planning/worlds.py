"""Short words for planner tests: a pod, a node, a machine, an offer — all literals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from controller.domain.cloudthings import InstanceType, Offer
from controller.domain.kube import Node, Pod, PodShape, Taint
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Snapshot
from controller.domain.policy import Policy, Pool

GIB = 1 << 30
NOW = 1_800_000_000.0
IMAGES = ("ubuntu-24.04-cuda-12.8-open",)


def kind(
    name: str, gpus: int, vcpus: int, memory: int, price: str, model: str = "A100 80GB", **more: Any
) -> InstanceType:
    return InstanceType(
        name=name,
        model=model,
        gpus=gpus,
        vcpus=vcpus,
        memory_gib=memory,
        gpu_memory_gib=80 * gpus,
        price=Decimal(price),
        spot_price=more.pop("spot", Decimal(price) * Decimal("0.35")),
        images=more.pop("images", IMAGES),
        **more,
    )


A1 = kind("1A100.22V", 1, 22, 120, "1.29")
A2 = kind("2A100.44V", 2, 44, 240, "2.58")
A4 = kind("4A100.88V", 4, 88, 480, "5.16")
A8 = kind("8A100.176V", 8, 176, 960, "10.32")
A100S = (A1, A2, A4, A8)


def offers(
    *kinds: InstanceType,
    locations: tuple[str, ...] = ("FIN-01",),
    markets: tuple[str, ...] = ("on-demand",),
    available: bool = True,
) -> tuple[Offer, ...]:
    return tuple(
        Offer(type=k, location=location, market=market, available=available)
        for k in kinds
        for location in locations
        for market in markets
    )


def pool(name: str = "a100", **more: Any) -> Pool:
    values: dict[str, Any] = {"min_gpu_memory_gb": 1, "max": 10, "join": "k3s"} | more
    return Pool(name=name, **values)


def policy(*pools: Pool, **more: Any) -> Policy:
    return Policy(cluster_id="home", pools=pools or (pool(),), **more)


def pod(name: str = "train", gpus: int = 1, *, waiting: bool = True, **more: Any) -> Pod:
    shape: dict[str, Any] = {
        "requests": {"cpu": 1000, "memory": 4 * GIB} | ({"nvidia.com/gpu": gpus} if gpus else {})
    }
    shape["requests"] |= more.pop("requests", {})
    fields = set(Pod.__struct_fields__)
    shape |= {key: more.pop(key) for key in list(more) if key not in fields}
    values: dict[str, Any] = {
        "namespace": "default",
        "name": name,
        "uid": f"uid-{name}",
        "created": NOW - 5,
        "unschedulable_since": NOW - 4 if waiting and "node" not in more else None,
        "phase": "Running" if "node" in more else "Pending",
    }
    return Pod(shape=PodShape(**shape), **(values | more))


def node(name: str = "gpu-1", gpus: int = 1, *, cpu: int = 22, memory: int = 110, **more: Any) -> Node:
    resources = {"cpu": cpu * 1000, "memory": memory * GIB, "pods": 110, "ephemeral-storage": 80 * GIB}
    if gpus:
        resources["nvidia.com/gpu"] = gpus
    values: dict[str, Any] = {
        "uid": f"uid-{name}",
        "allocatable": resources,
        "capacity": resources,
        "ready": True,
        "created": NOW - 3600,
        "labels": {"kubernetes.io/hostname": name},
    }
    return Node(name=name, **(values | more))


def machine(
    name: str = "home-a100-aaaaaaaaaa", of: InstanceType = A1, phase: Phase = Phase.READY, **more: Any
) -> Machine:
    values: dict[str, Any] = {
        "intent": name.rsplit("-", 1)[-1],
        "pool": "a100",
        "location": "FIN-01",
        "market": "on-demand",
        "price": of.price,
        "gpus": of.gpus,
        "vcpus": of.vcpus,
        "memory_gib": of.memory_gib,
        "model": of.model,
        "instance_id": f"id-{name}",
        "intended_at": NOW - 900,
        "ordered_at": NOW - 900,
    }
    return Machine(name=name, instance_type=of.name, phase=phase, **(values | more))


def world(**more: Any) -> Snapshot:
    values: dict[str, Any] = {"now": NOW, "policy": policy(), "offers": offers(*A100S)}
    return Snapshot(**(values | more))


IDLE_TAINT = Taint(key="gpu-autoscaler/idle", effect="PreferNoSchedule")
