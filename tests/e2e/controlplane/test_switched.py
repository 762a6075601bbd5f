"""Machines that are switched by HTTP endpoints, on a real control plane: on for a pod, and off again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.controlplane.racks import Rack
from tests.e2e.controlplane.scene import Scene, running, runs, until
from tests.power_server import PowerServer

HARD = "gpu-autoscaler/draining"


@pytest.fixture
def power() -> Iterator[PowerServer]:
    with PowerServer() as made:
        yield made


def test_a_machine_is_switched_on_for_a_pod_and_off_again_and_its_node_is_kept(
    scene: Scene, power: PowerServer
) -> None:
    rack = Rack(scene.core, power, {"gpu-worker-1": 2, "gpu-worker-2": 8})
    try:
        with running(scene.controller(rack.settings())):
            until(
                "both keep pods away while they are off",
                lambda: all(HARD in scene.taints(n) for n in scene.nodes()),
            )
            for number in (1, 2):
                name = f"round-{number}"
                scene.pod(name, 2)
                until(f"{name} runs", lambda name=name: runs(scene, name))
                assert HARD not in scene.taints("gpu-worker-1")
                assert "gpu-worker-1 (2 GPUs) is switched on for it" in scene.events(name)["TriggeredScaleUp"]
                scene.delete_pod(name)
                until("it is off", lambda: power.powers["gpu-worker-1"] == "off", 90)
                until("it keeps pods away", lambda: HARD in scene.taints("gpu-worker-1"))
                assert sorted(scene.nodes()) == ["gpu-worker-1", "gpu-worker-2"]
            until("it is known to be off", lambda: rack.log[-1] == "off gpu-worker-1")
        assert rack.log == ["on gpu-worker-1", "off gpu-worker-1"] * 2
        assert scene.state()["creates"] == 0
    finally:
        rack.close()


def test_calls_that_fail_are_repeated_with_their_key_and_the_node_goes_where_that_is_wished(
    scene: Scene, power: PowerServer
) -> None:
    rack = Rack(scene.core, power, {"gpu-worker-1": 1})
    power.faults["*"] = [500, "reset", 503]
    try:
        with running(scene.controller(rack.settings(delete_node_when_off=True))):
            scene.pod("train", 1)
            until("it runs", lambda: runs(scene, "train"), 60)
            assert len(power.keys(True)) == 1
            assert len(power.heard) == 4
            scene.delete_pod("train")
            until("its Node is gone", lambda: not scene.nodes(), 120)
        assert rack.log == ["on gpu-worker-1", "off gpu-worker-1"]
    finally:
        rack.close()
