"""How pods leave a machine that goes, and how long it waits for them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.scene import NAMESPACE, Scene, running, until
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
    says,
    taints,
    why,
)

pytestmark = pytest.mark.usefixtures("prompt_kubelets")


def test_pods_of_deployments_move_to_another_node_through_the_eviction_api_also_with_an_empty_dir(
    scene: Scene, plane: ControlPlane
) -> None:
    before = len(plane.audited(NAMESPACE))
    with running(scene.controller(PROMPT)):
        machine = machine_for(scene, "train")
        deployment(scene, "web")
        deployment(scene, "cache", volumes=[{"name": "scratch", "emptyDir": {}}])
        until("both run on the machine", lambda: _all_on(scene, machine, "web", "cache"))
        foreign_node(scene, "cpu")
        scene.delete_pod("train")
        until("the machine is gone", scene.empty)
        until("they run elsewhere", lambda: _all_on(scene, "cpu", "web", "cache"))
    asked = [(each["verb"], _what(each)) for each in plane.audited(NAMESPACE)[before:]]
    assert asked.count(("create", "pods/eviction")) == 2
    assert ("delete", "pods") not in asked


def test_a_disruption_budget_that_blocks_is_named_and_waited_for(scene: Scene, plane: ControlPlane) -> None:
    before = len(plane.audited(NAMESPACE))
    controller = scene.controller(PROMPT)
    with running(controller):
        machine = machine_for(scene, "train")
        deployment(scene, "web")
        until("it runs on the machine", lambda: _all_on(scene, machine, "web"))
        _budget(scene, "web", minAvailable=1)
        foreign_node(scene, "cpu")
        scene.delete_pod("train")
        until("the budget is named", lambda: why(controller, machine)[0] == "pdb")
        assert "default/web" in why(controller, machine)[1]
        time.sleep(2)
        assert _all_on(scene, machine, "web")
        assert not taints(scene, machine)
        assert not [each for each in plane.audited(NAMESPACE)[before:] if _what(each) == "pods/eviction"]
        scene.policy.delete_namespaced_pod_disruption_budget("web", "default")
        _budget(scene, "web", maxUnavailable=1)
        until("then the machine goes", scene.empty)
        until("it runs elsewhere", lambda: _all_on(scene, "cpu", "web"))


def test_a_budget_that_begins_to_block_during_the_drain_is_named_and_waited_for(scene: Scene) -> None:
    controller = scene.controller(SLOW_DRAIN)
    with running(controller):
        machine = machine_for(scene, "train")
        deployment(scene, "web")
        until("it runs on the machine", lambda: _all_on(scene, machine, "web"))
        foreign_node(scene, "cpu")
        scene.delete_pod("train")
        until("the drain began", lambda: "gpu-autoscaler/draining" in taints(scene, machine))
        _budget(scene, "web", minAvailable=1)
        until("the budget is named", lambda: why(controller, machine)[0] == "pdb")
        assert "default/web" in why(controller, machine)[1]
        assert _all_on(scene, machine, "web")
        scene.policy.delete_namespaced_pod_disruption_budget("web", "default")
        until("then the machine goes", scene.empty)


def test_of_two_machines_the_second_goes_when_the_pod_of_the_first_is_up_again(scene: Scene) -> None:
    controller = scene.controller(PROMPT)
    with running(controller):
        machines = [machine_for(scene, name) for name in ("a", "b")]
        for app, other in (("web-0", machines[1]), ("web-1", machines[0])):
            deployment(scene, app, notes=BY_HAND, affinity={"nodeAffinity": _not_on(other)})
            _starts(scene, app)
        every = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
        _budget(scene, "both", every, minAvailable=1)
        foreign_node(scene, "cpu")
        for name in ("a", "b"):
            scene.delete_pod(name)
        until("one of the two was told to end", lambda: ending(scene, "web-0", "web-1"))
        [first] = ending(scene, "web-0", "web-1")
        scene.delete_pod(first)
        until("one machine is gone", lambda: len(scene.state()["instances"]) == 1)
        until("the other one is held", lambda: "pdb" in [why(controller, name)[0] for name in machines])
        time.sleep(2)
        assert len(scene.state()["instances"]) == 1
        assert not ending(scene, "web-0", "web-1")
        _starts(scene, first.rpartition("-")[0].rpartition("-")[0])
        until("the other was told to end as well", lambda: ending(scene, "web-0", "web-1"))
        scene.delete_pod(ending(scene, "web-0", "web-1")[0])
        until("both machines are gone", scene.empty)


def test_a_pod_that_ignores_its_end_is_waited_for_and_the_drain_given_up_in_time(scene: Scene) -> None:
    patience = {**PROMPT, "deadlines": {**PROMPT["deadlines"], "eviction_grace": "2s"}}
    with running(scene.controller(patience)):
        machine = machine_for(scene, "train")
        deployment(scene, "web", notes=BY_HAND, terminationGracePeriodSeconds=600)
        _starts(scene, "web")
        foreign_node(scene, "cpu")
        scene.delete_pod("train")
        until("it was told to end", lambda: ending(scene, "web"))
        until("the drain is given up", lambda: "ScaleDownFailed" in node_events(scene, machine))
        assert "did not leave in time" in node_events(scene, machine)["ScaleDownFailed"]
        # Idle as it is it is asked to be avoided at once, and drained again a second later.
        until("it takes pods again", lambda: "gpu-autoscaler/draining" not in taints(scene, machine))
        assert len(scene.state()["instances"]) == 1
        scene.delete_pod(ending(scene, "web")[0])  # as its kubelet does in the end
        until("then the machine goes", scene.empty)


def _starts(scene: Scene, app: str) -> None:
    """The test starts it, in the place of KWOK."""
    until("it is bound", lambda: [pod for pod in pods_of(scene, app) if pod.spec.node_name])
    says(scene, next(pod.metadata.name for pod in pods_of(scene, app) if pod.spec.node_name), "Running")


def _not_on(node: str) -> dict[str, Any]:
    rule = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [rule]}]
        }
    }


def _all_on(scene: Scene, node: str, *apps: str) -> bool:
    found = [pod for app in apps for pod in pods_of(scene, app) if pod.metadata.deletion_timestamp is None]
    return len(found) >= len(apps) and all(
        pod.spec.node_name == node and pod.status.phase == "Running" for pod in found
    )


def _budget(scene: Scene, name: str, selector: dict[str, Any] | None = None, **bound: int) -> None:
    spec = {"selector": selector or {"matchLabels": {"app": name}}, **bound}
    scene.policy.create_namespaced_pod_disruption_budget(
        "default", {"metadata": {"name": name}, "spec": spec}
    )

    def counted() -> bool:
        status = scene.policy.read_namespaced_pod_disruption_budget(name, "default").status
        return bool(status and status.current_healthy)

    until("the budget is counted", counted)


def _what(audited: dict[str, Any]) -> str:
    about = audited.get("objectRef", {})
    return "/".join(about[part] for part in ("resource", "subresource") if part in about)
