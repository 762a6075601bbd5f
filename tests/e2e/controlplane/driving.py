"""A scenario with cluster-autoscaler at the wheel: our server, and whoever drives it."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.e2e.controlplane import autoscaler
from tests.e2e.controlplane.plane import ControlPlane, free_port
from tests.e2e.controlplane.scene import Scene, running
from tests.e2e.programs import ROOT, Started

PATIENCE = 110.0  # a GPU pod is looked at after thirty seconds, whatever the flags say


def group(name: str = "a100", kind: str = "1A100.22V", **more: Any) -> dict[str, Any]:
    return {"name": name, "instance_types": [kind], "locations": ["FIN-01"], "max": 3, **more}


class Stage:
    """One scenario: our server, and whoever drives it."""

    def __init__(self, scene: Scene, plane: ControlPlane, driver: str, home: Path) -> None:
        self.scene, self.driver = scene, driver
        self._plane, self._home = plane, home
        self.port = free_port()
        self._count = 0

    def server(self, *pools: Mapping[str, Any], **settings: Any) -> Started:
        told = {
            "pools": list(pools or (group(),)),
            "externalgrpc": self.told(),
            **settings,
        }
        self._count += 1
        command = self.scene.command(told, name=f"server-{self._count}")
        return Started([*command, "--driver", "externalgrpc"], self.scene.home)

    def told(self, **more: Any) -> dict[str, Any]:
        """How the server is reached: plain, and whatever else is set."""
        return {"listen": f"127.0.0.1:{self.port}", "insecure": True, **more}

    def python_provider(self, *pools: Mapping[str, Any]) -> Started:
        """The same under the Python provider's name and with its options; it listens on every address."""
        self._count += 1
        command = self.scene.command({"pools": list(pools or (group(),))}, name=f"server-{self._count}")
        config, kubeconfig = (command[command.index(word) + 1] for word in ("--config", "--kubeconfig"))
        name = str(Path(command[0]).with_name("verda-cloud-provider"))
        words = [
            "--config",
            config,
            "--port",
            str(self.port),
            "--log-level",
            "INFO",
            "--kubeconfig",
            kubeconfig,
        ]
        return Started([name, *words, "--listen", "127.0.0.1:0"], self.scene.home)

    def autoscaler(
        self, certificates: Mapping[str, str] | None = None, *, port: int = 0, **flags: str
    ) -> Started:
        """`port`: of something between it and the server."""
        self._count += 1
        address = f"127.0.0.1:{port or self.port}"
        return autoscaler.start(
            self.driver, self._plane.kubeconfig, address, self._home, certificates=certificates,
            flags={key.replace("_", "-"): value for key, value in flags.items()}, name=f"autoscaler-{self._count}",
        )  # fmt: skip

    def late(self, method: str, late: str, seconds: float) -> Started:
        """Stands before the server: the first call of that method, or its answer, comes so much too late."""
        return self._relay("--method", method, "--late", late, "--seconds", str(seconds))

    def mislabelled(self) -> Started:
        """Stands before the server: to the driver no node seems to be one with GPUs that may still come."""
        return self._relay("--gpu-label", "somebody.else/gpu")

    def _relay(self, *words: str) -> Started:
        command = [sys.executable, "-m", "tests.e2e.controlplane.relay", "--to", str(self.port), *words]
        return Started(command, self.scene.home, {"PYTHONPATH": str(ROOT)})

    @property
    def release(self) -> tuple[int, int]:
        """Of the driver; the stand-in behaves as the newest."""
        found = re.search(r"1\.(\d+)", autoscaler.label(self.driver))
        return (1, int(found[1])) if found else (1, 99)

    @contextlib.contextmanager
    def driven(self, *pools: Mapping[str, Any], **settings: Any) -> Iterator[tuple[Started, Started]]:
        server = self.server(*pools, **settings)
        driver = self.autoscaler()
        with running(server, driver):
            yield server, driver

    @property
    def creates(self) -> int:
        return int(self.scene.state()["creates"])


def settled(stage: Stage) -> bool:
    """Nothing is left in the cluster nor in the account."""
    return not stage.scene.nodes() and stage.scene.empty() and not stage.scene.live()
