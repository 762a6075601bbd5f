"""Machines that are switched by HTTP endpoints, on a real control plane: on for a pod, and off again."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.controlplane.racks import Rack
from tests.e2e.controlplane.scene import NAMESPACE, Scene, running, until
from tests.power_server import PowerServer

HARD = "gpu-autoscaler/draining"
pytestmark = pytest.mark.long  # a machine is off when it was silent for half a minute


@pytest.fixture
def power() -> Iterator[PowerServer]:
    with PowerServer() as made:
        yield made


def place_of(scene: Scene, pod: str) -> str:
    return scene.core.read_namespaced_pod(pod, "default").spec.node_name or ""


def power_of(scene: Scene) -> list[str]:
    """What the status says of each machine."""
    found = scene.core.read_namespaced_config_map("gpu-autoscaler-status", NAMESPACE).data["status.json"]
    return [each["power"] for each in json.loads(found)["switched"]]


def test_a_machine_is_switched_on_for_a_pod_and_off_again_and_its_node_is_kept(
    scene: Scene, power: PowerServer
) -> None:
    rack = Rack(scene.core, power, {"gpu-worker-1": 2, "gpu-worker-2": 8})
    with rack, running(scene.controller(rack.settings())):
        until("what is off keeps pods away", lambda: all(HARD in scene.taints(n) for n in scene.nodes()))
        for number in (1, 2):
            name = f"round-{number}"
            scene.pod(name, 2)
            until(f"{name} is bound", lambda name=name: place_of(scene, name) == "gpu-worker-1", 120)
            assert HARD not in scene.taints("gpu-worker-1")
            told = "gpu-worker-1 (2 GPUs) is switched on for it"
            until("its pod is told", lambda name=name, told=told: told in scene.said(name))
            scene.delete_pod(name)
            until("it is off", lambda: power.powers["gpu-worker-1"] == "off", 90)
            assert HARD in scene.taints("gpu-worker-1")
            until("it is known to be off", lambda: power_of(scene) == ["off", "off"], 90)
            assert sorted(scene.nodes()) == ["gpu-worker-1", "gpu-worker-2"]
    assert rack.log == ["on gpu-worker-1", "off gpu-worker-1"] * 2
    assert scene.state()["creates"] == 0


def test_calls_that_fail_are_repeated_with_their_key_and_the_node_goes_where_that_is_wished(
    scene: Scene, power: PowerServer
) -> None:
    power.faults["*"] = [500, "reset", 503]
    rack = Rack(scene.core, power, {"gpu-worker-1": 1})
    with rack, running(scene.controller(rack.settings(delete_node_when_off=True))):
        scene.pod("train", 1)
        until("it is bound", lambda: place_of(scene, "train") == "gpu-worker-1", 120)
        assert len(power.keys(True)) == 1
        assert len(power.heard) >= 2  # the second had its effect, and its answer was lost
        scene.delete_pod("train")
        until("its Node is gone", lambda: not scene.nodes(), 150)
    assert len(power.keys(False)) == 1
    assert rack.log == ["on gpu-worker-1", "off gpu-worker-1"]
