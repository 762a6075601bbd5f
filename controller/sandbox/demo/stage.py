"""Both worlds behind real HTTP, and the real controller between them. For the demo, benchmarks and tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

from controller.app.parts import Now, make_cloud, make_connection
from controller.app.program import Program
from controller.app.start import prepare
from controller.config.load import load
from controller.sandbox.cloud.settings import Settings as CloudSettings
from controller.sandbox.cloud.world import CloudWorld
from controller.sandbox.cluster.command import kubeconfig_of
from controller.sandbox.cluster.join import Defaults
from controller.sandbox.cluster.machines import Poll, follow
from controller.sandbox.cluster.settings import Settings as ClusterSettings
from controller.sandbox.cluster.world import ClusterWorld
from controller.sandbox.faults import Faults
from controller.sandbox.shell import Running, serve

NAMESPACE = "gpu-autoscaler"
QUICK: dict[str, Any] = {
    "namespace": NAMESPACE,
    "timing": {"tick": "500ms", "poll_cloud": "1s", "poll_cloud_busy": "1s"},
    "deadlines": {"gpu_settle": "500ms", "drain_pause": "300ms"},
    "scale_down": {"cooldown": "3s"},
    "join": {
        "k3s": {
            "template": "k3s",
            "server": "https://10.0.0.1:6443",
            "token_from": {"secret": {"name": "join", "key": "token"}},
            "version": "v1.36.3+k3s1",
        }
    },
}


class Stage:
    """`async with Stage() as stage:` — everything listens on loopback, on free ports, and ends with it."""

    def __init__(
        self,
        *,
        seed: int = 0,
        cloud: Mapping[str, Any] | None = None,
        cluster: Mapping[str, Any] | None = None,
        boots: bool = True,
        neighbour: Stage | None = None,
        defaults: Defaults | None = None,
    ) -> None:
        """`neighbour`: share that stage's cloud account instead of having one. `defaults`: for scripts that tell
        no identity."""
        self._defaults = defaults
        self._neighbour = neighbour
        self.cloud = CloudWorld(time.time, random.Random(seed), CloudSettings().changed(dict(cloud or {})))
        settings = ClusterSettings()
        settings.change(dict(cluster or {}))
        self.cluster = ClusterWorld(time.time, seed, settings)
        self.cloud_faults = Faults()
        self.cluster_faults = Faults()
        self._boots = boots
        self._folder = tempfile.TemporaryDirectory(prefix="gpu-autoscaler-stage-")
        self._running: list[Running] = []
        self._machines: asyncio.Task[None] | None = None
        self.cloud_url = ""
        self.cluster_url = ""

    @property
    def kubeconfig(self) -> str:
        return str(Path(self._folder.name) / "kubeconfig")

    async def __aenter__(self) -> Stage:
        cluster = await serve(self.cluster, faults=self.cluster_faults)
        self._running = [cluster]
        self.cluster_url = cluster.url
        if self._neighbour is not None:
            self.cloud, self.cloud_url = self._neighbour.cloud, self._neighbour.cloud_url
            self.cloud_faults = self._neighbour.cloud_faults
        else:
            cloud = await serve(self.cloud, faults=self.cloud_faults)
            self._running.append(cloud)
            self.cloud_url = cloud.url
        self._write_kubeconfig()
        if self._boots:
            self._machines = asyncio.create_task(follow(self.cloud_url, Poll(self.cluster, self._defaults)))
        self._http = aiohttp.ClientSession()
        await self.create("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": NAMESPACE}})
        await self.create(
            f"/api/v1/namespaces/{NAMESPACE}/secrets",
            {
                "kind": "Secret",
                "metadata": {"name": "join"},
                "stringData": {"token": "K10::server:not-a-real-token"},
            },
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._machines is not None:
            self._machines.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._machines
        await self._http.close()
        for running in self._running:
            await running.stop()
        self._folder.cleanup()

    def _write_kubeconfig(self) -> None:
        Path(self.kubeconfig).write_text(json.dumps(kubeconfig_of(self.cluster_url)), encoding="utf-8")

    # -- the worlds, as a user would reach them ----------------------------------------------------

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        async with self._http.post(self.cluster_url + path, json=body) as answer:
            found: dict[str, Any] = await answer.json()
            if answer.status >= 300:
                raise RuntimeError(f"POST {path}: {found.get('message')}")
            return found

    async def delete(self, path: str) -> None:
        async with self._http.delete(self.cluster_url + path) as answer:
            await answer.read()

    async def patch(self, path: str, body: Mapping[str, Any]) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        async with self._http.patch(
            self.cluster_url + path, data=json.dumps(body), headers=headers
        ) as answer:
            if answer.status >= 300:
                raise RuntimeError(f"PATCH {path}: {await answer.text()}")

    async def get(self, path: str) -> dict[str, Any]:
        async with self._http.get(self.cluster_url + path) as answer:
            found: dict[str, Any] = await answer.json()
            return found

    async def pod(self, name: str, gpus: int, *, run_for: float | None = None, **spec: Any) -> dict[str, Any]:
        """A pod that wants GPUs and ends after `run_for` machine-seconds."""
        limits = {"cpu": "1", "memory": "4Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
        container = {"name": "work", "image": "registry.local/work:1", "resources": {"limits": limits}}
        notes = {} if run_for is None else {"gpu-autoscaler-sandbox/run-for": f"{run_for:g}s"}
        body = {
            "kind": "Pod",
            "metadata": {"name": name, "annotations": notes},
            "spec": {"restartPolicy": "Never", "containers": [container], **spec},
        }
        return await self.create("/api/v1/namespaces/default/pods", body)

    async def pods(self) -> dict[str, dict[str, Any]]:
        found = await self.get("/api/v1/namespaces/default/pods")
        return {pod["metadata"]["name"]: pod for pod in found["items"]}

    async def tell_cloud(self, method: str, path: str, body: Any) -> Any:
        """A control path of the sandbox cloud."""
        async with self._http.request(method, f"{self.cloud_url}/_sandbox/{path}", json=body) as answer:
            text = await answer.text()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {text}")
            return json.loads(text) if answer.content_type == "application/json" and text else text

    async def tell_cluster(self, method: str, path: str, body: Any) -> None:
        """A control path of the sandbox cluster."""
        async with self._http.request(method, f"{self.cluster_url}/_sandbox/{path}", json=body) as answer:
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {await answer.text()}")

    async def bill(self) -> dict[str, Any]:
        async with self._http.get(self.cloud_url + "/_sandbox/state") as answer:
            found: dict[str, Any] = await answer.json()
            return found

    # -- the controller --------------------------------------------------------------------------------

    async def program(
        self, settings: Mapping[str, Any], *, identity: str = "stage", dry_run: bool = False
    ) -> Program:
        """The real controller, made from settings as a file would hold them, over QUICK ones."""
        text = json.dumps(merged(QUICK, settings))
        environ = {
            "VERDA_CLIENT_ID": "stage-client",
            "VERDA_CLIENT_SECRET": "stage-client-key",
            "VERDA_BASE_URL": self.cloud_url + "/v1",
        }
        loaded = load("stage.yaml", environ, text=text)
        now = Now()
        connection = await make_connection(self.kubeconfig, environ, now)
        cloud = make_cloud(loaded.settings, now)
        return await prepare(loaded, connection, cloud, now, identity=identity, dry_run=dry_run)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Maps are merged, everything else is replaced."""
    result = dict(below)
    for key, value in above.items():
        known = result.get(key)
        result[key] = (
            merged(known, value) if isinstance(known, dict) and isinstance(value, Mapping) else value
        )
    return result
