"""Machines that appear for pods, on a real control plane with the sandbox cloud as Verda."""

from __future__ import annotations

import time

import pytest

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, running, runs, until


def test_from_zero_and_back_three_times(scene: Scene, kubelets: Kubelets) -> None:
    with running(scene.controller()):
        for number in (1, 2, 3):
            name = f"round-{number}"
            scene.pod(name, 1)
            until(f"{name} runs", lambda name=name: runs(scene, name))
            assert "launches 1A100.22V" in scene.events(name)["TriggeredScaleUp"]
            scene.delete_pod(name)
            until("nothing is left in the account", scene.empty)
            until("no Node is left", lambda: not scene.nodes())
        assert scene.state()["creates"] == 3


def test_mixed_sizes_and_selectors_get_the_machines_that_they_ask_for(
    scene: Scene, kubelets: Kubelets
) -> None:
    # Without the selectors the scheduler may put the small pods on the large machine; then more is needed.
    small, large = ({"node.kubernetes.io/instance-type": kind} for kind in ("1A100.22V", "2A100.44V"))
    with running(scene.controller()):
        scene.pod("a", 1, nodeSelector=small)
        scene.pod("b", 1, nodeSelector=small | {"topology.kubernetes.io/zone": "FIN-01"})
        scene.pod("c", 2, nodeSelector=large | {"gpu-autoscaler/gpu": "a100-80gb"})
        scene.pod("d", 1, nodeSelector={"gpu-autoscaler/pool": "other"})
        until("all but one run", lambda: runs(scene, "a", "b", "c"))
        assert sorted(i["instance_type"] for i in scene.state()["instances"]) == [
            "1A100.22V",
            "1A100.22V",
            "2A100.44V",
        ]
        assert "gpu-autoscaler/pool=other" in scene.events("d")["NotTriggerScaleUp"]


def test_a_pod_that_is_too_large_is_told_so_and_buys_nothing(scene: Scene, kubelets: Kubelets) -> None:
    with running(scene.controller()):
        scene.pod("huge", 16)
        until("it is told", lambda: "NotTriggerScaleUp" in scene.events("huge"))
        assert "ask for at most 2" in scene.events("huge")["NotTriggerScaleUp"]
        time.sleep(2)
        assert scene.state()["creates"] == 0


def test_nothing_more_is_bought_while_a_machine_is_on_its_way(scene: Scene, kubelets: Kubelets) -> None:
    kubelets.without_gpus = True
    with running(scene.controller()):
        scene.pod("first", 1)
        until("a machine joined, without GPUs yet", lambda: len(scene.nodes()) == 1)
        for _ in range(10):
            scene.core.patch_namespaced_pod(
                "first", "default", {"metadata": {"annotations": {"x": str(time.time())}}}
            )
            time.sleep(0.2)
        assert scene.state()["creates"] == 1
        kubelets.without_gpus = False
        until("it runs", lambda: runs(scene, "first"))
        assert scene.state()["creates"] == 1


def test_capacity_refused_now_is_bought_elsewhere(scene: Scene, kubelets: Kubelets) -> None:
    scene.tell_cloud("PUT", "stock", [{"instance_type": "1A100.22V", "count": 0}])
    with running(scene.controller()):
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"))
        assert [i["instance_type"] for i in scene.state()["instances"]] == ["2A100.44V"]


@pytest.mark.xfail(strict=True, reason="affinity between pods is planned by a later version")
def test_pods_that_repel_each_other_get_a_machine_each(scene: Scene, kubelets: Kubelets) -> None:
    pools = [{"name": "a100", "instance_types": ["2A100.44V"], "locations": ["FIN-01"], "max": 4}]
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    with running(scene.controller({"pools": pools})):
        for name in ("a", "b"):
            container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
            scene.core.create_namespaced_pod(
                "default",
                {
                    "metadata": {"name": name, "labels": {"app": "x"}},
                    "spec": {"affinity": apart, "containers": [container]},
                },
            )
        until("both run", lambda: runs(scene, "a", "b"), 20)
