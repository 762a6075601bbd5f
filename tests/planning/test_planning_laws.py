"""What holds in every world: money is never overspent, promises are kept, nothing depends on an order.

Worlds are random; what they must obey is checked by a small verifier that shares no code with the planner.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.domain.kube import (
    DaemonSet,
    Job,
    Node,
    NodeTerm,
    Pod,
    PodShape,
    Requirement,
    Taint,
    Toleration,
)
from controller.domain.machine import Machine, Phase
from controller.domain.plan import KeepAfterAll, Launch, Plan, Refusal, Retire, Snapshot
from controller.domain.policy import Limits, Pool
from controller.domain.reason import Reason
from controller.planning.planner import plan
from controller.report.plan_json import plan_json
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

ZONES = ("FIN-01", "FIN-02")
GPU_TAINT = Taint("nvidia.com/gpu", "present")
TOLERATES = Toleration("nvidia.com/gpu", "Exists")
TYPES = (
    A1,
    A2,
    A4,
    A8,
    kind("1H100.30V", 1, 30, 180, "2.29", "H100"),
    kind("8H100.240V", 8, 240, 1440, "18.3", "H100"),
)

laws = settings(max_examples=80, deadline=None, derandomize=True)


@st.composite
def pools(draw: st.DrawFn, name: str) -> Pool:
    least = draw(st.sampled_from([0, 0, 1, 2]))
    return pool(
        name,
        min=least,
        max=draw(st.integers(max(1, least), 5)),
        market=draw(st.sampled_from(["on_demand_only", "spot_only", "prefer_spot", "prefer_on_demand"])),
        locations=draw(st.sampled_from([(), ("FIN-01",), ("FIN-02", "FIN-01")])),
        max_gpus=draw(st.sampled_from([0, 0, 2, 4])),
        max_price_per_hour=draw(st.sampled_from([None, None, Decimal(3), Decimal(1)])),
        taints=draw(st.sampled_from([(), (GPU_TAINT,)])),
        pause=draw(st.sampled_from(["", "", "", "", "scale-up", "scale-down"])),
    )


@st.composite
def shapes(draw: st.DrawFn, gpus: int) -> dict[str, Any]:
    more: dict[str, Any] = {
        "requests": {
            "cpu": draw(st.sampled_from([0, 500, 8000, 30000])),
            "memory": draw(st.integers(0, 150)) * GIB,
        },
        "tolerations": draw(st.sampled_from([(), (TOLERATES,), (Toleration("", "Exists"),)])),
        "priority": draw(st.sampled_from([0, 0, 0, 100, -5, -20])),
    }
    selector = draw(st.sampled_from(["", "", "", "zone", "market", "pool"]))
    if selector == "zone":
        more["node_selector"] = {"topology.kubernetes.io/zone": draw(st.sampled_from([*ZONES, "ICE-01"]))}
    elif selector == "market":
        more["node_selector"] = {"gpu-autoscaler/market": draw(st.sampled_from(["spot", "on-demand"]))}
    elif selector == "pool":
        term = NodeTerm((Requirement("gpu-autoscaler/pool", draw(st.sampled_from(["In", "NotIn"])), ("a",)),))
        more["required_terms"] = (term,)
    return more | {"gpus": gpus}


def own_labels(m: Machine) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": m.name,
        "gpu-autoscaler/pool": m.pool,
        "gpu-autoscaler/market": m.market,
        "topology.kubernetes.io/zone": m.location,
        "gpu-autoscaler/location": m.location,
    }


@st.composite
def machines(draw: st.DrawFn, number: int, waiting: list[Pod]) -> tuple[Machine, Node | None]:
    of = draw(st.sampled_from(TYPES))
    phase = draw(st.sampled_from([*Phase, Phase.READY, Phase.READY, Phase.READY]))
    name = f"home-a-{'abcdefgh'[number] * 10}"
    promised = tuple(p.key for p in waiting if draw(st.integers(0, 4)) == 0)
    reason = draw(st.sampled_from([None, Reason.IDLE, Reason.GPU_LOST])) if phase.leaving else None
    made = machine(
        name,
        of,
        phase,
        pool=draw(st.sampled_from(["a", "a", "b", "gone"])),
        location=draw(st.sampled_from(ZONES)),
        market=draw(st.sampled_from(["spot", "on-demand"])),
        pods=promised,
        reason=reason,
        surplus=draw(st.integers(0, 9)) == 0,
        ready_at=NOW - draw(st.sampled_from([60, 700, 90000])) if phase is Phase.READY else 0.0,
        gpus_lost_at=draw(st.sampled_from([0.0, 0.0, NOW - 30, NOW - 5000])),
    )
    if (
        phase in (Phase.INTENDED, Phase.ORDERED, Phase.BOOTING, Phase.TOMBSTONE)
        or draw(st.integers(0, 9)) == 0
    ):
        return made, None
    idle = draw(
        st.sampled_from(
            [
                "",
                "2027-01-15T07:00:00Z",
                "2027-01-15T07:59:00Z",
                "2099-01-01T00:00:00Z",
                "soon",
                "9999-12-31T23:59:59Z",
            ]
        )
    )
    notes = {"gpu-autoscaler/idle-since": idle} if idle else {}
    notes |= draw(
        st.sampled_from(
            [
                {},
                {},
                {},
                {"gpu-autoscaler/do-not-disrupt": "true"},
                {"gpu-autoscaler/pause": "all"},
                {"gpu-autoscaler/do-not-disrupt": "1h"},
            ]
        )
    )
    here = node(
        name,
        draw(st.sampled_from([of.gpus, of.gpus, of.gpus, 0])),
        cpu=of.vcpus,
        memory=of.memory_gib - 8,
        labels=own_labels(made),
        ready=draw(st.integers(0, 5)) > 0,
        unschedulable=draw(st.integers(0, 9)) == 0,
        annotations=notes,
        taints=draw(st.sampled_from([(), (), (GPU_TAINT,), (Taint("x/starting"),)])),
    )
    return made, here


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    waiting = [
        pod(
            f"w{n}",
            **draw(shapes(draw(st.sampled_from([0, 1, 1, 1, 2, 3, 8, 16])))),
            waiting=draw(st.integers(0, 7)) > 0,
            created=NOW - draw(st.sampled_from([5.0, 5000.0])),
            nominated=draw(st.sampled_from([""] * 8 + ["home-a-aaaaaaaaaa"])),
        )
        for n in range(draw(st.integers(0, 9)))
    ]
    ours = [draw(machines(n, waiting)) for n in range(draw(st.integers(0, 5)))]
    nodes = [n for _, n in ours if n is not None]
    nodes += [
        node(
            f"foreign-{n}", draw(st.sampled_from([0, 1, 4])), taints=draw(st.sampled_from([(), (GPU_TAINT,)]))
        )
        for n in range(draw(st.integers(0, 2)))
    ]
    bound = [
        pod(
            f"b{n}",
            draw(st.sampled_from([0, 1, 1, 2])),
            node=draw(st.sampled_from([x.name for x in nodes])),
            owner_kind=draw(st.sampled_from(["ReplicaSet", "Job", "DaemonSet", ""])),
            deleting_at=draw(st.sampled_from([None, None, None, NOW + 20, NOW - 500, NOW + 900])),
            phase=draw(st.sampled_from(["Running", "Running", "Succeeded"])),
        )
        for n in range(draw(st.integers(0, 4)) if nodes else 0)
    ]
    sold = tuple(
        msgspec.structs.replace(offer, available=draw(st.integers(0, 6)) > 0)
        for offer in offers(
            *draw(st.lists(st.sampled_from(TYPES), unique=True, max_size=6)),
            locations=ZONES,
            markets=("on-demand", "spot"),
        )
    )
    refused = tuple(
        Refusal(offer=o.key, reason=Reason.NO_CAPACITY, until=NOW + draw(st.sampled_from([-5, 100])))
        for o in sold
        if draw(st.integers(0, 9)) == 0
    )
    limits = Limits(
        machines=draw(st.sampled_from([None, None, 2, 4])),
        gpus=draw(st.sampled_from([None, None, 3, 8])),
        price_per_hour=draw(st.sampled_from([None, None, Decimal(4), Decimal("12.5")])),
        launches_per_minute=draw(st.sampled_from([30, 30, 2])),
    )
    daemons = (
        DaemonSet(
            namespace="kube-system",
            name="net",
            uid="ds",
            shape=PodShape(requests={"cpu": 250}, tolerations=(Toleration("", "Exists"),)),
        ),
    )
    return world(
        policy=policy(
            draw(pools("a")),
            draw(pools("b")),
            limits=limits,
            strategy=draw(st.sampled_from(["smallest", "cheapest", "priority"])),
            disruption_budget=draw(st.sampled_from(["20%", "100%", "1", "0"])),
            pause=draw(st.sampled_from(["", "", "", "", "scale-up", "scale-down", "all"])),
            cooldown=draw(st.sampled_from([0.0, 600.0])),
        ),
        pods=tuple(waiting + bound),
        nodes=tuple(nodes),
        machines=tuple(m for m, _ in ours),
        offers=sold,
        refusals=refused,
        daemonsets=daemons if draw(st.booleans()) else (),
        jobs=(Job(namespace="default", name="j", uid="uid-j", parallelism=3),),
        launches=tuple(NOW - draw(st.sampled_from([5, 100])) for _ in range(draw(st.integers(0, 3)))),
    )


# -- a verifier that knows nothing of the planner -------------------------------------------------


def asks_gpus(p: Pod) -> int:
    return p.shape.requests.get("nvidia.com/gpu", 0)


def let_in(p: Pod, labels: dict[str, str], taints: tuple[Taint, ...]) -> bool:
    for key, value in p.shape.node_selector.items():
        if labels.get(key) != value:
            return False
    for term in p.shape.required_terms or ():
        for r in term.labels:
            inside = labels.get(r.key) in r.values
            if inside is not (r.operator == "In"):
                return False
    hard = [t for t in taints if t.effect in ("NoSchedule", "NoExecute")]
    return all(
        any(t.key in ("", taint.key) and t.operator == "Exists" for t in p.shape.tolerations)
        for taint in hard
    )


def holds_together(pods: list[Pod], cpu: int, memory: int, gpus: int) -> bool:
    asked: Counter[str] = Counter()
    for p in pods:
        asked.update({key: units for key, units in p.shape.requests.items() if units})
    return (
        asked["cpu"] <= cpu
        and asked["memory"] <= memory
        and asked["nvidia.com/gpu"] <= gpus
        and len(pods) <= 110
        and set(asked) <= {"cpu", "memory", "nvidia.com/gpu"}
    )


def launches(decided: Plan) -> list[Launch]:
    return [action for action in decided.actions if isinstance(action, Launch)]


def alive(snapshot: Snapshot) -> list[Machine]:
    return [m for m in snapshot.machines if m.phase is not Phase.TOMBSTONE and not m.gone_at]


def text(decided: Plan) -> str:
    return json.dumps(plan_json(decided, "usd")) + str(decided.wake_at)


def applied(snapshot: Snapshot, decided: Plan) -> Snapshot:
    bought = tuple(
        Machine(
            intent=f"new{n}",
            name=f"home-{a.pool}-new{n}",
            pool=a.pool,
            instance_type=a.offer.type.name,
            location=a.offer.location,
            market=a.offer.market,
            phase=Phase.INTENDED,
            price=a.offer.price,
            gpus=a.offer.type.gpus,
            vcpus=a.offer.type.vcpus,
            memory_gib=a.offer.type.memory_gib,
            model=a.offer.type.model,
            pods=a.pods,
            intended_at=snapshot.now,
        )
        for n, a in enumerate(launches(decided))
    )
    return msgspec.structs.replace(
        snapshot,
        machines=snapshot.machines + bought,
        launches=snapshot.launches + tuple(snapshot.now for _ in bought),
    )


# -- the laws -------------------------------------------------------------------------------------


@laws
@given(worlds())
def test_no_limit_is_ever_exceeded_by_a_purchase(snapshot: Snapshot) -> None:
    bought = launches(plan(snapshot))
    limits, have = snapshot.policy.limits, alive(snapshot)
    if not bought:
        return
    if limits.machines is not None:
        assert len(have) + len(bought) <= limits.machines
    if limits.gpus is not None:
        assert sum(m.gpus for m in have) + sum(a.offer.type.gpus for a in bought) <= limits.gpus
    if limits.price_per_hour is not None:
        assert sum(m.price for m in have) + sum(a.offer.price for a in bought) <= limits.price_per_hour
    lately = sum(1 for at in snapshot.launches if at > NOW - 60)
    assert lately + len(bought) <= limits.launches_per_minute
    for p in snapshot.policy.pools:
        new = [a for a in bought if a.pool == p.name]
        assert not new or sum(1 for m in have if m.pool == p.name) + len(new) <= p.max


@laws
@given(worlds())
def test_only_what_a_pool_allows_and_the_cloud_offers_is_bought(snapshot: Snapshot) -> None:
    refused = {r.offer for r in snapshot.refusals if r.until > NOW}
    for a in launches(plan(snapshot)):
        p = next(p for p in snapshot.policy.pools if p.name == a.pool)
        assert a.offer in snapshot.offers
        assert a.offer.available
        assert f"{a.offer.type.name}/{a.offer.location}/{a.offer.market}" not in refused
        assert not p.locations or a.offer.location in p.locations
        assert not p.max_gpus or a.offer.type.gpus <= p.max_gpus
        assert p.max_price_per_hour is None or a.offer.price <= p.max_price_per_hour
        assert a.offer.market in {"spot_only": ["spot"], "on_demand_only": ["on-demand"]}.get(
            p.market, ["spot", "on-demand"]
        )
        assert snapshot.policy.pause not in ("scale-up", "all")
        assert p.pause not in ("scale-up", "all")


@laws
@given(worlds())
def test_every_bought_machine_holds_the_pods_it_is_bought_for(snapshot: Snapshot) -> None:
    decided = plan(snapshot)
    waiting = {p.key: p for p in snapshot.pods if not p.node}
    served: list[str] = []
    for a in launches(decided):
        p = next(p for p in snapshot.policy.pools if p.name == a.pool)
        labels = {
            "gpu-autoscaler/pool": a.pool,
            "gpu-autoscaler/market": a.offer.market,
            "topology.kubernetes.io/zone": a.offer.location,
        }
        inside = [waiting[key] for key in a.pods]
        overhead = 250 * len(snapshot.daemonsets)
        kind = a.offer.type
        assert holds_together(inside, kind.vcpus * 1000 - overhead, kind.memory_gib * GIB, kind.gpus)
        assert all(let_in(x, labels, p.taints) for x in inside)
        assert all(decided.pods[key].code is Reason.LAUNCHING for key in a.pods)
        served += a.pods
    assert len(served) == len(set(served))
    assert set(served) == {key for key, why in decided.pods.items() if why.code is Reason.LAUNCHING}


@laws
@given(worlds())
def test_nothing_is_bought_for_pods_that_are_no_demand(snapshot: Snapshot) -> None:
    waiting = {p.key: p for p in snapshot.pods if not p.node}
    for a in launches(plan(snapshot)):
        for key in a.pods:
            p = waiting[key]
            assert p.unschedulable_since is not None
            assert not p.nominated
            assert p.shape.priority >= -10
            assert asks_gpus(p) > 0


@laws
@given(worlds())
def test_planning_again_after_the_purchases_buys_nothing_more(snapshot: Snapshot) -> None:
    decided = plan(snapshot)
    assert launches(plan(applied(snapshot, decided))) == []


@laws
@given(worlds(), st.integers(0, 1000))
def test_the_order_in_which_things_are_listed_decides_nothing(snapshot: Snapshot, seed: int) -> None:
    rng = random.Random(seed)

    def mixed(rows: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(rng.sample(rows, len(rows)))

    other = msgspec.structs.replace(
        snapshot,
        pods=mixed(snapshot.pods),
        nodes=mixed(snapshot.nodes),
        machines=mixed(snapshot.machines),
        offers=mixed(snapshot.offers),
        refusals=mixed(snapshot.refusals),
        launches=mixed(snapshot.launches),
    )
    first = text(plan(snapshot))
    assert text(plan(snapshot)) == first
    assert text(plan(other)) == first


def room_on_a_node(snapshot: Snapshot, p: Pod) -> bool:
    """A Ready node, not of a machine on its way or out, has room for this pod alone, now."""
    ours = {m.name: m for m in snapshot.machines}
    for n in snapshot.nodes:
        m = ours.get(n.name)
        if not n.ready or n.unschedulable or (m is not None and m.phase is not Phase.READY):
            continue
        there = [b for b in snapshot.pods if b.node == n.name and b.phase not in ("Succeeded", "Failed")]
        free = n.allocatable
        if holds_together([*there, p], free["cpu"], free["memory"], free.get("nvidia.com/gpu", 0)) and let_in(
            p, dict(n.labels), n.taints
        ):
            return True
    return False


@laws
@given(worlds())
def test_a_pod_that_a_free_node_holds_or_a_machine_is_promised_to_buys_nothing(snapshot: Snapshot) -> None:
    others = tuple(p for p in snapshot.pods if p.node)
    no_minimum = tuple(msgspec.structs.replace(p, min=0) for p in snapshot.policy.pools)
    for p in [p for p in snapshot.pods if not p.node]:
        alone = msgspec.structs.replace(
            snapshot, pods=(*others, p), policy=msgspec.structs.replace(snapshot.policy, pools=no_minimum)
        )
        coming = [
            m
            for m in snapshot.machines
            if m.phase in (Phase.INTENDED, Phase.ORDERED, Phase.BOOTING)
            and p.key in m.pods
            and p.created < m.intended_at
            and asks_gpus(p) <= m.gpus
        ]
        if coming or room_on_a_node(alone, p):
            assert launches(plan(alone)) == []


@laws
@given(worlds())
def test_only_idle_machines_of_ours_are_taken_away(snapshot: Snapshot) -> None:
    decided = plan(snapshot)
    gone = [a.machine for a in decided.actions if isinstance(a, Retire)]
    ours = {m.name: m for m in snapshot.machines}
    assert len(gone) == len(set(gone))
    for name in gone:
        m = ours[name]
        assert m.phase is Phase.READY
        inside = [
            p
            for p in snapshot.pods
            if p.node == name and p.phase not in ("Succeeded", "Failed") and p.shape.owner_kind != "DaemonSet"
        ]
        assert not any(asks_gpus(p) for p in inside)
        here = next(n for n in snapshot.nodes if n.name == name)
        assert (
            "gpu-autoscaler/do-not-disrupt" not in here.annotations
            or here.annotations["gpu-autoscaler/do-not-disrupt"] == "1h"
        )
        assert here.annotations.get("gpu-autoscaler/pause") != "all"
        assert snapshot.policy.pause not in ("scale-down", "all")
        waiting = [p for p in snapshot.pods if p.node == "" and p.nominated == name and asks_gpus(p)]
        assert not waiting
    for p in snapshot.policy.pools:
        ready = [m.name for m in snapshot.machines if m.pool == p.name and m.phase is Phase.READY]
        taken = set(ready) & set(gone)
        assert not taken or len(ready) - len(taken) >= p.min
    kept = {a.machine for a in decided.actions if isinstance(a, KeepAfterAll)}
    assert all(ours[name].phase is Phase.DRAINING for name in kept)
    assert not kept & set(gone)


@laws
@given(worlds())
def test_a_machine_that_a_waiting_pod_was_sent_to_is_not_taken_away(snapshot: Snapshot) -> None:
    decided = plan(snapshot)
    gone = {a.machine for a in decided.actions if isinstance(a, Retire)}
    for why in decided.pods.values():
        if why.code in (Reason.FITS_NOW, Reason.ON_THE_WAY, Reason.GPUS_FREED_SOON):
            assert not any(name in why.message for name in gone)


@laws
@given(worlds())
def test_every_waiting_gpu_pod_and_every_machine_is_explained(snapshot: Snapshot) -> None:
    decided = plan(snapshot)
    assert set(decided.machines) == {m.name for m in snapshot.machines}
    assert set(decided.pods) == {p.key for p in snapshot.pods if not p.node and asks_gpus(p)}
    for why in (*decided.pods.values(), *decided.machines.values()):
        assert isinstance(why.code, Reason)
        assert why.message
        assert "None" not in why.message
        assert "<" not in why.message
    assert decided.wake_at is None or decided.wake_at > NOW


@laws
@given(worlds())
def test_a_minimum_is_topped_up_and_never_beyond(snapshot: Snapshot) -> None:
    for p in snapshot.policy.pools:
        staying = [
            m
            for m in snapshot.machines
            if m.pool == p.name and (m.phase is Phase.READY or m.phase.on_the_way)
        ]
        extra = [
            a
            for a in launches(plan(snapshot))
            if a.pool == p.name and a.reason.endswith(f"keeps min: {p.min}")
        ]
        assert not extra or len(staying) + len(extra) <= p.min
