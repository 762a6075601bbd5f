"""Machines behind a real power server, whose Nodes are Ready in the embedded cluster while they are on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from controller.sandbox.demo.stage import Stage
from tests.power_server import PowerServer

READY = "/api/v1/nodes/{}/status"


class Rack:
    """Nodes that are Ready while their machine is on. The server's threads reach the cluster through the loop."""

    def __init__(self, stage: Stage, power: PowerServer, gpus: Mapping[str, int]) -> None:
        self.stage, self.power, self.gpus = stage, power, gpus
        self.boot = self.stop = 0.0  # seconds until its Node shows what was done
        self.boots = 0
        self.broken: list[str] = []
        self.ready: set[str] = set()
        self._loop = asyncio.get_running_loop()
        power.before = self._before
        power.on_effect = self._effect

    async def register(self, on: frozenset[str] = frozenset()) -> None:
        for name in self.gpus:
            room = {"cpu": "16", "memory": "60Gi", "pods": "110", "ephemeral-storage": "80Gi"}
            await self.stage.create(
                "/api/v1/nodes",
                {
                    "kind": "Node",
                    "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                    "spec": {"providerID": f"k3s://{name}"},
                    "status": {"capacity": room, "allocatable": room},
                },
            )
            self.power.powers[name] = "on" if name in on else "off"
            await self.set(name, name in on)

    async def set(self, name: str, on: bool) -> None:
        gpus = {"nvidia.com/gpu": str(self.gpus[name] if on else 0)}
        ready = {"type": "Ready", "status": "True" if on else "Unknown", "reason": "Kubelet"}
        body: dict[str, Any] = {"conditions": [ready], "capacity": gpus, "allocatable": gpus}
        if on:
            self.boots += 1
            body["nodeInfo"] = {"bootID": f"boot-{self.boots}"}
        await self.stage.patch(READY.format(name), {"status": body})
        (self.ready.add if on else self.ready.discard)(name)

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _before(self, name: str, on: bool) -> None:
        if not on:
            used = [
                k for k, pod in self._run(self.stage.pods()).items() if pod["spec"].get("nodeName") == name
            ]
            if used:
                self.broken.append(f"{name} is called off while {used} use it")

    def _effect(self, name: str, on: bool) -> None:
        asyncio.run_coroutine_threadsafe(self._turn(name, on), self._loop)

    async def _turn(self, name: str, on: bool) -> None:
        await asyncio.sleep(self.boot if on else self.stop)
        if self.power.powers[name] == ("on" if on else "off"):  # nobody has switched it again meanwhile
            await self.set(name, on)
