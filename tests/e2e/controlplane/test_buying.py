"""Machines that appear for pods, on a real control plane with the sandbox cloud as Verda."""

from __future__ import annotations

import time

import pytest

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, pool, running, runs, until


@pytest.mark.long
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


def test_of_two_pools_each_pod_gets_the_machine_that_it_selects(scene: Scene, kubelets: Kubelets) -> None:
    pools = {
        "pools": [
            {"name": "a100", "instance_types": ["1A100.22V"], "locations": ["FIN-01"], "max": 2},
            {"name": "hopper", "gpu_models": ["H100"], "max_gpus": 1, "locations": ["FIN-03"], "max": 2},
        ]
    }
    with running(scene.controller(pools)):
        scene.pod("small", 1, nodeSelector={"gpu-autoscaler/pool": "a100"})
        scene.pod("fast", 1, nodeSelector={"gpu-autoscaler/gpu": "h100"})
        scene.pod(
            "nowhere", 1, nodeSelector={"gpu-autoscaler/gpu": "h100", "gpu-autoscaler/location": "FIN-01"}
        )
        until("both run", lambda: runs(scene, "small", "fast"))
        (small, fast) = scene.bought()
        assert small == ("1A100.22V", "FIN-01")
        assert fast[0].startswith("1H100")
        assert fast[1] == "FIN-03"
        until("the third is told", lambda: "NotTriggerScaleUp" in scene.events("nowhere"))
        assert scene.state()["creates"] == 2


@pytest.mark.long
def test_forty_pods_at_once_get_as_many_machines_as_one_plan_says_and_all_of_them_go(
    scene: Scene, kubelets: Kubelets
) -> None:
    settings = pool(instance_types=["2A100.44V", "4A100.88V"], max=40) | {
        "limits": {"launches_per_minute": 100},
        "disruption": {"budget": "100%"},
        "scale_down": {"cooldown": "2s"},
    }
    # Two pods share each machine. Each size has a type of its own, or the scheduler might leave single GPUs.
    sizes = {f"pod-{number:02}": 1 + number % 4 // 3 for number in range(40)}
    kinds = {1: "2A100.44V", 2: "4A100.88V"}

    def make() -> None:
        for name, gpus in sizes.items():
            scene.pod(name, gpus, nodeSelector={"node.kubernetes.io/instance-type": kinds[gpus]})

    make()
    until("all of them wait", lambda: len(scene.waiting()) == len(sizes))
    planned = sum(action["count"] for action in scene.planned(settings))
    assert planned == 15 + 5
    for name in sizes:
        scene.delete_pod(name)
    with running(scene.controller(settings)):
        make()
        until("all of them run", lambda: runs(scene, *sizes), 90)
        state = scene.state()
        assert state["creates"] == len(state["instances"]) == planned
        assert len({instance["hostname"] for instance in state["instances"]}) == planned
        for name in sizes:
            scene.delete_pod(name)
        until("every machine is gone", lambda: scene.empty() and not scene.nodes(), 90)
        assert scene.state()["creates"] == planned
