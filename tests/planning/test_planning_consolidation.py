"""Emptying half-empty machines: only where asked for, only what provably fits elsewhere, one at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.domain.cloudthings import InstanceType
from controller.domain.kube import (
    DisruptionBudget,
    HostPort,
    Node,
    Pod,
    PodDeviceClaim,
    PodTerm,
    PodVolume,
    Selector,
    Spread,
    Taint,
)
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Plan, Retire, Snapshot
from controller.domain.policy import Headroom
from controller.domain.reason import Reason
from controller.domain.windows import parse_window
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, A8, GIB, NOW, machine, node, pod, policy, pool, world

BIG, SMALL = "home-a100-bbbbbbbbbb", "home-a100-ssssssssss"
WEB: dict[str, Any] = {"owner_kind": "ReplicaSet", "created": NOW - 9000}


def moved(decided: Plan) -> list[Retire]:
    return [a for a in decided.actions if isinstance(a, Retire) and a.reason is Reason.CONSOLIDATION]


@dataclass
class Town:
    """An 8-GPU machine with one small pod, and a 2-GPU machine with one GPU free."""

    rules: dict[str, Any] = field(default_factory=dict)
    of_pool: dict[str, Any] = field(default_factory=dict)
    of_pod: dict[str, Any] = field(default_factory=dict)
    of_big: dict[str, Any] = field(default_factory=dict)
    of_small: dict[str, Any] = field(default_factory=dict)
    on_big: dict[str, Any] = field(default_factory=dict)  # the Node
    on_small: dict[str, Any] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    others: tuple[Node, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)

    def snapshot(self) -> Snapshot:
        rules = {"consolidate": "cheaper", "disruption_budget": "100%"} | self.rules
        return world(
            policy=policy(pool(**self.of_pool), **rules),
            machines=(machine(BIG, A8, **self.of_big), machine(SMALL, A2, **self.of_small)),
            nodes=(
                node(BIG, 8, cpu=176, memory=900, **self.on_big),
                node(SMALL, 2, cpu=44, **self.on_small),
                *self.others,
            ),
            pods=(
                pod("mover", **({"node": BIG} | WEB | self.of_pod)),
                pod("stayer", node=SMALL, owner_kind="Job", created=NOW - 9000),
                *self.pods,
            ),
            **self.more,
        )


def test_a_half_empty_machine_is_emptied_into_another_and_its_pods_are_named() -> None:
    decided = plan(Town().snapshot())
    (action,) = decided.actions
    assert isinstance(action, Retire)
    assert (action.machine, action.reason, action.moving) == (
        BIG,
        Reason.CONSOLIDATION,
        ("default/mover uid-mover",),
    )
    assert decided.machines[BIG].code is Reason.CONSOLIDATION
    assert "saves $10.32 an hour" in action.message or "10.32" in action.message
    assert decided.machines[SMALL].code is Reason.IN_USE


@pytest.mark.parametrize("idle", [A1, A2, A8])
def test_nothing_is_moved_to_an_idle_machine_which_goes_by_itself(idle: InstanceType) -> None:
    """It would be kept by that, and it may be the dearer one: work was evicted to pay four times as much."""
    since = datetime.fromtimestamp(NOW - 60, UTC).isoformat()
    for busy in (A2, A8):
        snapshot = world(
            policy=policy(consolidate="cheaper", disruption_budget="100%"),
            machines=(machine(BIG, busy), machine(SMALL, idle)),
            nodes=(
                node(BIG, busy.gpus, cpu=44),
                node(SMALL, idle.gpus, cpu=22, annotations={"gpu-autoscaler/idle-since": since}),
            ),
            pods=(pod("mover", node=BIG, **WEB),),
        )
        assert moved(plan(snapshot)) == []
        assert plan(snapshot).machines[SMALL].code is Reason.COOLDOWN
        used = replace(snapshot, pods=(*snapshot.pods, pod("other", gpus=0, node=SMALL, **WEB)))
        assert moved(plan(used)) == []


SHUN = PodTerm(topology_key="kubernetes.io/hostname", selector=Selector(labels={"app": "x"}))
EVERYONE = Selector()


def pdb(allowed: int) -> dict[str, Any]:
    return {
        "budgets": (
            DisruptionBudget(namespace="default", name="b", uid="b", selector=EVERYONE, allowed=allowed),
        )
    }


KEEPS = {
    "not asked for": Town(rules={"consolidate": "off"}),
    "saves too little": Town(rules={"consolidate_saving": Decimal("10.33")}),
    "a Job": Town(of_pod={"owner_kind": "Job"}),
    "a Job that says safe-to-evict": Town(
        of_pod={
            "owner_kind": "Job",
            "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
        }
    ),
    "no controller": Town(of_pod={"owner_kind": ""}),
    "an unknown controller": Town(of_pod={"owner_kind": "PyTorchJob"}),
    "do-not-disrupt": Town(of_pod={"annotations": {"gpu-autoscaler/do-not-disrupt": "true"}}),
    "do-not-disrupt of Karpenter": Town(of_pod={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}),
    "safe-to-evict=false": Town(
        of_pod={"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}
    ),
    "do-not-disrupt on the node": Town(on_big={"annotations": {"gpu-autoscaler/do-not-disrupt": "true"}}),
    "its Node is not Ready": Town(on_big={"ready": False}),
    "its Node is cordoned": Town(on_big={"unschedulable": True}),
    "paused on the node": Town(on_big={"annotations": {"gpu-autoscaler/pause": "scale-down"}}),
    "paused": Town(rules={"pause": "scale-down"}),
    "pool paused": Town(of_pool={"pause": "all"}),
    "a claim for devices": Town(of_pod={"device_claims": (PodDeviceClaim(name="g", claim="c"),)}),
    "a disruption budget": Town(more=pdb(0)),
    "a disruption budget below nothing": Town(more=pdb(-1)),
    "a disruption budget for one of two": Town(pods=(pod("second", node=BIG, **WEB),), more=pdb(1)),
    "a gang": Town(of_pod={"annotations": {"gpu-autoscaler/gang": "g", "gpu-autoscaler/gang-size": "2"}}),
    "a group of the scheduler": Town(of_pod={"workload": "g"}),
    "affinity": Town(of_pod={"affinity": (SHUN,)}),
    "anti-affinity": Town(of_pod={"anti_affinity": (SHUN,)}),
    "shunned by another": Town(
        of_pod={"labels": {"app": "x"}}, pods=(pod("shy", 0, node=SMALL, anti_affinity=(SHUN,)),)
    ),
    "spread": Town(of_pod={"spreads": (Spread(topology_key="topology.kubernetes.io/zone"),)}),
    "a volume": Town(of_pod={"volumes": (PodVolume(claim="data"),)}),
    "a port of the host": Town(of_pod={"host_ports": (HostPort(port=80),)}),
    "just started": Town(of_pod={"created": NOW - 599}),
    "still starting": Town(of_pod={"phase": "Pending"}),
    "terminating": Town(of_pod={"deleting_at": NOW + 5}),
    "one of its pods is a Job": Town(pods=(pod("job", node=BIG, owner_kind="Job", created=NOW - 9000),)),
    "a lone pod without GPUs": Town(pods=(pod("lone", 0, node=BIG, created=NOW - 9000),)),
    "fits only if the scheduler places its pods cleverly": Town(
        of_pod={"gpus": 2},
        pods=(pod("one", node=BIG, **WEB), pod("two", 2, node="third", **WEB)),
        others=(node("third", 4),),
    ),
    "does not fit": Town(of_pod={"gpus": 2}),
    "fits by GPUs and not by memory": Town(of_pod={"requests": {"memory": 200 * GIB}}),
    "selector": Town(of_pod={"node_selector": {"kubernetes.io/hostname": BIG}}),
    "taint": Town(on_small={"taints": (Taint("x"),)}),
    "soft-tainted elsewhere is no reason, cordoned is": Town(on_small={"unschedulable": True}),
    "the other is not Ready": Town(on_small={"ready": False}),
    "the other is about to go": Town(
        of_small={"intended_at": NOW - 99999}, of_pool={"expire_after": 86400.0}
    ),
    "the other is leaving": Town(of_small={"phase": Phase.DRAINING, "reason": Reason.IDLE}),
    "something is on its way": Town(of_small={"phase": Phase.STARTED}),
    "more than half is used": Town(
        of_pod={"gpus": 1}, pods=tuple(pod(f"p{n}", node=BIG, **WEB) for n in range(4))
    ),
    "min": Town(of_pool={"min": 2}),
    "given up lately": Town(of_big={"kept_at": NOW - 599}),
    "too young": Town(rules={"min_age": 1000.0}),
    "no budget": Town(rules={"disruption_budget": "0"}),
    "no budget for it": Town(rules={"disruption_budgets": {"consolidation": "0"}}),
    "not at this hour": Town(rules={"not_during": (parse_window("daily 00:00-24:00 UTC"),)}),
    "a pod waits": Town(pods=(pod("waits", 9),)),
    "a pod is about to wait": Town(pods=(pod("soon", 1, waiting=False),)),
    "promised": Town(of_big={"pods": ("default/soon",)}, pods=(pod("soon", 1, waiting=False),)),
}


@pytest.mark.parametrize("town", [pytest.param(town, id=name) for name, town in KEEPS.items()])
def test_every_doubt_keeps_the_work_where_it_is(town: Town) -> None:
    decided = plan(town.snapshot())
    assert moved(decided) == []
    assert BIG not in [a.machine for a in decided.actions if isinstance(a, Retire)]


MOVES = {
    "two pods": (Town(pods=(pod("web", 0, node=BIG, **WEB),)), 1),
    "a budget that allows it": (Town(more=pdb(2)), 1),
    "a StatefulSet": (Town(of_pod={"owner_kind": "StatefulSet"}), 1),
    "daemons and finished pods": (
        Town(
            pods=(
                pod("d", node=BIG, owner_kind="DaemonSet"),
                pod("f", node=BIG, owner_kind="Job", phase="Succeeded"),
                pod("m", 0, node=BIG, mirror=True),
            )
        ),
        1,
    ),
    "given up long ago": (Town(of_big={"kept_at": NOW - 600}), 1),
    "a saving just met": (Town(rules={"consolidate_saving": Decimal("10.32")}), 1),
    "a soft spread": (Town(of_pod={"spreads": (Spread(topology_key="z", hard=False),)}), 1),
}


@pytest.mark.parametrize(("town", "count"), [pytest.param(*row, id=name) for name, row in MOVES.items()])
def test_what_is_no_reason_to_keep_it(town: Town, count: int) -> None:
    assert len(moved(plan(town.snapshot()))) == count


def test_only_one_machine_is_emptied_at_a_time_the_largest_first_and_not_beside_a_removal() -> None:
    names = [f"home-a100-{letter * 10}" for letter in "abc"]
    kinds = (A4, A8, A8)
    snapshot = world(
        policy=policy(consolidate="cheaper", disruption_budget="100%"),
        machines=tuple(machine(name, of) for name, of in zip(names, kinds, strict=True)),
        nodes=tuple(node(name, of.gpus, cpu=88) for name, of in zip(names, kinds, strict=True)),
        pods=tuple(pod(f"web-{n}", node=name, **WEB) for n, name in enumerate(names)),
    )
    assert [a.machine for a in moved(plan(snapshot))] == [names[1]]
    idle = replace(snapshot, pods=snapshot.pods[:2])
    since = {"gpu-autoscaler/idle-since": "2027-01-15T07:00:00Z"}
    nodes = (*idle.nodes[:2], replace(idle.nodes[2], annotations=since))
    decided = plan(replace(idle, nodes=nodes))
    assert [a.machine for a in decided.actions if isinstance(a, Retire)] == [names[2]]


# -- trying to break the promise ----------------------------------------------------------------

KINDS = ("ReplicaSet", "StatefulSet", "Job", "", "DaemonSet", "PyTorchJob")
NOTES: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {"gpu-autoscaler/do-not-disrupt": "true"},
    {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
    {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
    {"gpu-autoscaler/gang": "g"},
)


def rarely(draw: st.DrawFn, odds: int = 13) -> bool:
    """In the middle of a range: its ends are drawn more often than others."""
    return draw(st.integers(1, odds)) == odds // 2


@st.composite
def towns(draw: st.DrawFn) -> Snapshot:
    """Mostly such as a consolidation waits for; each thing that forbids it comes now and then."""
    machines: list[Machine] = []
    nodes: list[Node] = []
    pods: list[Pod] = []
    for n in range(draw(st.integers(2, 4))):
        name, of = f"home-a100-{'abcd'[n] * 10}", draw(st.sampled_from((A8, A8, A2, A1)))
        other_phase = draw(st.sampled_from([Phase.BOOTING, Phase.DRAINING]))
        machines.append(
            machine(
                name,
                of,
                other_phase if rarely(draw, 40) else Phase.READY,
                intended_at=NOW - (90000 if rarely(draw) else 5000),
                location="ICE-01" if rarely(draw) else "FIN-01",
                surplus=rarely(draw),
            )
        )
        idle = {"gpu-autoscaler/idle-since": "2027-01-15T07:00:00Z"} if rarely(draw) else {}
        nodes.append(
            node(name, of.gpus, cpu=of.vcpus, memory=900, annotations=idle, ready=not rarely(draw, 30))
        )
        left = of.gpus
        for m in range(draw(st.integers(1, 3))):
            gpus = min(left, draw(st.sampled_from([1, 1, 0, 2, 4])))
            left -= gpus
            claims = (PodDeviceClaim(name="g", claim="c"),) if rarely(draw, 40) else ()
            pods.append(
                pod(
                    f"p{n}{m}",
                    gpus,
                    node=name,
                    owner_kind=draw(st.sampled_from(KINDS)) if rarely(draw) else "ReplicaSet",
                    annotations=draw(st.sampled_from(NOTES)) if rarely(draw) else {},
                    device_claims=claims,
                    created=NOW - (10 if rarely(draw, 30) else 9000),
                    phase=draw(st.sampled_from(["Succeeded", "Pending"])) if rarely(draw, 30) else "Running",
                    deleting_at=NOW + 5 if rarely(draw, 30) else None,
                    labels={"app": draw(st.sampled_from(["a", "b"]))},
                )
            )
    if rarely(draw):
        pods.append(pod("waits", draw(st.integers(1, 8))))
    guard = DisruptionBudget(
        namespace="default",
        name="b",
        uid="b",
        selector=Selector(labels={"app": "a"}),
        allowed=draw(st.integers(0, 2)),
    )
    rules = policy(
        pool(
            expire_after=80000.0 if rarely(draw) else None,
            locations=("FIN-01",) if rarely(draw) else (),
            min=1 if rarely(draw) else 0,
        ),
        consolidate="off" if rarely(draw) else "cheaper",
        consolidate_saving=draw(st.sampled_from([Decimal(0), Decimal(1), Decimal(3)])),
        disruption_budget="0" if rarely(draw) else "100%",
    )
    return world(
        policy=rules,
        machines=tuple(machines),
        nodes=tuple(nodes),
        pods=tuple(pods),
        budgets=(guard,) if rarely(draw, 5) else (),
    )


def works(each: Pod) -> bool:
    if each.phase in ("Succeeded", "Failed") or each.shape.owner_kind == "DaemonSet":
        return False
    return each.shape.requests.get("nvidia.com/gpu", 0) > 0 or each.shape.has_claims


def check(snapshot: Snapshot, decided: Plan) -> None:
    """The rules once more, told apart from the planner."""
    kinds = {m.name: m for m in snapshot.machines}
    retired = [a for a in decided.actions if isinstance(a, Retire)]
    for action in retired:
        here = [p for p in snapshot.pods if p.node == action.machine]
        working = [p for p in here if works(p)]
        if not working:
            assert action.moving == ()
            continue
        assert action.reason is Reason.CONSOLIDATION
        assert snapshot.policy.consolidate == "cheaper"
        assert retired == [action]
        assert set(action.moving) == {p.identity for p in working}
        assert all(m.phase is Phase.READY for m in snapshot.machines)
        assert all(p.node for p in snapshot.pods)
        owner = kinds[action.machine]
        assert next(n for n in snapshot.nodes if n.name == owner.name).ready
        assert owner.price >= snapshot.policy.consolidate_saving
        assert 2 * sum(p.shape.requests.get("nvidia.com/gpu", 0) for p in working) <= owner.gpus
        leaving = [p for p in here if p.phase not in ("Succeeded", "Failed")]
        leaving = [p for p in leaving if p.shape.owner_kind != "DaemonSet"]
        for each in leaving:
            assert each.shape.owner_kind in ("ReplicaSet", "StatefulSet")
            assert not each.shape.has_claims
            assert each.deleting_at is None
            assert each.shape.annotations.get("gpu-autoscaler/do-not-disrupt") != "true"
            assert "gpu-autoscaler/gang" not in each.shape.annotations
            assert each.shape.annotations.get("cluster-autoscaler.kubernetes.io/safe-to-evict") != "false"
        for budget in snapshot.budgets:
            assert sum(1 for p in leaving if p.shape.labels["app"] == "a") <= budget.allowed
        free = 0
        for other in snapshot.nodes:
            if other.name != action.machine and other.ready:
                used = sum(
                    p.shape.requests.get("nvidia.com/gpu", 0)
                    for p in snapshot.pods
                    if p.node == other.name and p.phase not in ("Succeeded", "Failed")
                )
                free += max(0, other.allocatable["nvidia.com/gpu"] - used)
        assert sum(p.shape.requests.get("nvidia.com/gpu", 0) for p in leaving) <= free


@settings(max_examples=400, deadline=None, derandomize=True)
@given(towns())
def test_no_plan_ever_retires_a_machine_with_work_but_by_a_consolidation_that_keeps_every_rule(
    snapshot: Snapshot,
) -> None:
    check(snapshot, plan(snapshot))


@settings(max_examples=120, deadline=None, derandomize=True)
@given(towns(), st.lists(st.sampled_from([30.0, 700.0, 4000.0]), min_size=2, max_size=6))
def test_no_sequence_of_plans_does_either_and_work_settles(snapshot: Snapshot, pauses: list[float]) -> None:
    """Each plan is carried out: evicted pods start elsewhere where they fit, as if they were new."""
    emptied = 0
    for pause in pauses:
        decided = plan(snapshot)
        check(snapshot, decided)
        gone = {a.machine: a for a in decided.actions if isinstance(a, Retire)}
        emptied += sum(1 for a in gone.values() if a.moving)
        pods = [p for p in snapshot.pods if p.node not in gone]
        nodes = [n for n in snapshot.nodes if n.name not in gone]
        for each in (p for p in snapshot.pods if p.node in gone and not p.finished):
            if each.shape.owner_kind == "DaemonSet":
                continue
            for other in nodes:
                there = [p for p in pods if p.node == other.name and not p.finished]
                used = sum(p.shape.requests.get("nvidia.com/gpu", 0) for p in there)
                wanted = each.shape.requests.get("nvidia.com/gpu", 0)
                if other.ready and other.allocatable["nvidia.com/gpu"] - used >= wanted:
                    pods.append(replace(each, node=other.name, created=snapshot.now, uid=each.uid + "+"))
                    break
            else:
                assert not works(each), f"{each.key} lost its place"
        snapshot = replace(
            snapshot,
            now=snapshot.now + pause,
            pods=tuple(pods),
            nodes=tuple(nodes),
            machines=tuple(m for m in snapshot.machines if m.name not in gone),
        )
    assert emptied < 4


@pytest.mark.parametrize("gpus", [1, 4])
def test_no_machine_is_emptied_whose_free_gpus_headroom_would_buy_again(gpus: int) -> None:
    town = Town(rules={"headroom": (Headroom(pool="a100", gpus=gpus),)})
    assert moved(plan(Town().snapshot())) != []
    assert moved(plan(town.snapshot())) == []
