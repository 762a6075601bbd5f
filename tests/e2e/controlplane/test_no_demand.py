"""Pods that are nobody's demand for GPU machines: each of them buys nothing.

Whoever buys nothing is waited for by its witness: an ordinary pod, made later, that is bought for.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, container, pool, running, runs, until

IGNORED = "somebody-elses"


def witness(scene: Scene) -> None:
    """When this pod's machine is ordered, all that was there before has been planned as well."""
    scene.pod("witness", 2)
    until("the witness is bought for", lambda: "TriggeredScaleUp" in scene.events("witness"))
    time.sleep(1)  # orders of one plan go out together
    assert scene.state()["creates"] == 1


def test_a_workload_without_gpus_buys_nothing_however_full_the_cluster_is(
    scene: Scene, kubelets: Kubelets
) -> None:
    room = {"cpu": "2", "memory": "8Gi", "pods": "110"}
    scene.core.create_node(
        {
            "metadata": {"name": "small", "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"capacity": room, "allocatable": room},
        }
    )
    with running(scene.controller()):
        scene.daemons("agent", containers=[container(0)])
        scene.job("batch", container(0), parallelism=3, completions=3)
        scene.pod("web", 0)
        scene.pod("far-too-large", 0, containers=[container(0, cpu="64")])
        until("the large one fits nowhere", lambda: "far-too-large" in scene.waiting())
        witness(scene)
        told = {event.reason for event in scene.core.list_namespaced_event("default").items
                if event.involved_object.name != "witness"}  # fmt: skip
        assert not {"TriggeredScaleUp", "NotTriggerScaleUp"} & told


def test_pods_that_ask_to_be_left_alone_are_left_alone(scene: Scene) -> None:
    """By annotation, by scheduler, by priority, by namespace."""
    scene.namespace(IGNORED)
    scene.priority("filler", -20)
    planning = {"planning": {"ignore_namespaces": [IGNORED]}}
    with running(scene.controller(planning)):
        scene.pod("ignored", 1, meta={"annotations": {"gpu-autoscaler/ignore": "true"}})
        scene.pod("filler", 1, priorityClassName="filler")
        scene.pod("elsewhere", 1, namespace=IGNORED)
        scene.pod("of-another", 1, schedulerName="another")
        verdict = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
        scene.core.patch_namespaced_pod_status("of-another", "default", {"status": {"conditions": [verdict]}})
        alone = {"ignored", "filler", "of-another"}
        until("they wait", lambda: scene.waiting() == alone and scene.waiting(IGNORED) == {"elsewhere"})
        witness(scene)
        for name in alone:
            assert not {"TriggeredScaleUp", "NotTriggerScaleUp"} & scene.events(name).keys()


def test_a_gated_pod_buys_nothing_until_its_gate_is_removed(scene: Scene, kubelets: Kubelets) -> None:
    with running(scene.controller()):
        small = {"node.kubernetes.io/instance-type": "1A100.22V"}  # or it might take the place of the witness
        scene.pod("gated", 1, schedulingGates=[{"name": "example.com/queue"}], nodeSelector=small)
        witness(scene)
        scene.core.patch_namespaced_pod("gated", "default", {"spec": {"schedulingGates": None}})
        until("it runs", lambda: runs(scene, "gated"))
        assert scene.state()["creates"] == 2


def test_a_pod_that_asks_for_patience_is_bought_for_when_it_is_old_enough(scene: Scene) -> None:
    with running(scene.controller(pool(instance_types=["1A100.22V"]))):
        scene.pod("patient", 1, meta={"annotations": {"gpu-autoscaler/min-age": "6s"}})
        until("it waits", lambda: "patient" in scene.waiting())
        until("it is bought for", lambda: scene.state()["creates"] == 1)
        made = scene.core.read_namespaced_pod("patient", "default").metadata.creation_timestamp
        ordered = datetime.fromisoformat(scene.state()["instances"][0]["created_at"])
        assert (ordered.astimezone(UTC) - made).total_seconds() >= 6


def test_a_pod_that_is_deleted_before_its_machine_is_there_leaves_nothing(
    scene: Scene, kubelets: Kubelets
) -> None:
    kubelets.boot = 3
    with running(scene.controller({"scale_down": {"cooldown": "1s"}})):
        scene.pod("train", 1)
        until("a machine is ordered", lambda: scene.state()["creates"] == 1)
        scene.delete_pod("train")
        until("it came, and went", lambda: scene.empty() and not scene.nodes())
        assert scene.state()["creates"] == 1
