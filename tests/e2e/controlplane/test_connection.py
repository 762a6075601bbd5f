"""What networks do to the controller's connections to the API server; a proxy between them does it here."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.proxy import Proxy
from tests.e2e.controlplane.scene import NAMESPACE, Scene, running, runs, until
from tests.e2e.controlplane.work import PROMPT, machine_for
from tests.e2e.programs import Started

pytestmark = pytest.mark.usefixtures("prompt_kubelets")

WATCHED = {
    "pods", "nodes", "daemonsets", "jobs", "poddisruptionbudgets", "namespaces", "persistentvolumeclaims",
    "persistentvolumes", "storageclasses", "csinodes", "limitranges", "resourceclaims", "resourceclaimtemplates",
    "deviceclasses",
}  # fmt: skip


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[Proxy]:
    with Proxy(plane.port) as made:
        yield made


@pytest.fixture
def controller(scene: Scene, proxy: Proxy) -> Iterator[Started]:
    made = scene.controller(PROMPT, kubeconfig=scene.kubeconfig_at(proxy.port))
    with running(made):
        yield made


def test_connections_that_are_cut_are_made_anew_without_listing_again(
    scene: Scene, plane: ControlPlane, proxy: Proxy, controller: Started
) -> None:
    machine_for(scene, "first")
    before = plane.lists(NAMESPACE)
    assert set(before) >= WATCHED
    for _ in range(3):
        assert proxy.cut() >= len(WATCHED)
        until("the watches are back", lambda: len(proxy.lines) >= len(WATCHED))
    proxy.away = True
    proxy.cut()
    scene.pod("second", 1)
    time.sleep(2)
    assert scene.state()["creates"] == 1
    proxy.away = False
    until("it runs", lambda: runs(scene, "second"))
    assert scene.state()["creates"] == 2
    assert plane.lists(NAMESPACE) == before


def test_connections_that_die_without_a_word_are_noticed_soon(
    scene: Scene, plane: ControlPlane, proxy: Proxy, controller: Started
) -> None:
    machine_for(scene, "first")
    before = plane.lists(NAMESPACE)
    proxy.stall("up", "down", later_ones_too=False)
    scene.pod("second", 1)
    until("it runs", lambda: runs(scene, "second"))
    assert scene.state()["creates"] == 2
    assert plane.lists(NAMESPACE) == before


def test_a_network_that_stands_still_for_longer_than_the_lease_buys_nothing_and_recovers(
    scene: Scene, proxy: Proxy, controller: Started
) -> None:
    machine_for(scene, "first")
    proxy.stall("up", later_ones_too=True)  # it still hears of the pod, and nobody hears of its intent
    scene.pod("second", 1)
    time.sleep(5)
    assert scene.state()["creates"] == 1
    proxy.go_on()
    until("it runs", lambda: runs(scene, "second"))
    assert scene.state()["creates"] == 2


def test_a_slow_connection_only_slows_it_down(scene: Scene, proxy: Proxy) -> None:
    proxy.delay = 0.1
    # The short lease of other scenarios may be lost on a busy machine as well.
    usual = {**PROMPT, "lease": None}
    controller = scene.controller(usual, kubeconfig=scene.kubeconfig_at(proxy.port))
    with running(controller):
        machine_for(scene, "first")
        scene.delete_pod("first")
        until("nothing is left", scene.empty)
        assert scene.state()["creates"] == 1
        told = [line for line in controller.complaints if "lease  held=" in line]
        assert len(told) == 1, told  # once it is held it is not lost
