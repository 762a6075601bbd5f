"""Machines and Nodes that disappear: by an eviction, in the console, by a hand in the cluster."""

from __future__ import annotations

import time

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, deadlines, idle_machine, pool, running, runs, until

SMALL = "1A100.22V"
QUICK = {"scale_down": {"cooldown": "1s"}}
LONG = {"scale_down": {"cooldown": "60s"}}


def test_a_node_deleted_by_hand_is_waited_for_and_nothing_is_bought_meanwhile(
    scene: Scene, kubelets: Kubelets
) -> None:
    with running(scene.controller(LONG)):
        node = idle_machine(scene)
        scene.core.delete_node(node)
        scene.pod("second", 1)
        time.sleep(3)
        assert scene.state()["creates"] == 1
        kubelets.start_again(node)
        until("it runs on the same machine", lambda: runs(scene, "second"))
        assert scene.nodes() == [node]
        assert scene.state()["creates"] == 1


def test_a_machine_whose_node_does_not_come_back_is_replaced_and_not_paid_for(
    scene: Scene, kubelets: Kubelets
) -> None:
    with running(scene.controller(LONG | deadlines(ready="6s"))):
        node = idle_machine(scene)
        scene.core.delete_node(node)
        scene.pod("second", 1)
        until("it runs on another machine", lambda: runs(scene, "second"))
        assert node not in scene.nodes()
        until("the first one is gone", lambda: len(scene.state()["volumes"]) == 1)
        assert scene.state()["creates"] == 2


def test_a_node_deleted_by_hand_before_its_gpus_came_is_waited_for_as_well(
    scene: Scene, kubelets: Kubelets
) -> None:
    kubelets.without_gpus = True
    with running(scene.controller()):
        scene.pod("first", 1)
        until("its machine has registered", lambda: len(scene.nodes()) == 1)
        (node,) = scene.nodes()
        scene.core.delete_node(node)
        time.sleep(3)
        assert scene.state()["creates"] == 1
        kubelets.start_again(node)
        kubelets.without_gpus = False
        until("it runs", lambda: runs(scene, "first"))
        assert scene.state()["creates"] == 1


def test_an_idle_machine_deleted_in_the_console_leaves_no_node_and_the_next_pod_gets_another(
    scene: Scene, kubelets: Kubelets
) -> None:
    with running(scene.controller(LONG)):
        node = idle_machine(scene)
        scene.delete_in_console(node)
        until("its Node is gone", lambda: not scene.nodes())
        until("nothing is left of it", scene.empty)
        scene.pod("second", 1)
        until("the next one runs", lambda: runs(scene, "second"))
        assert scene.state()["creates"] == 2


def test_a_disk_forgotten_in_the_console_is_deleted_with_the_rest(scene: Scene, kubelets: Kubelets) -> None:
    with running(scene.controller(LONG)):
        node = idle_machine(scene)
        (found,) = scene.state()["instances"]
        scene.console("/instances", {"id": [found["id"]], "action": "delete", "volume_ids": []})
        until("its Node is gone", lambda: node not in scene.nodes())
        until("nothing is left of it", scene.empty)


def test_a_spot_machine_taken_away_leaves_no_ghost_and_the_next_pod_gets_another(
    scene: Scene, kubelets: Kubelets
) -> None:
    soon = deadlines(backoff={"first": "1s", "most": "2s"})
    with running(scene.controller(LONG | soon | pool(instance_types=[SMALL], market="spot_only"))):
        ghost = idle_machine(scene)
        scene.tell_cloud("POST", "evict", {"hostname": ghost})
        until("the Node of the vanished machine is deleted", lambda: ghost not in scene.nodes())
        scene.pod("again", 1)
        until("the next one runs", lambda: runs(scene, "again"))
        until("the disk of the first is gone", lambda: len(scene.state()["volumes"]) == 1)


def test_a_machine_at_work_whose_node_was_deleted_by_hand_is_not_taken_away(
    scene: Scene, kubelets: Kubelets
) -> None:
    with running(scene.controller(QUICK | deadlines(ready="5s"))):
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"))
        (node,) = scene.nodes()
        scene.core.delete_node(node)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            assert [i["status"] for i in scene.state()["instances"]] == ["running"]
            time.sleep(0.2)
        kubelets.start_again(node)
        until("it has registered again", lambda: scene.nodes() == [node])
        assert runs(scene, "train")
        assert scene.state()["creates"] == 1
