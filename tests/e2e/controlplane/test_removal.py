"""Machines that go when nothing needs them, and never under running work."""

from __future__ import annotations

import time

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, running, runs, until


def test_a_running_job_is_never_disturbed_and_a_free_machine_goes(scene: Scene, kubelets: Kubelets) -> None:
    with running(scene.controller()):
        scene.pod("stays", 1)
        scene.pod("leaves", 1)
        until("both run", lambda: runs(scene, "stays", "leaves"))
        scene.delete_pod("leaves")
        until("one machine is gone", lambda: len(scene.state()["instances"]) == 1)
        time.sleep(4)
        assert runs(scene, "stays")
        assert len(scene.state()["instances"]) == 1


def test_a_node_that_must_not_be_disrupted_stays(scene: Scene, kubelets: Kubelets) -> None:
    with running(scene.controller()):
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"))
        name = scene.nodes()[0]
        scene.core.patch_node(name, {"metadata": {"annotations": {"gpu-autoscaler/do-not-disrupt": "true"}}})
        scene.delete_pod("train")
        time.sleep(7)
        assert scene.nodes() == [name]
        scene.core.patch_node(name, {"metadata": {"annotations": {"gpu-autoscaler/do-not-disrupt": None}}})
        until("then it goes", scene.empty)
