"""Snapshots in which every feature meets the others; and their plans as one line, for other programs to compare."""

from __future__ import annotations

import random
import sys
from decimal import Decimal
from hashlib import sha256
from typing import Any

import msgspec

from controller.domain.kube import (
    DaemonSet,
    HostPort,
    Namespace,
    NodeTerm,
    Pod,
    PodShape,
    PodTerm,
    PodVolume,
    PreferredTerm,
    Requirement,
    Selector,
    Spread,
    StorageClass,
    Taint,
    Toleration,
    Volume,
    VolumeClaim,
)
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Refusal, Snapshot
from controller.domain.policy import Headroom, Limits, NamespaceLimit
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import (
    A1,
    A2,
    A4,
    A8,
    GIB,
    NOW,
    kind,
    machine,
    node,
    offers,
    pod,
    policy,
    pool,
    world,
)

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = ("FIN-01", "FIN-02", "FIN-03")
APPS = ("web", "db", "train")
CPU = kind("CPU.8V.32G", 0, 8, 32, "0.08", "")
LARGER = kind("CPU.32V.128G", 0, 32, 128, "0.33", "")


def rules(draw: random.Random) -> dict[str, Any]:
    """What a pod asks of its node and of other pods: one thing, or nothing."""
    who = Selector(labels={"app": draw.choice(APPS)})
    match draw.randrange(10):
        case 0:
            return {
                "spreads": (
                    Spread(topology_key=draw.choice((ZONE, HOST)), selector=who, hard=draw.random() < 0.7),
                )
            }
        case 1:
            return {"anti_affinity": (PodTerm(topology_key=draw.choice((ZONE, HOST)), selector=who),)}
        case 2:
            return {"affinity": (PodTerm(topology_key=ZONE, selector=who),)}
        case 3:
            return {"host_ports": (HostPort(draw.choice((80, 443))),)}
        case 4:
            return {"volumes": (PodVolume(claim=draw.choice(("here", "later", "lost", "none"))),)}
        case 5:
            term = NodeTerm((Requirement(ZONE, draw.choice(("In", "NotIn")), (draw.choice(ZONES),)),))
            return {"required_terms": (term, NodeTerm((Requirement("gpu-autoscaler/market", "Exists"),)))}
        case 6:
            term = NodeTerm((Requirement(ZONE, "In", (draw.choice(ZONES),)),))
            return {"preferred_terms": (PreferredTerm(weight=draw.randint(1, 100), term=term),)}
        case 7:
            name, size = draw.choice((("one", "3"), ("two", "2")))
            return {"annotations": {"gpu-autoscaler/gang": name, "gpu-autoscaler/gang-size": size}}
        case _:
            return {}


def waiting(draw: random.Random, number: int) -> Pod:
    slots = draw.random() < 0.3
    return pod(
        f"w{number}",
        0 if slots else draw.choice((1, 1, 2, 4)),
        namespace=draw.choice(("default", "team")),
        labels={"app": draw.choice(APPS)},
        requests={"cpu": draw.choice((500, 4000, 9000)), "memory": draw.randint(1, 28) * GIB}
        | ({"example.com/slot": 1} if slots else {}),
        tolerations=draw.choice(((), (Toleration("nvidia.com/gpu", "Exists"),), (Toleration("", "Exists"),))),
        priority=draw.choice((0, 0, 10)),
        created=NOW - draw.choice((5, 500)),
        **rules(draw),
    )


def mixed(seed: int, pods: int = 14, **more: Any) -> Snapshot:
    draw = random.Random(seed)
    asking = tuple(waiting(draw, n) for n in range(pods))
    there = [machine(f"home-a-{letter * 10}", of, phase, pool="a", location=draw.choice(ZONES), ready_at=NOW - 900)
             for letter, of, phase in (("a", A1, Phase.READY), ("b", A2, Phase.BOOTING), ("c", A4, Phase.DRAINING))]  # fmt: skip
    nodes = tuple(
        node(m.name, m.gpus, labels={HOST: m.name, ZONE: m.location, "gpu-autoscaler/pool": "a"})
        for m in there
        if m.phase is not Phase.BOOTING
    )
    running = tuple(
        pod(f"b{n}", 1, node=there[0].name, labels={"app": draw.choice(APPS)}, **rules(draw))
        for n in range(2)
    )
    sold = tuple(
        msgspec.structs.replace(offer, available=draw.random() < 0.85)
        for offer in offers(A1, A2, A4, A8, CPU, LARGER, locations=ZONES, markets=("on-demand", "spot"))
    )
    values: dict[str, Any] = {
        "policy": policy(
            pool("a", market="prefer_spot", locations=("FIN-02", "FIN-01"), taints=draw.choice(((), (Taint("nvidia.com/gpu", "present"),)))),
            pool("b", min=1),
            pool("cpu", instance_types=(CPU.name, LARGER.name), min_gpu_memory_gb=0, resources={"example.com/slot": 8}),
            strategy=("smallest", "cheapest", "priority")[seed % 3],
            limits=Limits(
                machines=draw.choice((None, 9)),
                gpus=draw.choice((None, 14)),
                price_per_hour=draw.choice((None, Decimal(14))),
                price_per_month=draw.choice((None, Decimal(30))),
                launches_per_minute=draw.choice((6, 30)),
            ),
            namespaces={"team": NamespaceLimit(gpus=5)},
            headroom=(Headroom(pool="b", gpus=1),),
            spread_locations=draw.random() < 0.3,
        ),
        "pods": asking + running,
        "nodes": (*nodes, node("foreign", 1)),
        "machines": tuple(there),
        "offers": sold,
        "refusals": (Refusal(offer=sold[0].key, reason=Reason.NO_CAPACITY, until=NOW + 60),),
        "daemonsets": (DaemonSet(namespace="kube-system", name="net", uid="d", shape=PodShape(requests={"cpu": 100}, tolerations=(Toleration("", "Exists"),))),),
        "namespaces": (Namespace(name="default"), Namespace(name="team", labels={"team": "a"})),
        "volume_claims": (
            VolumeClaim(namespace="default", name="here", phase="Bound", volume="pv"),
            VolumeClaim(namespace="default", name="later", storage_class="local"),
            VolumeClaim(namespace="default", name="lost", phase="Lost"),
        ),
        "volumes": (Volume(name="pv", terms=(NodeTerm((Requirement(ZONE, "In", ("FIN-02",)),)),)),),
        "storage_classes": (StorageClass(name="local", provisioner="x", waits_for_consumer=True),),
    }  # fmt: skip
    return world(**(values | more))


def bought(snapshot: Snapshot, offer: Any, pool_name: str, pods: tuple[str, ...], number: int) -> Machine:
    return Machine(
        intent=f"new{number}",
        name=f"home-{pool_name}-new{number}",
        pool=pool_name,
        instance_type=offer.type.name,
        location=offer.location,
        market=offer.market,
        phase=Phase.INTENDED,
        price=offer.price,
        gpus=offer.type.gpus,
        vcpus=offer.type.vcpus,
        memory_gib=offer.type.memory_gib,
        model=offer.type.model,
        pods=pods,
        intended_at=snapshot.now,
    )


def fingerprints(seeds: range) -> str:
    return " ".join(sha256(repr(plan(mixed(seed))).encode()).hexdigest()[:12] for seed in seeds)


if __name__ == "__main__":
    print(fingerprints(range(int(sys.argv[1]))))
