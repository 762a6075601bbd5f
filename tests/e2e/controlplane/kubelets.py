"""Machines that the sandbox cloud runs become Nodes, as a kubelet would register them; KWOK keeps them alive.

The identity comes from the script's `# gpuas-join` line, that of a predecessor's machine from its hostname. GPUs
turn up in allocatable only later; when the instance is gone nobody keeps the Node alive any more, and it stays as a
ghost until somebody deletes it.
While the API server is away everything is tried again, as kubelets do.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any
from urllib.request import urlopen

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from controller.sandbox.cluster.join import Defaults, Join, from_script

POLL = 0.2


class Kubelets:
    """A thread that follows the cloud. What goes wrong with machines is set by tests, for those to come."""

    def __init__(
        self,
        core: client.CoreV1Api,
        cloud: str,
        *,
        boot: float = 1.0,
        gpu_delay: float = 1.0,
        predecessors: Defaults | None = None,
    ) -> None:
        self._predecessors = predecessors or Defaults([])
        self._core = core
        self._state = cloud.removesuffix("/v1") + "/_sandbox/state"
        self.boot = boot  # seconds
        self.gpu_delay = gpu_delay
        self.without_gpus = False  # until it is set back
        self.sliced: int | None = None  # so many GPUs are offered by each machine, whatever it has
        self.broken_machines = 0  # so many of the next ones never offer one of their GPUs
        self.never_join = 0  # so many of the next machines never register: their script died
        self.memory = 1.0  # share of the usual memory that their Nodes offer
        self._started_again: set[str] = set()
        self._known: dict[str, str] = {}  # instance id -> node
        self._seen_at: dict[str, float] = {}
        self._gpus_at: dict[str, tuple[float, int]] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="kubelets", daemon=True)

    def __enter__(self) -> Kubelets:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(10)

    def _follow(self) -> None:
        while not self._end.wait(POLL):
            try:
                self._look()
            except (HTTPError, OSError):  # also a cloud that is too busy to answer
                continue
            except ApiException as error:
                if error.status not in (
                    429,
                    500,
                    503,
                    504,
                ):  # it says those while it starts, and when it is busy
                    raise

    def _look(self) -> None:
        with urlopen(self._state, timeout=10) as answer:  # noqa: S310
            running = {i["id"]: i for i in json.load(answer)["instances"] if i["status"] == "running"}
        now = time.monotonic()
        for found in running.values():
            if found["id"] in self._known:
                continue
            if now - self._seen_at.setdefault(found["id"], now) >= self.boot:
                self._begin(found, now)
        for name in tuple(self._started_again):
            self._started_again.discard(name)
            self._known = {known: node for known, node in self._known.items() if node != name}
        for identity in [known for known in self._known if known not in running]:
            self._fall_silent(self._known[identity])
            del self._known[identity]
        for name in [name for name, (at, _) in self._gpus_at.items() if now >= at and not self.without_gpus]:
            self.offer(name, self._gpus_at[name][1])
            del self._gpus_at[name]

    # -- what tests do to them --------------------------------------------------------------------

    def start_again(self, name: str) -> None:
        """Its Node object was deleted, and a kubelet registers only when it starts."""
        self._started_again.add(name)

    def offer(self, name: str, gpus: int) -> None:
        """The device plug-in of that node lists so many GPUs from now on."""
        amount = {"nvidia.com/gpu": str(gpus)}
        self._quietly(
            self._core.patch_node_status, name, {"status": {"capacity": amount, "allocatable": amount}}
        )

    # -- what they do by themselves ---------------------------------------------------------------

    def _begin(self, found: dict[str, Any], now: float) -> None:
        name, identity = found["hostname"], found["id"]
        told = from_script(found.get("script"), name, identity) or self._predecessors.of(name, identity)
        if told is not None and not self.never_join:
            self._register(found, told, now)
            return
        self._known[found["id"]] = ""
        if told is not None:
            self.never_join -= 1

    def _register(self, found: dict[str, Any], join: Join, now: float) -> None:
        room = {
            "cpu": str(found["cpu"]["number_of_cores"]),
            "memory": f"{int(found['memory']['size_in_gigabytes'] * 0.98 * self.memory - 1)}Gi",
            "pods": "110",
            "ephemeral-storage": "80Gi",
        }
        node = {
            "metadata": {
                "name": join.node,
                "labels": {"kubernetes.io/hostname": join.node, "kubernetes.io/os": "linux",
                           "kubernetes.io/arch": "amd64", **join.labels},
                "annotations": {"kwok.x-k8s.io/node": "fake"},
            },
            "spec": {"providerID": join.provider_id, "taints": join.taints or None},
            "status": {"capacity": room, "allocatable": room},
        }  # fmt: skip
        try:
            self._core.create_node(node)
        except ApiException as error:
            if error.status != 409:  # an answer was lost; a kubelet keeps the Node that it finds
                raise
        self._known[found["id"]] = join.node
        gpus = int(found["gpu"]["number_of_gpus"]) if self.sliced is None else self.sliced
        if self.broken_machines:
            self.broken_machines -= 1
            gpus -= 1
        if gpus > 0:
            self._gpus_at[join.node] = (now + self.gpu_delay, gpus)

    def _fall_silent(self, name: str) -> None:
        """The Node's state is not known any more.

        KWOK's stages let go of the Node by its annotation, but its Lease goes on being renewed, so the
        condition that the node lifecycle controller would set after its grace is set here.
        """
        self._gpus_at.pop(name, None)
        if name:
            self._quietly(
                self._core.patch_node, name, {"metadata": {"annotations": {"kwok.x-k8s.io/node": "gone"}}}
            )
            unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
            self._quietly(self._core.patch_node_status, name, {"status": {"conditions": [unknown]}})

    @staticmethod
    def _quietly(call: Any, *words: Any) -> None:
        try:
            call(*words)
        except ApiException as error:
            if error.status != 404:  # somebody deleted the Node
                raise
