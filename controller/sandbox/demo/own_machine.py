"""A machine of one's own in the demo: two HTTP endpoints that switch it, and its Node, which is Ready while it is on.

It is answered at once and boots a moment later, as machines do: the answer is no proof, the Node is.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from aiohttp import web

from controller.sandbox.demo.stage import Stage

NAME = "workstation"
GPUS = 4
TAINT = {"key": "owner", "value": "lab", "effect": "NoSchedule"}
_BOOT, _STOP = 2.0, 0.5


class OwnMachine:
    """`async with OwnMachine(stage) as own:` registers its Node, off, and listens on a free port of loopback."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._tasks: set[asyncio.Task[None]] = set()
        self.calls: list[str] = []
        self.url = ""

    async def __aenter__(self) -> OwnMachine:
        room = {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "400Gi"}
        await self._stage.create(
            "/api/v1/nodes",
            {
                "kind": "Node",
                "metadata": {"name": NAME, "labels": {"kubernetes.io/hostname": NAME}},
                "spec": {"providerID": f"k3s://{NAME}", "taints": [TAINT]},
                "status": {"capacity": room, "allocatable": room},
            },
        )
        await self._show(False)
        app = web.Application()
        app.router.add_post("/{verb:start|stop}", self._switch)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._runner.cleanup()

    def settings(self) -> dict[str, Any]:
        """The four keys that every switched machine has; it may go off at once, because the demo is short."""
        return {
            "name": NAME,
            "gpu_count": GPUS,
            "scale_up_endpoint": f"{self.url}/start",
            "scale_down_endpoint": f"{self.url}/stop",
            "min_on": "0s",
        }

    async def _switch(self, request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        self.calls.append(verb)
        task = asyncio.create_task(self._become(verb == "start"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return web.json_response({"accepted": verb})

    async def _become(self, on: bool) -> None:
        await asyncio.sleep(_BOOT if on else _STOP)
        await self._show(on)

    async def _show(self, on: bool) -> None:
        gpus = {"nvidia.com/gpu": str(GPUS if on else 0)}
        ready = {"type": "Ready", "status": "True" if on else "Unknown", "reason": "Kubelet"}
        status = {"conditions": [ready], "capacity": gpus, "allocatable": gpus}
        await self._stage.patch(f"/api/v1/nodes/{NAME}/status", {"status": status})
