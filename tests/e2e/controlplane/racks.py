"""Machines behind a power server whose Nodes become Ready when they are switched on.

The Node object is there from the beginning, as of a machine that has been in the cluster before, unless they are `new`
to it. Its kubelet is played here: it beats while the machine is on. Pods are bound by the real scheduler, and run
nowhere.
"""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import UTC, datetime
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.power_server import PowerServer

_BOOT, _SHOW, _STOP, _BEAT = 0.5, 1.0, 0.5, 5.0


class Rack:
    """`gpus` by machine. Boots and shutdowns take moments; GPUs show a moment later, or after `show`.

    The kubelets of `new` ones set no provider ID, as those of a cluster without a cloud do.
    """

    def __init__(
        self,
        core: client.CoreV1Api,
        power: PowerServer,
        gpus: dict[str, int],
        *,
        new: bool = False,
        show: float = _SHOW,
    ) -> None:
        self._core = core
        self._new, self._show = new, show
        self.power = power
        self._gpus = gpus
        self._since: dict[str, float] = {}  # by machine that is on
        self._beaten: dict[str, float] = {}
        self._shown: set[str] = set()
        self._end = threading.Event()
        self.log: list[str] = []
        power.on_effect = self._effect
        for name in () if new else gpus:
            self._register(name)
            self._condition(name, "Unknown", "NodeStatusUnknown")
        self._thread = threading.Thread(target=self._follow, name="rack", daemon=True)

    def __enter__(self) -> Rack:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(10)

    def settings(self, **more: Any) -> dict[str, Any]:
        machines = [
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
        return {"pools": [], "join": None, "machines": machines}

    def _effect(self, name: str, on: bool) -> None:
        self.log.append(f"{'on' if on else 'off'} {name}")

    def _follow(self) -> None:
        while not self._end.wait(0.2):
            with contextlib.suppress(HTTPError, ApiException):  # tried again, as kubelets do
                for name in self._gpus:
                    self._look(name, time.monotonic())

    def _look(self, name: str, now: float) -> None:
        on = self.power.powers.get(name) == "on"
        if on and name not in self._since:
            self._since[name] = now
        since = self._since.get(name, now)
        if on and now >= since + _BOOT and now >= self._beaten.get(name, 0.0) + _BEAT:
            self._register(name)
            if name not in self._beaten:
                boot = {"bootID": f"{name}-{since:.6f}"}
                self._core.patch_node_status(name, {"status": {"nodeInfo": boot}})
            self._condition(name, "True", "KubeletReady")
            self._beaten[name] = now
        if on and name in self._beaten and name not in self._shown and now >= since + _BOOT + self._show:
            amount = {"nvidia.com/gpu": str(self._gpus[name])}
            self._core.patch_node_status(name, {"status": {"capacity": amount, "allocatable": amount}})
            self._shown.add(name)
        if not on and name in self._since:
            if self._since[name] > 0:
                self._since[name] = -now  # when it was told
            elif now >= -self._since[name] + _STOP:
                self._condition(name, "Unknown", "NodeStatusUnknown")
                del self._since[name]
                self._beaten.pop(name, None)
                self._shown.discard(name)

    def _register(self, name: str) -> None:
        room = {"cpu": "16", "memory": "60Gi", "pods": "110", "ephemeral-storage": "80Gi"}
        node = {
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
            },
            "spec": {} if self._new else {"providerID": f"k3s://{name}"},
            "status": {"capacity": room, "allocatable": room},
        }  # fmt: skip
        try:
            self._core.create_node(node)
        except ApiException as error:
            if error.status != 409:  # a kubelet keeps the Node that it finds
                raise

    def _condition(self, name: str, status: str, reason: str) -> None:
        beat = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "Ready", "status": status, "reason": reason, "lastHeartbeatTime": beat}
        self._core.patch_node_status(name, {"status": {"conditions": [condition]}})
