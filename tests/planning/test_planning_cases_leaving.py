"""Rows 39 to 49 of the cases that trusted autoscalers test, as far as they are decided here.

What is carried out — the second look, the drain, crashed predecessors — is tried in tests/fleet.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controller.domain.kube import (
    DisruptionBudget,
    HostPort,
    Job,
    Node,
    NodeTerm,
    Pod,
    PodGroup,
    PodTerm,
    PodVolume,
    Requirement,
    Selector,
    Spread,
    Volume,
    VolumeClaim,
)
from controller.domain.machine import Machine, Phase
from controller.domain.plan import KeepAfterAll, Launch, MarkIdle, Plan, Retire, Snapshot
from controller.domain.reason import Reason
from controller.domain.windows import parse_window
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, NOW, machine, node, pod, policy, world

NAME, SECOND = "home-a100-aaaaaaaaaa", "home-a100-bbbbbbbbbb"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
OTHER = node("other", 0, cpu=4)


def since(seconds: float) -> dict[str, str]:
    return {"gpu-autoscaler/idle-since": datetime.fromtimestamp(NOW - seconds, UTC).isoformat()}


def gone(decided: Plan) -> list[str]:
    return [action.machine for action in decided.actions if isinstance(action, Retire)]


def idle(*pods: Pod, owner: Machine | None = None, **more: Any) -> Snapshot:
    notes = since(700) | more.pop("notes", {})
    return world(
        machines=(owner or machine(),), nodes=(node(NAME, annotations=notes), OTHER), pods=pods, **more
    )


@pytest.mark.parametrize(
    ("there", "busy"),
    [
        (pod("p", node=NAME), True),
        (pod("p", node=NAME, owner_kind="DaemonSet"), False),
        (pod("p", node=NAME, mirror=True), False),
        (pod("p", node=NAME, phase="Succeeded"), False),
        (pod("p", node=NAME, phase="Failed"), False),
        (pod("p", 0, node=NAME, owner_kind="ReplicaSet"), False),
        (pod("p", 0, node=NAME, requests={"nvidia.com/gpu.shared": 1}), True),
    ],
)
def test_case_39_idle_is_a_machine_whose_gpus_nothing_but_daemons_asks_for(there: Pod, busy: bool) -> None:
    decided = plan(idle(there))
    assert gone(decided) == ([] if busy else [NAME])
    assert decided.machines[NAME].code is (Reason.IN_USE if busy else Reason.IDLE)


@pytest.mark.parametrize(("gpus", "kept"), [(1, True), (2, False)])
def test_case_40_pending_pods_come_first_and_keep_the_machine_that_they_fit(gpus: int, kept: bool) -> None:
    decided = plan(idle(pod("waits", gpus)))
    assert gone(decided) == ([] if kept else [NAME])
    assert len([a for a in decided.actions if isinstance(a, Launch)]) == (not kept)


GANG: dict[str, Any] = {"labels": {"scheduling.x-k8s.io/pod-group": "llm"}}
GROUPS = (PodGroup(namespace="default", name="llm", system="coscheduling", min_member=2),)
PART: dict[str, Any] = {"owner_kind": "Job", "owner_uid": "j"}
JOBS = (Job(namespace="default", name="j", uid="j", parallelism=2, completions=2),)


@pytest.mark.parametrize(
    ("waits", "more", "kept"),
    [
        (pod("new", waiting=False), {}, True),
        (pod("new", 2, waiting=False), {}, False),
        (pod("new", waiting=False, created=NOW - 60), {}, False),  # nobody looks at it
        (pod("new", waiting=False, gated=True), {}, False),
        (pod("new", waiting=False, scheduler="another"), {}, False),
        (pod("young"), {"policy": policy(min_pod_age=60)}, True),
        (pod("young", message="over quota"), {"policy": policy(min_pod_age=60, quota_messages=("over quota",))}, False),
        (pod("first", **GANG), {"pod_groups": GROUPS}, True),
        (pod("first", created=NOW - 10, **GANG), {"pod_groups": GROUPS}, False),  # no other came
        (pod("first", **PART), {"jobs": JOBS}, True),
    ],
)  # fmt: skip
def test_case_40_a_pod_that_waits_for_time_only_keeps_the_machine_that_it_fits(
    waits: Pod, more: dict[str, Any], kept: bool
) -> None:
    decided = plan(idle(waits, **more))
    assert gone(decided) == ([] if kept else [NAME])
    assert decided.machines[NAME].code is (Reason.NEEDED if kept else Reason.IDLE)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"pods": (pod("new", node=NAME),)}, Reason.IN_USE),
        ({"notes": {"gpu-autoscaler/do-not-disrupt": "true"}}, Reason.DO_NOT_DISRUPT),
        (
            {
                "pods": (pod("web", 0, node=NAME, owner_kind="ReplicaSet"),),
                "budgets": (DisruptionBudget(namespace="default", name="b", uid="b", selector=Selector()),),
            },
            Reason.PDB,
        ),
    ],
)
def test_case_41_what_has_changed_by_the_next_plan_keeps_the_machine(
    change: dict[str, Any], code: Reason
) -> None:
    assert gone(plan(idle())) == [NAME]
    given = dict(change)
    decided = plan(idle(*given.pop("pods", ()), **given))
    assert (gone(decided), decided.machines[NAME].code) == ([], code)


@pytest.mark.parametrize(
    ("pods", "goes"),
    [
        ((pod("web", 0, node=NAME, owner_kind="ReplicaSet", requests={"cpu": 5000}),), False),
        ((pod("web", 0, node=NAME, owner_kind="ReplicaSet"),), True),
        ((pod("for-ever", 0, requests={"cpu": 99000}),), True),  # a pod that fits nowhere is no reason
        ((pod("web", 0, node=NAME, owner_kind="ReplicaSet"), pod("for-ever", 0, requests={"cpu": 99000})), True),
    ],
)  # fmt: skip
def test_case_42_no_running_pod_is_made_pending(pods: tuple[Pod, ...], goes: bool) -> None:
    assert gone(plan(idle(*pods))) == ([NAME] if goes else [])


def web(name: str = "web", at: str = NAME, **rules: Any) -> Pod:
    return pod(name, 0, node=at, owner_kind="ReplicaSet", labels={"app": "web"}, **rules)


APART: dict[str, Any] = {"anti_affinity": (PodTerm(topology_key=HOST, selector=Selector({"app": "web"})),)}
NEAR: dict[str, Any] = {"affinity": (PodTerm(topology_key=HOST, selector=Selector({"app": "db"})),)}
EVENLY: dict[str, Any] = {"spreads": (Spread(topology_key=ZONE, selector=Selector({"app": "web"})),)}
BROADLY: dict[str, Any] = {
    "spreads": (Spread(topology_key=ZONE, selector=Selector({"app": "web"}), min_domains=2),)
}
PORT: dict[str, Any] = {"host_ports": (HostPort(80),)}
DISK: dict[str, Any] = {"volumes": (PodVolume(claim="data"),)}


@pytest.mark.parametrize(
    ("pods", "zone", "goes"),
    [
        ((web(**APART), web("there", "other")), "FIN-01", False),
        ((web(), web("there", "other", **APART)), "FIN-01", False),
        ((web(**APART),), "FIN-01", True),
        ((web(**PORT), web("there", "other", **PORT)), "FIN-01", False),
        ((web(**PORT), web("there", "other")), "FIN-01", True),
        # Both leave, and the scheduler binds the one beside the other.
        ((web(**NEAR), pod("db", 0, node=NAME, owner_kind="ReplicaSet", labels={"app": "db"})), "FIN-01", True),
        ((web(**NEAR), pod("db", 0, node=NAME, owner_kind="ReplicaSet", labels={"app": "db"}, node_selector={"no": "where"})), "FIN-01", False),
        ((web(**NEAR), pod("db", 0, node="other", labels={"app": "db"})), "FIN-01", True),
        # Its Node, while it is drained, is a place to spread over for minutes only.
        ((web(**EVENLY), web("there", "other"), web("more", "other")), "FIN-02", True),
        ((web(**EVENLY), web("there", "other"), web("more", "other")), "FIN-01", True),
        ((web(**BROADLY), web("there", "other")), "FIN-02", False),
        ((web(**DISK),), "FIN-02", False),
        ((web(**DISK),), "FIN-01", True),
    ],
)  # fmt: skip
def test_case_42_a_pod_that_can_be_bound_nowhere_else_keeps_its_machine(
    pods: tuple[Pod, ...], zone: str, goes: bool
) -> None:
    here = NodeTerm(labels=(Requirement(ZONE, "In", ("FIN-01",)),))
    decided = plan(
        world(
            machines=(machine(),),
            nodes=(
                node(NAME, labels={HOST: NAME, ZONE: "FIN-01"}, annotations=since(700)),
                node("other", 0, cpu=8, labels={HOST: "other", ZONE: zone}),
            ),
            pods=pods,
            volumes=(Volume(name="disk", terms=(here,)),),
            volume_claims=(VolumeClaim(namespace="default", name="data", phase="Bound", volume="disk"),),
        )
    )
    assert gone(decided) == ([NAME] if goes else [])
    assert decided.machines[NAME].code is (Reason.IDLE if goes else Reason.IN_USE)


@pytest.mark.parametrize(
    ("owner", "there"),
    [
        *((machine(phase=phase), None) for phase in Phase if phase is not Phase.READY),
        (machine(node_uid="mine"), node(NAME, uid="another", annotations=since(9000))),
    ],
)
def test_case_43_machines_on_their_way_or_leaving_and_nodes_of_others_are_no_candidates(
    owner: Machine, there: Node | None
) -> None:
    decided = plan(world(machines=(owner,), nodes=(there or node(NAME, annotations=since(9000)),)))
    assert gone(decided) == []
    assert not [a for a in decided.actions if isinstance(a, MarkIdle)]


def test_case_43_a_promised_machine_is_no_candidate() -> None:
    decided = plan(idle(pod("soon", waiting=False), owner=machine(pods=("default/soon",))))
    assert (gone(decided), decided.machines[NAME].code) == ([], Reason.PROMISED)


@pytest.mark.parametrize("key", ["gpu-autoscaler/do-not-disrupt", "karpenter.sh/do-not-disrupt"])
@pytest.mark.parametrize(
    ("value", "kept"), [("true", True), ("false", False), ("1h", True), ("1s", False), ("perhaps", True)]
)
def test_case_44_do_not_disrupt_on_a_pod(key: str, value: str, kept: bool) -> None:
    web = pod("web", 0, node=NAME, owner_kind="ReplicaSet", annotations={key: value})
    assert gone(plan(idle(web))) == ([] if kept else [NAME])
    for unseen in ({"mirror": True}, {"phase": "Succeeded"}, {"owner_kind": "DaemonSet"}):
        fields: dict[str, Any] = {"owner_kind": "ReplicaSet", "annotations": {key: value}} | unseen
        assert gone(plan(idle(pod("web", 0, node=NAME, **fields)))) == [NAME]


@pytest.mark.parametrize(
    ("value", "kept"), [("true", True), ("false", False), ("2h", True), ("30m", False), ("perhaps", True)]
)
def test_case_44_do_not_disrupt_on_a_node(value: str, kept: bool) -> None:
    notes = {"gpu-autoscaler/do-not-disrupt": value}  # the Node is an hour old
    assert gone(plan(idle(notes=notes))) == ([] if kept else [NAME])


@pytest.mark.parametrize(
    ("value", "owner", "kept"),
    [
        ("false", "ReplicaSet", True),
        ("true", "ReplicaSet", False),
        ("true", "Job", False),
        ("true", "", False),
        ("perhaps", "ReplicaSet", False),
        ("perhaps", "Job", True),
    ],
)
def test_case_44_safe_to_evict(value: str, owner: str, kept: bool) -> None:
    notes = {"cluster-autoscaler.kubernetes.io/safe-to-evict": value}
    decided = plan(idle(pod("web", 0, node=NAME, owner_kind=owner, annotations=notes)))
    assert gone(decided) == ([] if kept else [NAME])


@pytest.mark.parametrize(
    ("budget", "lost", "leaving", "going"),
    [("2", 0, 0, 2), ("50%", 0, 0, 2), ("1%", 0, 0, 1), ("0", 0, 0, 0), ("0%", 0, 0, 0),
     ("2", 1, 0, 1), ("2", 0, 1, 1), ("1", 1, 1, 0), ("2", 2, 2, 0)],
)  # fmt: skip
def test_case_45_budgets_of_disruption(budget: str, lost: int, leaving: int, going: int) -> None:
    names = [f"home-a100-{letter * 10}" for letter in "abcd"]
    sick = [f"home-a100-{letter * 10}" for letter in "xy"[:lost]]
    away = tuple(
        machine(f"home-a100-{letter * 10}", phase=Phase.DRAINING, reason=Reason.IDLE)
        for letter in "vw"[:leaving]
    )
    decided = plan(
        world(
            machines=(*(machine(name) for name in (*names, *sick)), *away),
            nodes=(
                *(node(name, annotations=since(700)) for name in names),
                *(node(name, ready=False) for name in sick),
            ),
            pods=tuple(pod(f"on-{name}", node=name) for name in sick),
            policy=policy(disruption_budget=budget),
        )
    )
    assert len(gone(decided)) == going


@pytest.mark.parametrize(
    ("rules", "going"),
    [
        ({"disruption_budgets": {"idle": "1"}}, 1),
        ({"disruption_budgets": {"drifted": "0"}}, 2),
        ({"disruption_budgets": {"idle": "0"}}, 0),
        ({"windows": (parse_window("Fri 07:00-09:00 UTC"),)}, 2),
        ({"windows": (parse_window("Fri 09:00-10:00 UTC"),)}, 0),
        ({"not_during": (parse_window("Fri 07:00-09:00 UTC"),)}, 0),
    ],
)
def test_case_45_budgets_of_one_reason_and_hours(rules: dict[str, Any], going: int) -> None:
    names = (NAME, SECOND)
    decided = plan(
        world(
            machines=tuple(machine(name) for name in names),
            nodes=tuple(node(name, annotations=since(700)) for name in names),
            policy=policy(**({"disruption_budget": "100%"} | rules)),
        )
    )
    assert len(gone(decided)) == going


def test_case_46_jobs_are_not_evicted_by_default() -> None:
    job = pod("job", 0, node=NAME, owner_kind="Job")
    assert gone(plan(idle(job))) == []
    work = pod("work", node=NAME, owner_kind="Job", created=NOW - 9000)
    snapshot = world(
        machines=(machine(NAME, A2), machine(SECOND, A2)),
        nodes=(node(NAME, 2, cpu=44), node(SECOND, 2, cpu=44)),
        pods=(work, pod("beside", node=SECOND, owner_kind="Job")),
        policy=policy(consolidate="cheaper"),
    )
    assert plan(snapshot).actions == ()


def test_case_48_demand_that_returns_calls_a_drain_off_also_that_of_a_consolidation() -> None:
    for reason in (Reason.IDLE, Reason.EXPIRED, Reason.DRIFTED, Reason.CONSOLIDATION):
        owner = machine(of=A1, phase=Phase.DRAINING, reason=reason)
        decided = plan(idle(pod("back"), owner=owner))
        assert [a.machine for a in decided.actions if isinstance(a, KeepAfterAll)] == [NAME]
        assert not [a for a in decided.actions if isinstance(a, Launch)]
