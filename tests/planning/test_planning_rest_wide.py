"""The plan at rest against the long way, in worlds that use every feature at once; a seed names a world."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

from msgspec.structs import replace

from controller.domain import names
from controller.domain.kube import (
    DaemonSet,
    DisruptionBudget,
    HostPort,
    Job,
    Node,
    Pod,
    PodDeviceClaim,
    PodGroup,
    PodShape,
    PodTerm,
    PodVolume,
    Selector,
    Spread,
    Taint,
    Toleration,
)
from controller.domain.machine import Machine, Phase
from controller.domain.making import made_with
from controller.domain.plan import InVain, Refusal, Snapshot
from controller.domain.policy import Billing, Headroom, Limits, NamespaceLimit, Policy, Pool
from controller.domain.prices import PriceRule
from controller.domain.reason import Reason
from controller.domain.windows import Window
from controller.planning.planner import plan, the_long_way
from controller.planning.rest import nobody_waits
from tests.planning.test_planning_laws import text
from tests.planning.worlds import A100S, GIB, IDLE_TAINT, NOW, machine, node, offers, pod, policy, pool, world

ZONES = ("FIN-01", "FIN-02")
OWNERS = ("ReplicaSet", "ReplicaSet", "Job", "DaemonSet", "", "StatefulSet")
LABELS: tuple[dict[str, str], ...] = (
    {"app": "x"}, {"app": "y"}, {"pod-group.scheduling.sigs.k8s.io/name": "g"}, {names.JOBSET_NAME: "js"},
)  # fmt: skip
NOTES: tuple[dict[str, str], ...] = (
    {names.POD_GANG: "g", names.POD_GANG_SIZE: "3"}, {names.DO_NOT_DISRUPT: "true"}, {names.DO_NOT_DISRUPT: "1h"},
    {names.CA_SAFE_TO_EVICT: "true"}, {names.CA_SAFE_TO_EVICT: "false"}, {names.KAI_FRACTION: "0.5"},
    {names.POD_MIN_AGE: "1h"}, {names.POD_IGNORE: "true"}, {names.KAI_GROUP: "k"},
)  # fmt: skip
IDLE = (
    "2027-01-15T07:00:00Z",
    "2027-01-15T07:50:00Z",
    "2027-01-15T07:59:00Z",
    "2099-01-01T00:00:00Z",
    "soon",
)
RULES: tuple[dict[str, Any], ...] = (
    {"node_selector": {"topology.kubernetes.io/zone": "FIN-01"}}, {"host_ports": (HostPort(80),)},
    {"anti_affinity": (PodTerm(topology_key="kubernetes.io/hostname", selector=Selector({"app": "x"})),)},
    {"affinity": (PodTerm(topology_key="topology.kubernetes.io/zone", selector=Selector({"app": "y"})),)},
    {"spreads": (Spread(topology_key="topology.kubernetes.io/zone", selector=Selector({"app": "x"})),)},
    {"tolerations": (Toleration("", "Exists"),)}, {"volumes": (PodVolume(claim="data"),)}, {"scheduler": "other"},
    {"priority": -20}, {"priority": 100}, {"mirror": True}, {"device_claims": (PodDeviceClaim(name="g", claim="c"),)},
)  # fmt: skip


def a_pool(r: Random, name: str) -> Pool:
    return pool(
        name,
        min=r.choice((0, 0, 0, 1, 2)),
        market=r.choice(("on_demand_only", "spot_only", "prefer_spot")),
        locations=r.choice(((), (), ("FIN-01",))),
        max_gpus=r.choice((0, 0, 2)),
        instance_types=r.choice(((), (), ("1A100.22V", "2A100.44V"))),
        expire_after=r.choice((None, 500.0, 900.0)),
        pause=r.choice(("", "", "", "scale-up", "scale-down", "all")),
        resources=r.choice(({}, {}, {"nvidia.com/mig-1g.10gb": 7}, {"example.com/fpga": 1})),
        resource_claims=r.choice(("never", "never", "always")),
        disk_gb=r.choice((100, 200)),
    )


def a_policy(r: Random, pools: tuple[Pool, ...]) -> Policy:
    def windows() -> tuple[Window, ...]:
        days = tuple(sorted(r.sample(range(7), r.randint(1, 7))))
        begin, end = r.choice((0, 300, 479, 480, 481)), r.choice((0, 480, 485, 1000, 1440))
        one = Window(days=days, begin=begin, end=end, zone=r.choice(("UTC", "Europe/Helsinki")))
        return r.choice(((), (), (one,)))

    return policy(
        *pools,
        limits=Limits(
            machines=r.choice((None, 2)),
            price_per_month=r.choice((None, Decimal(1), Decimal(10000))),
            cluster_wide=r.random() < 0.3,
        ),
        strategy=r.choice(("smallest", "cheapest", "priority")),
        disruption_budget=r.choice(("20%", "100%", "1", "0", "2")),
        disruption_budgets=r.choice(({}, {"idle": "1"}, {"drifted": "0", "expired": "50%"})),
        windows=windows(),
        not_during=windows(),
        pause=r.choice(("", "", "", "", "", "", "scale-up", "scale-down", "all")),
        cooldown=r.choice((0.0, 60.0, 600.0)),
        min_age=r.choice((0.0, 0.0, 0.0, 300.0, 3000.0)),
        order=r.choice(("largest", "dearest")),
        billing=Billing(
            increment=3600, refund_unused=r.random() < 0.6, drain_idle=r.random() < 0.3
        ),
        fractions=r.choice(("", "", "kai")),
        gangs_in_one_location=r.random() < 0.2,
        prices=r.choice(({}, {"*": PriceRule(discount=Decimal("0.3"))})),
        namespaces=r.choice(({}, {"default": NamespaceLimit(gpus=1)})),
        headroom=(Headroom(pool="a", gpus=0),) if r.random() < 0.03 else (),
    )  # fmt: skip


def a_machine(r: Random, number: int, pools: tuple[Pool, ...]) -> tuple[Machine, Node | None]:
    kind, phase = r.choice(A100S), r.choice([*Phase] + [Phase.READY] * 9)
    name = f"home-a-{'abcdefgh'[number] * 10}"
    reasons = (None, None, Reason.IDLE, Reason.GPU_LOST, Reason.SURPLUS, Reason.PDB)
    made = machine(
        name, kind, phase,
        pool=r.choice(("a", "a", "b", "gone")),
        location=r.choice(ZONES),
        market=r.choice(("spot", "on-demand")),
        pods=r.choice(((), ("default/w1",))),
        reason=r.choice(reasons) if phase.leaving else None,
        surplus=r.random() < 0.12,
        ready_at=NOW - r.choice((60, 700, 90000)) if phase is Phase.READY else 0.0,
        gpus_lost_at=r.choice((0.0, 0.0, NOW - 30, NOW - 5000)),
        intended_at=NOW - r.choice((100, 900, 5000, 0, -50)),
        gone_at=NOW - 5 if r.random() < 0.04 else 0.0,
        node_uid=r.choice(("", f"uid-{name}", f"uid-{name}", "other")),
        made_with=r.choice(({}, {}, made_with(pools[0]))),
    )  # fmt: skip
    if r.random() < 0.12:
        return made, None
    notes = {names.NODE_IDLE_SINCE: r.choice(IDLE)} if r.random() < 0.7 else {}
    if r.random() < 0.25:
        notes[r.choice((names.DO_NOT_DISRUPT, names.PAUSE))] = r.choice(
            ("true", "1h", "1m", "all", "scale-down")
        )
    if r.random() < 0.07:
        notes[names.CA_SCALE_DOWN_DISABLED] = "true"
    return made, node(
        name,
        r.choice((kind.gpus, kind.gpus, kind.gpus, 0)),
        cpu=kind.vcpus,
        ready=r.random() < 0.85,
        unschedulable=r.random() < 0.1,
        deleting=r.random() < 0.07,
        annotations=notes,
        taints=r.choice(((), (), (Taint("x/starting"),), (IDLE_TAINT,))),
        created=NOW - r.choice((30, 3600, 7200)),
    )


def a_pod(r: Random, name: str, **more: Any) -> Pod:
    owner = r.choice(OWNERS)
    details: dict[str, Any] = {
        "owner_kind": owner,
        "owner_uid": "uid-j" if owner == "Job" else "",
        "labels": r.choice(LABELS) if r.random() < 0.3 else {},
        "annotations": r.choice(NOTES) if r.random() < 0.35 else {},
        "deleting_at": r.choice((None, None, None, None, NOW + 20, NOW - 500, NOW + 900)),
        "created": NOW - r.choice((1, 5, 700, 5000)),
        "namespace": r.choice(("default", "default", "other", "kai-scale-adjust")),
        "requests": {"cpu": r.choice((0, 500, 8000, 30000)), "memory": r.randint(0, 100) * GIB},
    }
    for rule in r.sample(RULES, r.choice((0, 0, 1, 2))):
        details |= rule
    gpus = r.choice((0, 0, 0, 1, 2)) if "node" in more else 0
    return pod(name, gpus, **(details | more))


def a_world(seed: int) -> Snapshot:
    r = Random(seed)
    pools = (a_pool(r, "a"), a_pool(r, "b"))
    ours = [a_machine(r, number, pools) for number in range(r.randint(0, 6))]
    machines = [made for made, _ in ours]
    nodes = [there for _, there in ours if there is not None]
    nodes += [
        node(f"foreign-{n}", r.choice((0, 0, 1, 4)), cpu=r.choice((2, 64))) for n in range(r.randint(0, 3))
    ]
    places = [*(each.name for each in (*nodes, *machines)), "nowhere"]
    phases = ("Running", "Running", "Running", "Pending", "Succeeded", "Failed")
    pods = [
        a_pod(r, f"b{r.randint(0, 9)}", uid=f"u{n}", node=r.choice(places), phase=r.choice(phases))
        for n in range(r.randint(0, 7))
    ]
    pods += [
        a_pod(
            r,
            f"w{n}",
            waiting=r.random() < 0.7,
            gated=r.random() < 0.2,
            nominated=r.choice(("", "", "foreign-0")),
        )
        for n in range(r.randint(0, 4))
    ]
    sold = offers(*r.sample(A100S, r.randint(0, 4)), locations=ZONES, markets=("on-demand", "spot"))
    sold = tuple(replace(offer, available=r.random() < 0.8) for offer in sold)
    refusals = tuple(
        Refusal(offer=offer.key, reason=Reason.NO_CAPACITY, until=NOW + r.choice((-5, 0, 100)))
        for offer in sold
        if r.random() < 0.1
    )
    selectors = (Selector({"app": "x"}), Selector(), None)
    guards = tuple(
        DisruptionBudget(namespace="default", name=f"p{n}", uid="u", selector=r.choice(selectors), allowed=r.choice((0, 1)))
        for n in range(r.choice((0, 0, 1, 2)))
    )  # fmt: skip
    daemon = DaemonSet(namespace="k", name="net", uid="ds", shape=PodShape(requests={"cpu": 250}))
    group = PodGroup(namespace="default", name="g", system="coscheduling", min_member=3)
    job = Job(namespace="default", name="j", uid="uid-j", parallelism=r.choice((1, 3, 9)))
    tried = InVain(tries=3, last=NOW - 10, reason=Reason.JOIN_DEADLINE)
    return world(
        policy=a_policy(r, pools),
        pods=tuple(r.sample(pods, len(pods))),
        nodes=tuple(r.sample(nodes, len(nodes))),
        machines=tuple(r.sample(machines, len(machines))),
        offers=sold,
        refusals=refusals,
        budgets=guards,
        jobs=r.choice(((), (job,))),
        daemonsets=r.choice(((), (daemon,))),
        pod_groups=r.choice(((), (group,))),
        spent_this_month=Decimal(r.choice((0, 5))),
        in_vain=r.choice(({}, {}, {"a": tried})),
        unreadable=r.choice(((), (), ("resourceclaims",))),
    )


def test_no_feature_makes_the_plan_at_rest_another_one() -> None:
    compared, told = 0, Counter[str]()
    for seed in range(400):
        found = a_world(seed)
        if not nobody_waits(found):
            continue
        compared += 1
        made = plan(found)
        assert made == the_long_way(found), seed
        assert text(made) == text(the_long_way(found)), seed
        told.update(why.code.value for why in made.machines.values())
        told.update(type(action).__name__ for action in made.actions)
    assert compared > 100
    assert set(told) >= {
        "MarkIdle", "Retire", "in_use", "min_age", "cooldown", "paused", "do_not_disrupt", "window", "budget", "pdb",
        "drifted", "expired", "min_size", "paid", "starting", "surplus", "gpu_lost", "unknown_outcome", "deleting",
    }  # fmt: skip
