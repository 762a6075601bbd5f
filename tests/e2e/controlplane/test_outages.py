"""Controllers that are killed, frozen or doubled, and a control plane that fails under them."""

from __future__ import annotations

import signal
import time

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.scene import NAMESPACE, Scene, running, runs, until


def test_of_two_replicas_one_acts_and_the_other_takes_over_when_it_is_killed(
    scene: Scene, kubelets: Kubelets
) -> None:
    one, two = scene.controller(name="one"), scene.controller(name="two")
    with running(one, two):
        scene.pod("first", 1)
        until("it runs", lambda: runs(scene, "first"))
        one.process.send_signal(signal.SIGKILL)
        scene.pod("second", 1)
        until("the next one runs as well", lambda: runs(scene, "second"))
        assert scene.state()["creates"] == 2


def test_a_leader_that_was_frozen_for_longer_than_the_lease_buys_nothing_twice(
    scene: Scene, kubelets: Kubelets
) -> None:
    one = scene.controller(name="one")
    with running(one):
        scene.pod("first", 1)
        until("it runs", lambda: runs(scene, "first"))
        one.process.send_signal(signal.SIGSTOP)
        two = scene.controller(name="two")
        with running(two):
            scene.pod("second", 1)
            until("the other replica bought for it", lambda: scene.state()["creates"] == 2)
            one.process.send_signal(signal.SIGCONT)
            until("it runs", lambda: runs(scene, "second"))
            time.sleep(3)
            assert scene.state()["creates"] == 2


def test_an_etcd_that_is_paused_holds_nothing_up_for_good(
    scene: Scene, kubelets: Kubelets, plane: ControlPlane
) -> None:
    with running(scene.controller()):
        scene.pod("first", 1)
        until("it runs", lambda: runs(scene, "first"))
        plane.signal("etcd", signal.SIGSTOP)
        time.sleep(3)
        plane.signal("etcd", signal.SIGCONT)
        until("the API answers again", lambda: _answers(scene))
        scene.pod("second", 1)
        until("the next one runs", lambda: runs(scene, "second"))
        assert scene.state()["creates"] == 2


def _answers(scene: Scene) -> bool:
    try:
        scene.core.list_namespace(_request_timeout=3)
    except (ApiException, HTTPError):
        return False
    return True


def test_a_deleted_ledger_is_rebuilt_from_the_marks_and_nothing_is_bought_twice(
    scene: Scene, kubelets: Kubelets
) -> None:
    with running(scene.controller()):
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"))
    scene.core.delete_namespaced_config_map("gpu-autoscaler-ledger", NAMESPACE)
    with running(scene.controller()):
        time.sleep(6)
        assert scene.state()["creates"] == 1
        scene.delete_pod("train")
        until("it is taken away all the same", scene.empty)
