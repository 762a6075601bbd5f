"""Work that arrives at a machine while it is being taken away."""

from __future__ import annotations

import json

import pytest

from tests.e2e.controlplane.scene import NAMESPACE, Scene, running, runs, until
from tests.e2e.controlplane.work import (
    BY_HAND,
    PROMPT,
    SLOW_DRAIN,
    deployment,
    ending,
    foreign_node,
    machine_for,
    node_events,
    pods_of,
    taints,
)

pytestmark = pytest.mark.usefixtures("prompt_kubelets")


def test_a_pod_bound_past_the_scheduler_to_a_machine_that_is_being_drained_is_kept(scene: Scene) -> None:
    with running(scene.controller(SLOW_DRAIN)):
        machine = machine_for(scene, "train")
        scene.delete_pod("train")
        until("the drain began", lambda: "gpu-autoscaler/draining" in taints(scene, machine))
        scene.pod("late", 1, nodeName=machine)
        _is_kept(scene, machine)


def test_a_pod_bound_right_before_the_delete_is_seen_by_the_last_list(scene: Scene) -> None:
    with running(scene.controller(SLOW_DRAIN)):
        machine = machine_for(scene, "train")
        scene.delete_pod("train")
        until("the drain began", lambda: "gpu-autoscaler/draining" in taints(scene, machine))
        # The machine is asked for by its id right before the last list; that answer is late.
        late = {"method": "GET", "path": "/v1/instances/*", "fault": "delay_answer", "seconds": 3, "times": 1}
        scene.tell_cloud("PUT", "faults", [late])
        until("nothing is left to do but to look and to delete", lambda: _phase(scene, machine) == "deleting")
        scene.pod("late", 1, nodeName=machine)
        _is_kept(scene, machine)


def test_demand_that_returns_during_the_drain_calls_it_off_and_buys_nothing(scene: Scene) -> None:
    with running(scene.controller(PROMPT)):
        machine = machine_for(scene, "train")
        deployment(scene, "web", notes=BY_HAND, terminationGracePeriodSeconds=600)
        until("a pod is bound there", lambda: _bound(scene, machine))
        foreign_node(scene, "cpu")
        scene.delete_pod("train")
        until("the drain waits for it", lambda: ending(scene, "web"))
        assert "gpu-autoscaler/draining" in taints(scene, machine)
        assert machine_for(scene, "again") == machine
        assert scene.state()["creates"] == 1
        assert not taints(scene, machine)


def _is_kept(scene: Scene, machine: str) -> None:
    until("it is called off", lambda: "in_use" in node_events(scene, machine).get("ScaleDownFailed", ""))
    until("the taints are off", lambda: not taints(scene, machine))
    until("it runs", lambda: runs(scene, "late"))
    assert [each["hostname"] for each in scene.state()["instances"]] == [machine]
    scene.delete_pod("late")
    until("after it the machine goes", scene.empty)


def _phase(scene: Scene, machine: str) -> str:
    stored = scene.core.read_namespaced_config_map("gpu-autoscaler-ledger", NAMESPACE).data["ledger.json"]
    return next((each["phase"] for each in json.loads(stored)["machines"] if each["name"] == machine), "")


def _bound(scene: Scene, machine: str) -> bool:
    return any(pod.spec.node_name == machine for pod in pods_of(scene, "web"))
