"""Machines of one's own under cluster-autoscaler, on the real control plane: switched on for a pod, and off when idle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.controlplane.driving import PATIENCE, Stage, group
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.racks import Rack
from tests.e2e.controlplane.scene import Scene, running, runs, until
from tests.power_server import PowerServer

pytestmark = pytest.mark.full(limit=400)
ROOM = {"cpu": "16", "memory": "60Gi", "ephemeral-storage": "80Gi"}


@pytest.fixture
def power() -> Iterator[PowerServer]:
    with PowerServer() as made:
        yield made


def machines(rack: Rack) -> Any:
    return rack.settings(delete_node_when_off=True, resources=ROOM)["machines"]


def place_of(scene: Scene, pod: str) -> str:
    return scene.core.read_namespaced_pod(pod, "default").spec.node_name or ""


def test_an_own_machine_is_switched_on_for_a_pod_and_off_when_idle_and_nothing_is_bought(
    stage: Stage, power: PowerServer
) -> None:
    """Its kubelet sets neither provider ID nor GPU label, and its GPUs show long after it is Ready."""
    scene = stage.scene
    rack = Rack(scene.core, power, {"gpu-worker-1": 2}, new=True, show=8.0)
    server = stage.server(group(), machines=machines(rack))
    with rack, running(server, stage.autoscaler(expander="price")):
        scene.pod("first", 2)
        until("it is bound", lambda: place_of(scene, "first") == "gpu-worker-1", PATIENCE + 30)
        node = scene.core.read_node("gpu-worker-1")
        assert node.spec.provider_id == "verda://gpu-worker-1"
        assert "gpu-autoscaler/gpu" in node.metadata.labels
        scene.delete_pod("first")
        until("it is off", lambda: power.powers["gpu-worker-1"] == "off", PATIENCE)
        until("its Node is gone", lambda: not scene.nodes(), PATIENCE)
        scene.pod("second", 2)
        until("it is bound again", lambda: place_of(scene, "second") == "gpu-worker-1", PATIENCE + 30)
    assert rack.log == ["on gpu-worker-1", "off gpu-worker-1", "on gpu-worker-1"]
    assert stage.creates == 0


def test_a_machine_that_cannot_be_switched_on_is_a_failed_creation_and_another_group_is_taken(
    stage: Stage, power: PowerServer, kubelets: Kubelets
) -> None:
    scene = stage.scene
    power.faults["/on/gpu-worker-1"] = [404]
    rack = Rack(scene.core, power, {"gpu-worker-1": 1}, new=True)
    server = stage.server(group(), machines=machines(rack))
    with rack, running(server, stage.autoscaler(expander="price")):
        scene.pod("train", 1)
        until("it runs on a bought one", lambda: runs(scene, "train"), 2 * PATIENCE)
        assert stage.creates == 1
        assert len(power.heard) == 1
