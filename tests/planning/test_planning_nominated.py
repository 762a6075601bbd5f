"""Pods that the scheduler has nominated to a node, for preemption or because their binding is under way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.domain.kube import HostPort, PodGroup, PodTerm, Selector
from controller.domain.plan import Launch, MarkIdle, Plan, Retire, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import plan, the_long_way
from tests.planning.worlds import A1, NOW, machine, node, offers, pod, world

HOME = "home-a100-aaaaaaaaaa"
LONG_AGO = "2026-01-01T00:00:00Z"


def launches(decided: Plan) -> int:
    return sum(isinstance(action, Launch) for action in decided.actions)


def at_home(*pods: Any, **more: Any) -> Snapshot:
    """One node with one GPU, and the pods beside `train`, which waits."""
    return world(**({"offers": offers(A1), "nodes": (node("home"),), "pods": (pod(), *pods)} | more))


def chosen(name: str = "other", **more: Any) -> Any:
    """Nominated as since 1.35: the scheduler has said nothing else of it."""
    return pod(name, **({"waiting": False, "nominated": "home"} | more))


@pytest.mark.parametrize("other", [chosen(), chosen(waiting=True), chosen(priority=100, waiting=True)])
def test_a_nominated_pod_holds_its_place_against_others(other: Any) -> None:
    decided = plan(at_home(other))
    assert launches(decided) == 1
    assert decided.pods["default/train"].code is Reason.LAUNCHING
    assert decided.pods["default/other"].code is Reason.NOT_DEMAND


@pytest.mark.parametrize(
    "other",
    [
        chosen(nominated="gone"),
        chosen(deleting_at=NOW + 30),
        chosen(gated=True),
        chosen(phase="Failed"),
        chosen(gpus=0),
    ],
)
def test_what_will_not_be_bound_there_holds_no_gpu(other: Any) -> None:
    assert plan(at_home(other)).pods["default/train"].code is Reason.FITS_NOW


def test_a_gang_gets_a_machine_although_one_of_it_has_the_free_place() -> None:
    marks: dict[str, Any] = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    group = PodGroup(namespace="default", name="g", system="coscheduling", min_member=2)
    first = pod(**marks)
    decided = plan(at_home(chosen(**marks), pods=(first, chosen(**marks)), pod_groups=(group,)))
    assert launches(decided) == 1
    assert decided.pods["default/train"].code is Reason.LAUNCHING


def test_the_gpus_of_victims_come_to_the_pod_that_they_make_place_for() -> None:
    victim = pod("victim", node="home", deleting_at=NOW + 20)
    assert plan(at_home(victim)).pods["default/train"].code is Reason.GPUS_FREED_SOON
    decided = plan(at_home(victim, chosen(waiting=True)))
    assert decided.pods["default/train"].code is Reason.LAUNCHING
    two = plan(at_home(victim, chosen(waiting=True), nodes=(node("home", 2),)))
    assert two.pods["default/train"].code is Reason.GPUS_FREED_SOON


def test_a_nominated_pod_keeps_its_port_and_those_away_that_mind_it() -> None:
    roomy = {"nodes": (node("home", 4),)}
    port: dict[str, Any] = {"host_ports": (HostPort(port=80),)}
    alone = PodTerm(topology_key="kubernetes.io/hostname", selector=Selector(labels={"app": "x"}))
    apart: dict[str, Any] = {"labels": {"app": "x"}, "anti_affinity": (alone,)}
    for rule in (port, apart):
        decided = plan(at_home(pods=(pod(**rule), chosen(**rule)), **roomy))
        assert decided.pods["default/train"].code is Reason.LAUNCHING


def idle(*pods: Any) -> Snapshot:
    """A machine that would have gone long ago for want of work."""
    annotations = {"gpu-autoscaler/idle-since": LONG_AGO}
    there = machine(HOME, A1, ready_at=NOW - 9000, intended_at=NOW - 9900)
    return at_home(
        machines=(there,),
        nodes=(node(HOME, annotations=annotations, labels={"gpu-autoscaler/pool": "a100"}),),
        pods=pods,
    )


def test_a_machine_that_a_pod_is_nominated_to_is_not_idle() -> None:
    assert any(isinstance(action, Retire) for action in plan(idle()).actions)
    decided = plan(idle(chosen(nominated=HOME)))
    assert decided.machines[HOME].code is Reason.PROMISED
    assert decided.machines[HOME].message == "it is kept for pod default/other"
    assert decided.actions == (MarkIdle(machine=HOME, since=None),)


def test_a_pod_that_has_no_gpu_and_is_nominated_counts_alike_where_nobody_else_waits() -> None:
    """Such a picture is planned by the short way, which must see what the long one sees."""
    for other in (chosen(gpus=0, nominated=HOME), chosen(gpus=0, nominated=HOME, owner_kind="ReplicaSet")):
        snapshot = idle(other)
        decided = plan(snapshot)
        assert not any(isinstance(action, Retire) for action in decided.actions)
        assert decided == the_long_way(snapshot)


def test_what_is_promised_to_a_nominated_pod_is_kept_until_it_is_bound() -> None:
    snapshot = idle(chosen(nominated="elsewhere"))
    kept = msgspec.structs.replace(snapshot.machines[0], pods=("default/other",))
    snapshot = msgspec.structs.replace(
        snapshot, machines=(kept,), nodes=(*snapshot.nodes, node("elsewhere", 1))
    )
    assert plan(snapshot).machines[HOME].code is Reason.PROMISED


def test_nobody_is_told_of_preemption_where_there_may_be_none() -> None:
    (why,) = plan(at_home(pods=(chosen(),))).pods.values()
    assert why.message == "the scheduler has chosen node home for it, and holds a place for it there"
