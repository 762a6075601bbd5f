"""Machines that run and take their time to join the cluster, or never do."""

from __future__ import annotations

import time

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import NAMESPACE, Scene, deadlines, pool, running, runs, until

ONE_TYPE = pool(instance_types=["1A100.22V"])


def test_gpus_that_come_late_buy_nothing_more_and_start_no_idle_clock(
    scene: Scene, kubelets: Kubelets
) -> None:
    kubelets.without_gpus = True
    with running(scene.controller({"scale_down": {"cooldown": "1s"}})):
        scene.pod("first", 1)
        until("its machine has registered", lambda: len(scene.nodes()) == 1)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            node = scene.core.list_node().items[0]
            assert "gpu-autoscaler/idle-since" not in (node.metadata.annotations or {})
            assert not [t for t in node.spec.taints or () if t.key.startswith("gpu-autoscaler/")]
            time.sleep(0.2)
        assert scene.state()["creates"] == 1
        kubelets.without_gpus = False
        until("it runs", lambda: runs(scene, "first"))
        assert scene.state()["creates"] == 1


def test_gpus_that_flap_right_after_the_join_are_waited_for(scene: Scene, kubelets: Kubelets) -> None:
    kubelets.without_gpus = True
    with running(scene.controller(deadlines(gpu_settle="3s"))):
        scene.pod("first", 1)
        until("its machine has registered", lambda: len(scene.nodes()) == 1)
        name = scene.nodes()[0]
        for gpus in (1, 0, 1, 0):
            kubelets.offer(name, gpus)
            time.sleep(0.6)
        scene.pod("second", 1)
        until("a machine for the second is ordered", lambda: scene.state()["creates"] == 2)
        kubelets.without_gpus = False
        until("both run", lambda: runs(scene, "first", "second"))
        assert name in scene.nodes()
        assert scene.state()["creates"] == 2


def test_a_machine_whose_script_dies_is_replaced_once_and_its_pod_is_told(
    scene: Scene, kubelets: Kubelets
) -> None:
    kubelets.never_join = 1
    with running(scene.controller(deadlines(join="5s", backoff={"first": "2s", "most": "60s"}) | ONE_TYPE)):
        scene.pod("train", 1)
        until("it is told that its machine never joined", lambda: "MachineFailed" in scene.events("train"))
        assert "never joined the cluster" in scene.said("train")
        until("it runs", lambda: runs(scene, "train"))
        state = scene.state()
        assert (state["creates"], len(state["instances"]), len(state["volumes"])) == (2, 1, 1)


def test_what_was_given_up_stays_so_after_a_restart_and_is_tried_again_once_its_token_changed(
    scene: Scene, kubelets: Kubelets
) -> None:
    settings = deadlines(join="4s", backoff={"first": "1s", "most": "1s"}) | ONE_TYPE
    kubelets.never_join = 2
    with running(scene.controller(settings)):
        scene.pod("train", 1)
        until("two machines were in vain", lambda: "bought for it in vain" in scene.said("train"))
        until("they are gone", lambda: not scene.state()["instances"])
    with running(scene.controller(settings)):
        time.sleep(5)
        assert scene.state()["creates"] == 2
    token = {"stringData": {"token": "K10x::server:another"}}
    scene.core.patch_namespaced_secret("join", NAMESPACE, token)
    with running(scene.controller(settings)):
        until("it runs", lambda: runs(scene, "train"))
        assert scene.state()["creates"] == 3
    ledger = scene.core.read_namespaced_config_map("gpu-autoscaler-ledger", NAMESPACE).data["ledger.json"]
    assert "K10x" not in ledger
