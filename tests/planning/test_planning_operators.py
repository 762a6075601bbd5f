"""Labels that only some clusters have on GPU nodes: what runs there by them, and which pods may hope for them."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.kube import DaemonSet, NodeTerm, PodShape, Requirement
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, kind, machine, node, offers, pod, policy, pool, world

EXPORTER, DRIVER = "nvidia.com/gpu.deploy.dcgm-exporter", "nvidia.com/gpu.deploy.driver"
VENDOR, COMPUTE = (f"feature.node.kubernetes.io/pci-{slot}.present" for slot in ("10de", "0302_10de"))
PRODUCT = "nvidia.com/gpu.product"
SMALL = offers(A1, A2)
OURS = "home-a100-aaaaaaaaaa"


def daemon(cpu: int = 2000, **shape: Any) -> DaemonSet:
    return DaemonSet(namespace="gpu", name="d", uid="d", shape=PodShape(requests={"cpu": cpu}, **shape))


def on(key: str, operator: str = "In", *values: str) -> tuple[NodeTerm, ...]:
    return (NodeTerm((Requirement(key, operator, values),)),)


def bought(snapshot: Snapshot) -> list[str]:
    return [a.offer.type.name for a in plan(snapshot).actions if isinstance(a, Launch)]


def full(**more: Any) -> Snapshot:
    """A pod that leaves one core of the small machine."""
    values = {"offers": SMALL, "pods": (pod(requests={"cpu": 21000}),)}
    return world(**(values | more))


@pytest.mark.parametrize(
    "label", [EXPORTER, VENDOR, COMPUTE, "feature.node.kubernetes.io/pci-0300_10de.present"]
)
def test_daemons_that_select_on_what_operators_write_take_their_room(label: str) -> None:
    assert bought(full()) == ["1A100.22V"]
    assert bought(full(daemonsets=(daemon(node_selector={label: "true"}),))) == ["2A100.44V"]
    assert bought(full(daemonsets=(daemon(required_terms=on(label, "In", "true")),))) == ["2A100.44V"]


@pytest.mark.parametrize("shape", [{"node_selector": {EXPORTER: "false"}}, {"node_selector": {"no": "such"}}])
def test_daemons_that_select_on_anything_else_take_none(shape: dict[str, Any]) -> None:
    assert bought(full(daemonsets=(daemon(**shape),))) == ["1A100.22V"]


def test_a_daemon_that_keeps_off_gpu_nodes_takes_its_room_as_long_as_nobody_knows_whether_they_are_labelled() -> (
    None
):
    assert bought(full(daemonsets=(daemon(required_terms=on(VENDOR, "DoesNotExist")),))) == ["2A100.44V"]


@pytest.mark.parametrize(
    "pools",
    [
        pool(feature_discovery=False),
        pool(labels={EXPORTER: "false"}),
        pool(labels={"nvidia.com/gpu.deploy.operands": "false"}),
    ],
)
def test_where_the_pool_says_that_the_label_is_not_written_the_daemon_takes_none(pools: Any) -> None:
    snapshot = full(policy=policy(pools), daemonsets=(daemon(node_selector={EXPORTER: "true"}),))
    assert bought(snapshot) == ["1A100.22V"]


def test_machines_without_gpus_get_none_of_these_daemons() -> None:
    cpu = kind("CPU.2V.8G", 0, 2, 8, "0.05", model="CPU Node")
    slots = pool(instance_types=("CPU.2V.8G",), min_gpu_memory_gb=0, resources={"example.com/slot": 1})
    snapshot = world(
        policy=policy(slots),
        offers=offers(cpu),
        pods=(pod(gpus=0, requests={"example.com/slot": 1}),),
        daemonsets=(daemon(node_selector={VENDOR: "true"}),),
    )
    assert bought(snapshot) == ["CPU.2V.8G"]


@pytest.mark.parametrize(
    ("labels", "types"),
    [
        ({PRODUCT: "NVIDIA-A100-SXM4-80GB"}, ["1A100.22V"]),
        ({PRODUCT: "NVIDIA-A100-SXM4-80GB", EXPORTER: "true"}, ["2A100.44V"]),
        ({PRODUCT: "NVIDIA-A100-SXM4-80GB", EXPORTER: "paused-for-mig-change"}, ["2A100.44V"]),
        ({}, ["2A100.44V"]),
    ],
)
def test_a_node_of_the_kind_shows_whether_the_daemon_runs_there(
    labels: dict[str, str], types: list[str]
) -> None:
    there = node(OURS, 1, labels={"kubernetes.io/hostname": OURS, **labels})
    busy = pod("busy", node=OURS)
    snapshot = full(
        machines=(machine(OURS),),
        nodes=(there,),
        pods=(busy, pod(requests={"cpu": 21000})),
        daemonsets=(daemon(node_selector={EXPORTER: "true"}),),
    )
    assert bought(snapshot) == types


def asks_for(label: str, **more: Any) -> Snapshot:
    return world(**({"pods": (pod(node_selector={label: "true"}),)} | more))


@pytest.mark.parametrize("label", [EXPORTER, VENDOR, COMPUTE])
def test_a_pod_that_selects_on_it_gets_a_machine_only_where_the_cluster_writes_it(label: str) -> None:
    other = node("other", 0, labels={label: "true", "nvidia.com/gpu.present": "true"})
    assert bought(asks_for(label)) == []
    assert plan(asks_for(label)).pods["default/train"].code is Reason.SELECTOR
    assert bought(asks_for(label, nodes=(other,))) == ["1A100.22V"]
    assert bought(asks_for(label, daemonsets=(daemon(node_selector={label: "true"}),))) == ["1A100.22V"]
    assert bought(asks_for(label, daemonsets=(daemon(required_terms=on(label, "Exists")),))) == ["1A100.22V"]


def test_a_daemon_that_would_run_without_the_label_too_is_no_sign_that_it_is_written() -> None:
    either = (*on(VENDOR, "In", "true"), *on("nvidia.com/gpu.present", "In", "true"))
    assert bought(asks_for(VENDOR, daemonsets=(daemon(required_terms=either),))) == []


def test_whether_the_driver_is_the_operators_is_told_by_a_node_of_the_kind_alone() -> None:
    signs = {"daemonsets": (daemon(node_selector={DRIVER: "true"}),)}
    assert bought(asks_for(DRIVER, **signs)) == []
    labels = {"kubernetes.io/hostname": OURS, PRODUCT: "NVIDIA-A100-SXM4-80GB", DRIVER: "true"}
    there = {"machines": (machine(OURS),), "nodes": (node(OURS, 1, labels=labels),)}
    waiting = (pod("busy", node=OURS), pod(node_selector={DRIVER: "true"}))
    assert bought(asks_for(DRIVER, **signs, **there, pods=waiting)) == ["1A100.22V"]


def test_the_class_of_a_card_that_may_drive_a_screen_is_not_known() -> None:
    card = kind("1A6000.10V", 1, 10, 60, "0.49", model="RTX A6000")
    signs = {"daemonsets": (daemon(node_selector={COMPUTE: "true"}),)}
    assert bought(asks_for(COMPUTE, offers=offers(card), **signs)) == []
    assert bought(asks_for(COMPUTE, offers=offers(A1), **signs)) == ["1A100.22V"]


def test_a_machine_on_its_way_has_what_it_was_bought_with() -> None:
    first = asks_for(VENDOR, daemonsets=(daemon(node_selector={VENDOR: "true"}),))
    launch = next(a for a in plan(first).actions if isinstance(a, Launch))
    coming = machine(OURS, phase=Phase.BOOTING, pods=launch.pods)
    again = asks_for(VENDOR, daemonsets=first.daemonsets, machines=(coming,))
    assert bought(again) == []
    assert plan(again).pods["default/train"].code is Reason.ON_THE_WAY
