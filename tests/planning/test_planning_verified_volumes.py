"""Random pods with volumes of every kind: each place that a plan takes, the scheduler would give."""

from __future__ import annotations

import random
from typing import Any

import pytest

from controller.domain.kube import (
    CsiNode,
    NodeTerm,
    PodVolume,
    Requirement,
    StorageClass,
    Volume,
    VolumeClaim,
)
from controller.domain.machine import Machine
from controller.domain.plan import Snapshot
from controller.planning.planner import placements
from tests.planning.verifier import Host, objections
from tests.planning.verifier_volumes import NO_PROVISIONER, Volumes
from tests.planning.worlds import A1, A2, A4, GIB, machine, node, offers, pod, policy, pool, world

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = ("FIN-01", "FIN-02", "FIN-03")
DISKS, SHARES = "disks.example.com", "shares.example.com"
OF = {A1.name: A1, A2.name: A2, A4.name: A4}


def near(key: str, *values: str) -> tuple[NodeTerm, ...]:
    return (NodeTerm((Requirement(key, "In", values),)),)


def classes(rng: random.Random) -> tuple[StorageClass, ...]:
    return (
        StorageClass(name="anywhere", provisioner=SHARES, waits_for_consumer=True),
        StorageClass(
            name="zonal",
            provisioner=DISKS,
            waits_for_consumer=True,
            allowed=near(ZONE, *rng.sample(ZONES, rng.randint(1, 2))),
        ),
        StorageClass(name="local", provisioner=NO_PROVISIONER, waits_for_consumer=True),
        StorageClass(name="at-once", provisioner=DISKS),
    )


def random_world(seed: int) -> Snapshot:
    rng = random.Random(seed)
    ours = tuple(
        machine(f"home-a100-{'abcd'[n] * 10}", rng.choice([A1, A2, A4]), location=rng.choice(ZONES))
        for n in range(rng.randint(0, 3))
    )
    nodes = tuple(
        node(
            m.name,
            m.gpus,
            labels={HOST: m.name, ZONE: m.location, "topology.kubernetes.io/region": m.location},
            unschedulable=rng.random() < 0.5,
        )
        for m in ours
    )
    hosts = [n.name for n in nodes]

    def somewhere() -> tuple[NodeTerm, ...]:
        """A host that is gone is another story: the planner takes it that the volume moves."""
        on_host = hosts and rng.random() < 0.4
        return near(HOST, rng.choice(hosts)) if on_host else near(ZONE, rng.choice(ZONES))

    claims, volumes, pods = list[VolumeClaim](), list[Volume](), list[Any]()
    for n in range(rng.randint(3, 9)):
        volumes.append(
            Volume(
                name=f"free-{n}",
                storage_class=rng.choice(["local", "zonal"]),
                driver=rng.choice(["", DISKS]),
                phase="Available",
                capacity=rng.choice([5, 10]) * GIB,
                terms=rng.choice([None, somewhere(), somewhere()]),
            )
        )
    for n in range(rng.randint(4, 16)):
        name, kind = f"c{n}", rng.choice(["anywhere", "zonal", "local", "at-once", "bound", "bound"])
        modes = rng.choice([("ReadWriteMany",), ("ReadWriteOnce",), ("ReadWriteOncePod",)])
        if kind == "bound":
            zone = rng.choice(ZONES)
            volumes.append(
                Volume(
                    name=f"pv-{n}",
                    driver=rng.choice(["", DISKS, SHARES]),
                    claim=f"default/{name}",
                    phase="Bound",
                    terms=rng.choice([None, near(ZONE, zone), somewhere()]),
                    labels=rng.choice([{}, {}, {ZONE: zone}, {ZONE: "__".join(ZONES[:2])}]),
                )
            )
        claims.append(
            VolumeClaim(
                namespace="default",
                name=name,
                phase="Bound" if kind == "bound" else rng.choice(["Pending"] * 9 + ["Lost"]),
                volume=f"pv-{n}" if kind == "bound" else "",
                storage_class=None if kind == "bound" else kind,
                access_modes=() if kind in ("local", "zonal") else modes,
                requested=rng.choice([1, 8]) * GIB,
                deleting=rng.random() < 0.05,
            )
        )
    shared = [c.name for c in claims if c.volume]
    own = [c.name for c in claims if not c.volume]
    rng.shuffle(own)
    for n in range(rng.randint(3, 12)):
        run = nodes and rng.random() < 0.2
        mine = [own.pop() for _ in range(min(len(own), 0 if run else rng.choice([0, 1, 1, 2])))]
        if n and not run and rng.random() < 0.2:  # one that another pod has as well
            mine += [c.name for c in claims if not c.volume and c.name not in (*own, *mine)][:1]
        mine += rng.sample(shared, min(len(shared), rng.choice([0, 0, 1])))
        pods.append(
            pod(
                f"p{n:02d}",
                0 if run else rng.choice([1, 1, 2]),
                volumes=tuple(PodVolume(claim=name) for name in mine),
                **({"node": rng.choice(hosts)} if run else {}),
            )
        )
    return world(
        policy=policy(pool(max=30), strategy=rng.choice(["smallest", "cheapest"])),
        pods=tuple(pods),
        nodes=nodes,
        machines=ours,
        csi_nodes=tuple(
            CsiNode(name=n.name, limits={DISKS: rng.randint(1, 3), SHARES: rng.randint(1, 3)})
            for n in nodes
            if rng.random() < 0.7
        ),
        storage_classes=classes(rng),
        volume_claims=tuple(claims),
        volumes=tuple(volumes),
        offers=offers(A1, A2, A4, locations=ZONES[: rng.randint(1, 3)]),
    )


