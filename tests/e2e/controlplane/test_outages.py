"""A control plane that fails under the controller: etcd that stands still, an API server that is killed."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.scene import NAMESPACE, Scene, running, runs, until
from tests.e2e.controlplane.work import (
    BY_HAND,
    PROMPT,
    deployment,
    foreign_node,
    machine_for,
    node_of,
    pods_of,
    taints,
)

pytestmark = pytest.mark.usefixtures("prompt_kubelets")


def test_an_etcd_that_is_paused_holds_nothing_up_for_good(scene: Scene, plane: ControlPlane) -> None:
    with running(scene.controller(PROMPT)):
        machine_for(scene, "first")
        plane.signal("etcd", signal.SIGSTOP)
        time.sleep(3)
        plane.signal("etcd", signal.SIGCONT)
        until("the API answers again", lambda: _answers(scene))
        machine_for(scene, "second")
        assert scene.state()["creates"] == 2


def test_nothing_is_bought_while_etcd_stands_still_for_longer_than_the_lease_and_one_for_each_pod_afterwards(
    scene: Scene, plane: ControlPlane
) -> None:
    lease = {"duration": "3s", "renew": "1s", "spend_within": "2s"}
    with running(scene.controller({**PROMPT, "lease": lease})):
        machine_for(scene, "first")
        creates = []
        with ThreadPoolExecutor(1) as during:
            scene.pod("before", 1)
            plane.signal("etcd", signal.SIGSTOP)
            try:
                created = during.submit(scene.pod, "during", 1)
                end = time.monotonic() + 9
                while time.monotonic() < end:
                    creates.append(scene.state()["creates"])
                    time.sleep(0.2)
            finally:
                plane.signal("etcd", signal.SIGCONT)
            with contextlib.suppress(ApiException, HTTPError):
                created.result(60)
        # An order for the pod that came right before may be on its way already; then nothing may follow it.
        assert set(creates[10:]) <= {creates[10]}
        assert creates[-1] <= 2
        until("the API answers again", lambda: _answers(scene))
        until("both pods are there", lambda: _is_there(scene, "during"))
        until("both run", lambda: runs(scene, "before") and runs(scene, "during"))
        assert scene.state()["creates"] == 3


def test_an_api_server_killed_while_nothing_happens_is_listed_once_where_a_version_is_too_old_for_it(
    scene: Scene, plane: ControlPlane
) -> None:
    with running(scene.controller(PROMPT)):
        machine = machine_for(scene, "first")
        before = plane.lists(NAMESPACE)
        plane.killed_and_restarted("kube-apiserver")
        until("the API answers again", lambda: plane.ready() and _answers(scene))
        machine_for(scene, "second")
        assert runs(scene, "first")
        assert node_of(scene, "first") == machine
        assert scene.state()["creates"] == 2
        # Its memory of changes begins anew: for quiet kinds it answers 410.
        assert set(Counter(plane.lists(NAMESPACE)[len(before) :]).values()) == {1}


def test_an_api_server_killed_while_one_machine_comes_and_another_one_goes(
    scene: Scene, plane: ControlPlane
) -> None:
    with running(scene.controller(PROMPT)):
        leaving = machine_for(scene, "done")
        deployment(scene, "web", notes=BY_HAND, terminationGracePeriodSeconds=600)
        until("a pod is bound there", lambda: [pod for pod in pods_of(scene, "web") if pod.spec.node_name])
        stubborn = pods_of(scene, "web")[0].metadata.name
        foreign_node(scene, "cpu")
        scene.delete_pod("done")
        until("the drain began", lambda: "gpu-autoscaler/draining" in taints(scene, leaving))
        until(
            "it waits",
            lambda: scene.core.read_namespaced_pod(stubborn, "default").metadata.deletion_timestamp,
        )
        scene.pod("next", 2)
        until("a machine is ordered for it", lambda: scene.state()["creates"] == 2)
        plane.killed_and_restarted("kube-apiserver")
        until("the API answers again", lambda: plane.ready() and _answers(scene))
        scene.delete_pod(stubborn)
        until("the one is gone", lambda: leaving not in _machines(scene))
        until("the other one does its work", lambda: runs(scene, "next"))
        until("no ghost is left", lambda: leaving not in scene.nodes())
        assert scene.state()["creates"] == 2


def _is_there(scene: Scene, name: str) -> bool:
    """Whether the answer to its creation was lost, or the pod itself was."""
    if name not in {pod.metadata.name for pod in scene.core.list_namespaced_pod("default").items}:
        scene.pod(name, 1)
    return True


def _machines(scene: Scene) -> list[str]:
    return [each["hostname"] for each in scene.state()["instances"]]


def _answers(scene: Scene) -> bool:
    try:
        scene.core.list_namespace(_request_timeout=3)
    except (ApiException, HTTPError):
        return False
    return True
