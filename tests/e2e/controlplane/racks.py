"""Machines behind a power server that become Ready Nodes when they are switched on; KWOK keeps them alive.

The Node object is there from the beginning, as of a machine that has been in the cluster before, and its kubelet
comes and goes with the power.
"""

from __future__ import annotations

import threading
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.power_server import PowerServer


class Rack:
    """`gpus` by machine. Boots and shutdowns take moments; GPUs show a moment later."""

    def __init__(self, core: client.CoreV1Api, power: PowerServer, gpus: dict[str, int]) -> None:
        self._core = core
        self.power = power
        self._gpus = gpus
        self._timers: list[threading.Timer] = []
        self.log: list[str] = []
        power.on_effect = self._effect
        for name in gpus:
            self._register(name)

    def machines(self, **more: Any) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "gpu_count": count,
                "scale_up_endpoint": f"{self.power.url}/on/{name}",
                "scale_down_endpoint": f"{self.power.url}/off/{name}",
                "min_on": "0s",
                "min_off": "0s",
                **more,
            }
            for name, count in self._gpus.items()
        ]

    def settings(self, **more: Any) -> dict[str, Any]:
        return {"pools": [], "join": None, "machines": self.machines(**more)}

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()

    def _effect(self, name: str, on: bool) -> None:
        self.log.append(f"{'on' if on else 'off'} {name}")
        self._later(0.5, self._boot if on else self._fall_silent, name)

    def _later(self, seconds: float, work: Any, *words: Any) -> None:
        timer = threading.Timer(seconds, work, words)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _register(self, name: str) -> None:
        room = {"cpu": "16", "memory": "60Gi", "pods": "110", "ephemeral-storage": "80Gi"}
        ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        node = {
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
                "annotations": {"kwok.x-k8s.io/node": "gone"},
            },
            "spec": {"providerID": f"k3s://{name}"},
            "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
        }  # fmt: skip
        self._core.create_node(node)
        # A Node is created without its status.
        self._core.patch_node_status(name, {"status": node["status"]})

    def _boot(self, name: str) -> None:
        try:
            self._core.read_node(name)
        except ApiException:
            self._register(name)
        self._core.patch_node(name, {"metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}}})
        self._condition(name, "True", "KubeletReady")
        self._later(1.0, self._offer, name)

    def _offer(self, name: str) -> None:
        amount = {"nvidia.com/gpu": str(self._gpus[name])}
        self._core.patch_node_status(name, {"status": {"capacity": amount, "allocatable": amount}})

    def _fall_silent(self, name: str) -> None:
        self._core.patch_node(name, {"metadata": {"annotations": {"kwok.x-k8s.io/node": "gone"}}})
        self._condition(name, "Unknown", "NodeStatusUnknown")

    def _condition(self, name: str, status: str, reason: str) -> None:
        condition = {"type": "Ready", "status": status, "reason": reason}
        self._core.patch_node_status(name, {"status": {"conditions": [condition]}})