def known_limits(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """By type: the least that a machine of ours is known to take."""
    said = {n.name: n.limits for n in snapshot.csi_nodes}
    found: dict[str, dict[str, int]] = {}
    for one in snapshot.machines:
        for driver, most in said.get(one.name, {}).items():
            of = found.setdefault(one.instance_type, {})
            of[driver] = min(most, of.get(driver, most))
    return found


def verdict(snapshot: Snapshot) -> tuple[list[str], int]:
    there = {
        n.name: Host(
            n.name, n.labels, n.taints, n.allocatable, [p for p in snapshot.pods if p.node == n.name]
        )
        for n in snapshot.nodes
    }
    ours: dict[str, Machine] = {m.name: m for m in snapshot.machines}
    limits: dict[str, dict[str, int]] = {n.name: dict(n.limits) for n in snapshot.csi_nodes}
    known = known_limits(snapshot)
    for name in there.keys() - limits.keys():
        limits[name] = known.get(ours[name].instance_type, {})
    new: dict[str, Host] = {}
    made = placements(snapshot)
    for one in made:
        if one.place not in there:
            labels = {**one.room.labels, HOST: one.place}
            new[one.place] = Host(one.place, labels, one.room.taints, one.room.free)
            if one.room.offer is not None:
                limits[one.place] = known.get(one.room.offer.type.name, {})
    volumes = Volumes(
        {c.key: c for c in snapshot.volume_claims},
        {v.name: v for v in snapshot.volumes},
        {c.name: c for c in snapshot.storage_classes},
        limits,
    )
    pods = {p.key: p for p in snapshot.pods}
    bindings = [(pods[one.pod], one.place) for one in made]
    words = objections(list(there.values()), bindings, new=list(new.values()), volumes=volumes)
    return words, sum(bool(p.shape.volumes) for p, _ in bindings)


@pytest.mark.parametrize("seed", range(80))
def test_every_place_for_a_pod_with_volumes_the_scheduler_would_give(seed: int) -> None:
    words, _ = verdict(random_world(seed))
    assert words == []


def test_these_worlds_have_pods_with_volumes_that_find_a_place() -> None:
    assert sum(verdict(random_world(seed))[1] for seed in range(20)) > 20
