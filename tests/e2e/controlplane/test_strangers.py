"""Machines and nodes of others are used where they are free, and never touched, however much they look like ours."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, running, runs, until

INTENT = "abcdefghij"
QUICK = {"scale_down": {"cooldown": "1s"}}


def console_machine(scene: Scene, hostname: str, **more: Any) -> None:
    """Made by somebody else in the same account, and running."""
    body = {
        "hostname": hostname, "instance_type": "1A100.22V", "location_code": "FIN-01", "description": "of ours",
        "image": "ubuntu-24.04-cuda-12.8-open", "os_volume": {"name": hostname, "size": 100}, "running": True,
    }  # fmt: skip
    scene.tell_cloud("POST", "instances", body | more)


def foreign_node(scene: Scene, name: str, gpus: int, **spec: Any) -> None:
    room = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    scene.core.create_node(
        {
            "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": spec,
            "status": {"capacity": room, "allocatable": room},
        }
    )


def marks_on(scene: Scene, name: str) -> set[str]:
    """Annotations and taints of ours on that node."""
    node = scene.core.read_node(name)
    keys = [*(node.metadata.annotations or {}), *(taint.key for taint in node.spec.taints or ())]
    return {key for key in keys if key.startswith("gpu-autoscaler/")}


def test_machines_in_the_account_that_carry_one_mark_of_ours_are_never_touched(
    scene: Scene, kubelets: Kubelets
) -> None:
    def tags(**named: str) -> list[dict[str, str]]:
        return [{"key": f"gpuas-{key}", "value": value} for key, value in named.items()]

    console_machine(scene, "desk")
    console_machine(scene, f"real-a100-{INTENT}")  # the hostname alone
    console_machine(scene, "tagged", tags=tags(cluster="real", pool="a100", intent=INTENT))
    console_machine(scene, "described", description=f"gpuas real {INTENT}")
    console_machine(
        scene, f"other-a100-{INTENT}", description=f"gpuas other {INTENT}", tags=tags(cluster="other", intent=INTENT)
    )  # fmt: skip
    console_machine(
        scene, f"real-a100-{INTENT[::-1]}", description=f"gpuas real {INTENT}"
    )  # two marks that contradict each other
    strangers = {instance["hostname"] for instance in scene.state()["instances"]}
    with running(scene.controller(QUICK | {"limits": {"machines": 1}})):
        scene.pod("train", 1)
        until("it runs on a machine of its own", lambda: runs(scene, "train"))
        scene.delete_pod("train")
        until(
            "that one is gone", lambda: len(scene.state()["volumes"]) == len(strangers) and not scene.nodes()
        )
        state = scene.state()
        assert {instance["hostname"] for instance in state["instances"]} == strangers
        assert {instance["status"] for instance in state["instances"]} == {"running"}
        assert (state["creates"], state["trash"], state["scripts"]) == (1, [], [])


def test_gpu_nodes_of_others_are_used_while_they_are_free_and_never_taken_away(
    scene: Scene, kubelets: Kubelets
) -> None:
    foreign_node(scene, "own-gpu-box", 1)
    with running(scene.controller(QUICK)):
        scene.pod("first", 1)
        until("it runs at home", lambda: runs(scene, "first"))
        assert scene.state()["creates"] == 0
        scene.pod("second", 1)
        until("the next one gets a machine", lambda: runs(scene, "second"))
        assert scene.state()["creates"] == 1
        scene.delete_pod("first")
        scene.delete_pod("second")
        until("the machine is gone", lambda: scene.empty() and scene.nodes() == ["own-gpu-box"])
        assert not marks_on(scene, "own-gpu-box")


def test_gpus_of_others_that_the_scheduler_cannot_use_do_not_count(scene: Scene, kubelets: Kubelets) -> None:
    foreign_node(scene, "cordoned", 4, unschedulable=True)
    foreign_node(scene, "reserved", 4, taints=[{"key": "team", "value": "other", "effect": "NoSchedule"}])
    with running(scene.controller(QUICK)):
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"))
        assert scene.bought() == [("1A100.22V", "FIN-01")]
        scene.delete_pod("train")
        until("the machine is gone", lambda: scene.empty() and scene.nodes() == ["cordoned", "reserved"])
        assert not marks_on(scene, "cordoned") | marks_on(scene, "reserved")


def test_a_node_with_the_name_of_one_of_our_machines_that_is_not_ours_is_left_alone(
    scene: Scene, kubelets: Kubelets
) -> None:
    """By its name it could be ours; no record and no machine says so."""
    foreign_node(scene, f"real-a100-{INTENT}", 1, providerID="aws:///eu-north-1a/i-0123456789abcdef0")
    with running(scene.controller(QUICK)):
        scene.pod("first", 1)
        until("it runs there", lambda: runs(scene, "first"))
        scene.pod("second", 1)
        until("the next one gets a machine", lambda: runs(scene, "second"))
        scene.delete_pod("first")
        scene.delete_pod("second")
        until("only ours is gone", lambda: scene.empty() and scene.nodes() == [f"real-a100-{INTENT}"])
        assert not marks_on(scene, f"real-a100-{INTENT}")
        assert scene.state()["creates"] == 1
