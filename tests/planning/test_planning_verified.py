"""Random workloads with every rule about other pods: each place that a plan takes, the scheduler would give."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from controller.domain.kube import (
    HostPort,
    NodeTerm,
    Pod,
    PodTerm,
    Requirement,
    Selector,
    Spread,
    Taint,
    Toleration,
)
from controller.domain.plan import Launch, Snapshot
from controller.planning.planner import Placement, placements, plan
from tests.planning.verifier import Host, objections
from tests.planning.worlds import A1, A2, A4, A8, GIB, kind, node, offers, pod, policy, pool, world

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = ("FIN-01", "FIN-02", "FIN-03")
CPUS = tuple(kind(f"CPU.{n}V", 0, n, 4 * n, f"{n}.00" if n < 16 else "15.00") for n in (2, 4, 8, 16))
SLOT = "example.com/slot"


def selector(rng: random.Random) -> Selector:
    return Selector(labels={"app": rng.choice("abc")})


def shape(rng: random.Random, gpus: bool) -> dict[str, Any]:
    more: dict[str, Any] = {
        "labels": {"app": rng.choice("abc")},
        "requests": {"cpu": rng.choice([100, 500, 1000, 1500]), "memory": rng.choice([1, 2, 6]) * GIB},
        "gpus": rng.choice([1, 1, 1, 2, 4]) if gpus else 0,
    }
    if not gpus:
        more["requests"][SLOT] = 1
    key = rng.choice([ZONE, HOST])
    rule = rng.randrange(9)
    if rule == 0:
        more["spreads"] = (Spread(topology_key=key, selector=selector(rng), max_skew=rng.choice([1, 2])),)
    elif rule == 1:
        more["anti_affinity"] = (PodTerm(topology_key=key, selector=selector(rng)),)
    elif rule == 2:
        more["affinity"] = (PodTerm(topology_key=ZONE, selector=selector(rng)),)
    elif rule == 3:
        more["node_selector"] = {ZONE: rng.choice(ZONES)}
    elif rule == 4:
        more["host_ports"] = (HostPort(rng.choice([80, 81])),)
    elif rule == 5:
        more["spreads"] = (
            Spread(topology_key=ZONE, selector=selector(rng)),
            Spread(topology_key=HOST, selector=selector(rng), max_skew=2),
        )
    elif rule == 6:
        more["required_terms"] = (NodeTerm((Requirement(ZONE, "NotIn", (rng.choice(ZONES),)),)),)
    if rng.random() < 0.5:
        more["tolerations"] = (Toleration("gpu", "Exists"),)
    return more


def random_world(seed: int) -> Snapshot:
    rng = random.Random(seed)
    gpus = seed % 2 == 0
    waiting = [pod(f"w{n:02d}", **shape(rng, gpus)) for n in range(rng.randint(5, 40))]
    nodes = tuple(
        node(
            f"n{n}",
            rng.choice([0, 2, 8]),
            labels={HOST: f"n{n}", ZONE: rng.choice(ZONES)},
            taints=rng.choice([(), (Taint("gpu"),)]),
            cpu=8,
        )
        for n in range(rng.randint(0, 4))
    )
    running = []
    for n in range(rng.randint(0, 6) if nodes else 0):
        values = shape(rng, gpus) | {"gpus": 0}
        values["requests"].pop(SLOT, None)
        running.append(pod(f"r{n}", node=rng.choice(nodes).name, **values))
    pools = (pool("p", max=60, taints=rng.choice([(), (Taint("gpu"),)])),)
    if not gpus:
        pools = (
            pool(
                "p",
                max=60,
                instance_types=tuple(c.name for c in CPUS),
                min_gpu_memory_gb=0,
                resources={SLOT: 20},
            ),
        )
    return world(
        policy=policy(*pools, strategy=rng.choice(["smallest", "cheapest"])),
        pods=(*waiting, *running),
        nodes=nodes,
        offers=offers(*((A1, A2, A4, A8) if gpus else CPUS), locations=ZONES[: rng.randint(1, 3)]),
    )


def hosts(snapshot: Snapshot, made: tuple[Placement, ...]) -> tuple[list[Host], list[Host]]:
    """Those that are there, and those that the plan adds."""
    there = {
        n.name: Host(
            n.name, n.labels, n.taints, n.allocatable, [p for p in snapshot.pods if p.node == n.name]
        )
        for n in snapshot.nodes
    }
    new: dict[str, Host] = {}
    for one in made:
        if one.place not in there:
            labels = {**one.room.labels, HOST: one.place}
            new[one.place] = Host(one.place, labels, one.room.taints, one.room.free)
    return list(there.values()), list(new.values())


def verdict(snapshot: Snapshot) -> list[str]:
    made = placements(snapshot)
    pods = {p.key: p for p in snapshot.pods}
    there, new = hosts(snapshot, made)
    return objections(there, [(pods[one.pod], one.place) for one in made], new=new)


@pytest.mark.parametrize("seed", range(60))
def test_every_place_that_a_plan_takes_the_scheduler_would_give(seed: int) -> None:
    assert verdict(random_world(seed)) == []


@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_the_order_of_pods_offers_and_nodes_changes_nothing(seed: int) -> None:
    snapshot = random_world(seed)
    rng = random.Random(seed)

    def mixed(rows: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(rng.sample(rows, len(rows)))

    other = msgspec.structs.replace(
        snapshot, pods=mixed(snapshot.pods), offers=mixed(snapshot.offers), nodes=mixed(snapshot.nodes)
    )
    assert plan(other) == plan(snapshot)


def test_the_placements_are_those_of_the_plan() -> None:
    snapshot = random_world(4)
    bought = sorted(sorted(a.pods) for a in plan(snapshot).actions if isinstance(a, Launch))
    at: dict[str, list[str]] = {}
    pods: dict[str, Pod] = {p.key: p for p in snapshot.pods}
    for one in placements(snapshot):
        assert one.pod in pods
        if one.place.startswith("new machine"):
            at.setdefault(one.place, []).append(one.pod)
    assert sorted(sorted(keys) for keys in at.values()) == bought
