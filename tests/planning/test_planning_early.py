"""Pods that are no demand yet, and will be in a moment, keep the idle machine that they fit; and for that moment only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.kube import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    Job,
    Node,
    Pod,
    PodDeviceClaim,
    PodGroup,
    PodTerm,
    Selector,
)
from controller.domain.plan import Plan, Retire, Snapshot
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A8, NOW, machine, node, pod, policy, pool, world

SMALL, LARGE = "home-a100-aaaaaaaaaa", "home-a100-bbbbbbbbbb"
IDLE = {"gpu-autoscaler/idle-since": datetime.fromtimestamp(NOW - 9000, UTC).isoformat()}
BOTH = "100%"


def two(*pods: Pod, others: tuple[Node, ...] = (), rules: Policy | None = None, **more: Any) -> Snapshot:
    """Two machines, of one GPU and of eight, that are idle and may go."""
    nodes = tuple(
        node(name, of.gpus, cpu=of.vcpus, annotations=IDLE, labels={"kubernetes.io/hostname": name})
        for name, of in ((SMALL, A1), (LARGE, A8))
    )
    return world(
        machines=(machine(SMALL), machine(LARGE, A8)),
        nodes=nodes + others,
        pods=pods,
        policy=rules or policy(disruption_budget=BOTH),
        **more,
    )


def gone(decided: Plan) -> list[str]:
    return sorted(action.machine for action in decided.actions if isinstance(action, Retire))


def new(name: str, gpus: int = 1, **more: Any) -> Pod:
    return pod(name, gpus, waiting=False, **more)


@pytest.mark.parametrize(
    ("pods", "kept"),
    [
        ((), []),
        ((new("a"),), [SMALL]),  # the scheduler may take the other one, which then is busy
        ((new("a"), new("b")), [SMALL, LARGE]),
        ((new("a", 2),), [LARGE]),
        ((new("a"), new("b", 8)), [SMALL, LARGE]),
        ((new("a", 9),), []),
        ((new("a", node_selector={"no": "where"}),), []),
        ((new("a", 0),), []),  # one that nobody buys for
        ((new("a"), pod("asks")), [SMALL, LARGE]),  # demand takes its place first
    ],
)
def test_as_many_are_kept_as_they_would_be_bound_to(pods: tuple[Pod, ...], kept: list[str]) -> None:
    decided = plan(two(*pods))
    assert gone(decided) == [name for name in (SMALL, LARGE) if name not in kept]
    for name in kept:
        assert decided.machines[name].code is Reason.NEEDED


def test_a_node_of_somebody_else_that_is_free_is_filled_first() -> None:
    assert gone(plan(two(new("a"), others=(node("theirs", 1),)))) == [SMALL, LARGE]
    busy = pod("b", node="theirs")
    assert gone(plan(two(new("a"), busy, others=(node("theirs", 1),)))) == [LARGE]


def test_rules_about_other_pods_count() -> None:
    apart = (PodTerm(topology_key="kubernetes.io/hostname", selector=Selector({"app": "x"})),)
    pods = [new(name, labels={"app": "x"}, anti_affinity=apart) for name in "abc"]
    assert gone(plan(two(*pods[:1]))) == [LARGE]
    assert gone(plan(two(*pods))) == []


def test_the_reason_names_the_pod_and_the_plan_is_made_again_when_it_ends() -> None:
    snapshot = two(new("a", created=NOW - 1))
    decided = plan(snapshot)
    assert "pod default/a fits it" in decided.machines[SMALL].message
    assert decided.wake_at == NOW + 59
    after = plan(replace(snapshot, now=NOW + 59))
    assert gone(after) == [SMALL, LARGE]


@pytest.mark.parametrize(
    "fields",
    [
        {"gated": True},
        {"deleting_at": NOW + 30},
        {"annotations": {"gpu-autoscaler/ignore": "true"}},
        {"scheduler": "another"},
        {"namespace": "theirs"},
        {"priority": -100},
        {"owner_kind": "DaemonSet"},
        {"mirror": True},
        {"phase": "Failed"},
        {"device_claims": (PodDeviceClaim(name="gpu", claim="unseen"),)},
    ],
)
@pytest.mark.parametrize("age", [0.0, 60.0])
def test_a_pod_that_never_will_be_demand_keeps_nothing(fields: dict[str, Any], age: float) -> None:
    rules = policy(disruption_budget=BOTH, ignore_namespaces=("theirs",), min_pod_age=age)
    assert gone(plan(two(new("a", **fields), rules=rules))) == [SMALL, LARGE]


@pytest.mark.parametrize(
    ("age", "notes", "until"),
    [
        (90.0, {}, NOW + 85),
        (0.0, {"gpu-autoscaler/min-age": "10m"}, NOW + 595),
        (0.0, {"cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "600s"}, NOW + 595),
    ],
)
def test_one_that_asked_to_grow_older_keeps_it_until_then_and_as_demand_from_then(
    age: float, notes: dict[str, str], until: float
) -> None:
    young = pod("young", annotations=notes)
    snapshot = two(young, rules=policy(disruption_budget=BOTH, min_pod_age=age))
    for now, code in ((NOW, Reason.TOO_YOUNG), (until - 1, Reason.TOO_YOUNG), (until, Reason.FITS_NOW)):
        decided = plan(replace(snapshot, now=now))
        assert decided.pods["default/young"].code is code
        assert gone(decided) == [LARGE]
        assert decided.machines[SMALL].code is Reason.NEEDED
    assert plan(replace(snapshot, now=NOW + 60)).wake_at == until


def member(name: str, **more: Any) -> Pod:
    return pod(name, labels={"scheduling.x-k8s.io/pod-group": "llm"}, **more)


@pytest.mark.parametrize(
    ("group", "kept"),
    [
        ({"min_member": 2}, True),
        ({"min_member": 2, "waits_for_quota": "no quota"}, False),
        (None, False),  # nobody says how many it needs
    ],
)
@pytest.mark.parametrize("waiting", [True, False])
def test_the_first_pod_of_a_gang_keeps_it_while_the_others_are_created(
    group: dict[str, Any] | None, kept: bool, waiting: bool
) -> None:
    groups = ()
    if group is not None:
        groups = (PodGroup(namespace="default", name="llm", system="coscheduling", **group),)
    snapshot = two(member("m-0", waiting=waiting), pod_groups=groups)
    assert gone(plan(snapshot)) == ([LARGE] if kept else [SMALL, LARGE])
    if waiting:
        assert gone(plan(replace(snapshot, now=NOW + 5))) == [SMALL, LARGE]  # ten seconds after the first


def test_a_gang_that_is_not_created_in_time_keeps_nothing_and_a_job_goes_on_as_demand() -> None:
    part = pod("j-0", owner_kind="Job", owner_uid="j", owner_name="j")
    jobs = (Job(namespace="default", name="j", uid="j", parallelism=9),)
    for now, code in ((NOW, Reason.WAITS_FOR_SIBLINGS), (NOW + 5, Reason.FITS_NOW)):
        decided = plan(replace(two(part, jobs=jobs), now=now))
        assert (gone(decided), decided.pods["default/j-0"].code) == ([LARGE], code)


def test_shares_and_claims_of_gpus_count_as_what_they_will_ask_for() -> None:
    rules = policy(disruption_budget=BOTH, fractions="kai", scheduler_names=("kai-scheduler",))
    halves = [
        new(name, 0, annotations={"gpu-fraction": "0.5"}, scheduler="kai-scheduler")
        for name in ("a", "b", "c")
    ]
    assert gone(plan(two(*halves[:2], rules=rules))) == [LARGE]
    assert gone(plan(two(*halves, rules=rules))) == []
    served = policy(pool(resource_claims="always"), disruption_budget=BOTH)
    claim = DeviceClaim(
        namespace="default", name="one", requests=(DeviceRequest(device_class="gpu.nvidia.com"),)
    )
    asks = new("a", 0, device_claims=(PodDeviceClaim(name="gpu", claim="one"),))
    snapshot = two(
        asks, rules=served, device_claims=(claim,), device_classes=(DeviceClass(name="gpu.nvidia.com"),)
    )
    ours = tuple(
        replace(
            n,
            labels={**n.labels, "gpu-autoscaler/pool": "a100"},
            allocatable={**n.allocatable, "nvidia.com/gpu": 0},
        )
        for n in snapshot.nodes
    )
    assert gone(plan(replace(snapshot, nodes=ours))) == [LARGE]


def test_a_machine_that_would_not_go_anyway_says_what_it_said() -> None:
    fresh = two(new("a"), rules=policy(cooldown=10000.0))
    assert {why.code for why in plan(fresh).machines.values()} == {Reason.COOLDOWN}
