"""What every measurement stands on: the control plane, a sandbox cloud, and the real program beside them.

The program is a process of its own with its ServiceAccount and the chart's rights, and its settings are
the product's defaults except for what each measurement names.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kubernetes import client

from controller.sandbox.bench.machine import resident_mib
from tests.e2e.controlplane.bench.api import Api
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.scene import NAMESPACE, SETTINGS, Scene, until
from tests.e2e.programs import PROGRAM, Started, started

# A scene is quicker than the product; here everything is as users get it, unless a measurement says so.
# An account that may have so many machines has room for their scripts.
SCRIPTS = 10_000
DEFAULTS: dict[str, Any] = {
    key: None for key in SETTINGS if key not in ("cluster_id", "namespace", "join")
} | {"verda": {"script_quota": SCRIPTS}}
TICKS = os.sysconf("SC_CLK_TCK")


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def cpu_seconds(pid: int) -> float:
    """What the process and its threads have used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Controller:
    def __init__(self, process: Started, url: str, started: float) -> None:
        self._process = process
        self.pid = process.process.pid
        self.started = started
        self._url = url

    @property
    def log(self) -> list[str]:
        return self._process.complaints

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(_read(f"{self._url}/status"))
        return found

    def metric(self, name: str) -> float:
        return _total(_read(f"{self._url}/metrics").decode(), name)

    def cpu(self) -> float:
        return cpu_seconds(self.pid)

    def resident(self) -> tuple[float, float]:
        """MiB now, and the most so far."""
        return resident_mib(self.pid)


class Stage:
    def __init__(self, plane: ControlPlane, admin: client.ApiClient, kubeconfig: Path, home: Path) -> None:
        self.plane = plane
        self.admin = admin
        self.kubeconfig = kubeconfig  # the controller's
        self.home = home
        self.api = Api(plane.kubeconfig)

    @contextlib.contextmanager
    def cloud(self, name: str = "cloud", *, speed: float = 1.0, **knobs: Any) -> Iterator[Scene]:
        """A cloud account of its own; the cluster is the same for all."""
        path = self.home / f"{name}.yaml"
        path.write_text(json.dumps({"script_quota": SCRIPTS, "balance": 1_000_000} | knobs))
        words = [PROGRAM, "sandbox", "cloud", "--speed", str(speed), "--settings", str(path)]
        with started(words, self.home) as cloud:
            yield Scene(self.admin, cloud.line(), self.kubeconfig, self.home)

    @contextlib.contextmanager
    def scene(self, *, speed: float = 1.0, last: bool = False, **knobs: Any) -> Iterator[Scene]:
        """A cloud account, and a cluster that is empty before and (unless nothing follows) after."""
        with self.cloud(speed=speed, **knobs) as scene:
            yield scene
        if not last:
            self.clear()

    @contextlib.contextmanager
    def controller(
        self, scene: Scene, settings: Mapping[str, Any], within: float = 60.0
    ) -> Iterator[Controller]:
        """Running, leading, and with ledger and inventory read."""
        command = scene.command({**DEFAULTS, **settings}, "controller")
        began = time.time()
        process = Started(command, self.home, {"DEPLOYMENT_NAME": "gpuas"})  # as the chart does
        try:
            until("the controller is in step", lambda: _told(process, "rebuilt from ledger"), within)
            listening = next(line for line in process.complaints if "listening" in line)
            found = re.search(r"address=(\S+)", listening)
            assert found, listening
            yield Controller(process, f"http://{found[1]}", began)
        except BaseException:
            print("\n".join(process.complaints[-40:]), file=sys.stderr)
            raise
        finally:
            process.end()

    def clear(self) -> None:
        core = client.CoreV1Api(self.admin)
        connection = self.api.connection()
        for space in core.list_namespace().items:
            name = space.metadata.name
            self.api.send(connection, "DELETE", f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")
            self.api.send(connection, "DELETE", f"/api/v1/namespaces/{name}/events")
        self.api.send(connection, "DELETE", "/api/v1/nodes")
        self.api.send(connection, "DELETE", f"/api/v1/namespaces/{NAMESPACE}/configmaps")
        connection.close()
        left = "no pod is left"
        until(left, lambda: not json.loads(self.api.get("/api/v1/pods?limit=1"))["items"])

    def lists(self) -> Counter[str]:
        """List requests that the API server has answered so far, whoever asked, by resource."""
        found: Counter[str] = Counter()
        for line in self.api.get("/metrics").decode().splitlines():
            if line.startswith("apiserver_request_total{") and 'verb="LIST"' in line:
                resource = re.search(r'[,{]resource="([^"]*)"', line)
                found[resource[1] if resource else ""] += int(float(line.rpartition(" ")[2]))
        return found


def requests_at(scene: Scene, method: str = "", path: str = "") -> list[dict[str, Any]]:
    """What arrived at the cloud so far."""
    url = f"{scene.cloud.removesuffix('/v1')}/_sandbox/requests?method={method}&path={path}"
    found: list[dict[str, Any]] = json.loads(_read(url))
    return found


def orders_at(scene: Scene) -> list[dict[str, Any]]:
    return requests_at(scene, "POST", "/instances")


def _total(text: str, name: str) -> float:
    """The sum of a metric over all its series, in Prometheus' text form."""
    series = (line.rpartition(" ") for line in text.splitlines() if line.startswith(name))
    return sum(float(value) for key, _, value in series if key.partition("{")[0] == name)


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310
        raw: bytes = answer.read()
        return raw


def _told(process: Started, words: str) -> bool:
    if process.process.poll() is not None:
        raise RuntimeError("the controller ended:\n" + "\n".join(process.complaints))
    return any(words in line for line in process.complaints)
