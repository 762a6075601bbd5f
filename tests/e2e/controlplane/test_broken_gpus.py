"""Machines that joined and whose GPUs never come, are fewer than promised, or are lost."""

from __future__ import annotations

import time

import pytest

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, deadlines, idle_machine, pool, running, runs, until

ONE_TYPE = pool(instance_types=["1A100.22V"])
TWO_GPUS = pool(instance_types=["2A100.44V"])
QUICK = {"scale_down": {"cooldown": "1s"}}


@pytest.mark.long
def test_gpus_that_never_come_cost_two_machines_and_not_a_third(scene: Scene, kubelets: Kubelets) -> None:
    kubelets.without_gpus = True
    with running(scene.controller(deadlines(gpu="3s", backoff={"first": "1s", "most": "2s"}) | ONE_TYPE)):
        scene.pod("train", 1)
        until("its machine failed", lambda: "MachineFailed" in scene.events("train"))
        assert "nvidia.com/gpu: 0 of 1" in scene.said("train")
        until("it was replaced", lambda: scene.state()["creates"] == 2)
        until("both are gone", scene.empty)
        time.sleep(4)  # twice the longest back-off
        assert scene.state()["creates"] == 2
        assert "nothing more is bought" in scene.said("train")
        until("their Nodes are gone", lambda: not scene.nodes())
        scene.delete_pod("train")
        kubelets.without_gpus = False
        scene.pod("train", 1)
        until("made anew it gets a machine, and runs", lambda: runs(scene, "train"))


def test_a_machine_with_fewer_gpus_than_promised_is_replaced(scene: Scene, kubelets: Kubelets) -> None:
    kubelets.broken_machines = 1
    with running(scene.controller(deadlines(gpu="5s", backoff={"first": "1s", "most": "2s"}) | TWO_GPUS)):
        scene.pod("train", 2)
        until("its machine failed", lambda: "MachineFailed" in scene.events("train"))
        assert "nvidia.com/gpu: 1 of 2" in scene.said("train")
        until("it runs", lambda: runs(scene, "train"))
        until("only the good one is left", lambda: len(scene.state()["instances"]) == 1)
        assert scene.state()["creates"] == 2


def test_a_broken_machine_is_not_taken_away_under_the_work_that_found_a_gpu_on_it(
    scene: Scene, kubelets: Kubelets
) -> None:
    kubelets.broken_machines = 1
    with running(scene.controller(QUICK | deadlines(gpu="6s") | TWO_GPUS)):
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"))
        (node,) = scene.nodes()
        until("its machine is tainted", lambda: "gpu-autoscaler/draining" in scene.taints(node))
        time.sleep(3)
        assert runs(scene, "train")
        assert [i["status"] for i in scene.state()["instances"]] == ["running"]
        assert scene.state()["creates"] == 1


def test_gpus_lost_for_a_while_are_waited_for_and_replaced_when_that_is_too_long(
    scene: Scene, kubelets: Kubelets
) -> None:
    with running(scene.controller({"scale_down": {"cooldown": "60s"}} | deadlines(gpu_lost="4s") | ONE_TYPE)):
        node = idle_machine(scene)
        lost = time.monotonic()
        kubelets.offer(node, 0)
        scene.pod("second", 1)
        until("another machine is ordered", lambda: scene.state()["creates"] == 2)
        assert time.monotonic() - lost >= 4, "that its GPUs are lost is believed after four seconds"
        until("it runs on another machine", lambda: runs(scene, "second"))
        until(
            "the first one is gone", lambda: len(scene.state()["volumes"]) == 1 and node not in scene.nodes()
        )
        assert scene.state()["creates"] == 2


def test_three_machines_that_fail_at_once_stop_the_buying_and_their_pods_are_told(
    scene: Scene, kubelets: Kubelets
) -> None:
    kubelets.without_gpus = True
    with running(scene.controller(deadlines(gpu="6s", backoff={"first": "6s", "most": "6s"}) | ONE_TYPE)):
        for name in ("a", "b", "c"):
            scene.pod(name, 1)
        until("three machines have registered", lambda: len(scene.nodes()) == 3)
        sick = set(scene.nodes())
        brake = "3 of 3 machines are unhealthy at once (gpu_deadline)"
        until("a pod is told", lambda: brake in scene.said("a"))
        until("all three are gone", lambda: not sick & set(scene.nodes()))
        kubelets.without_gpus = False
        until("with the fault mended all of them run", lambda: runs(scene, "a", "b", "c"))
        until("only good machines are left", lambda: len(scene.state()["instances"]) == 3)
        assert scene.state()["creates"] == 6
