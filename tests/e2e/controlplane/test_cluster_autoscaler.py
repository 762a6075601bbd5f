"""cluster-autoscaler at the wheel, on the real control plane: it decides, the machines and their Nodes are ours."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane import autoscaler
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.plane import ControlPlane, free_port
from tests.e2e.controlplane.scene import Scene, running, runs, until
from tests.e2e.programs import Started

PATIENCE = 110.0  # a GPU pod is looked at after thirty seconds, whatever the flags say

pytestmark = pytest.mark.full(limit=300)


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
            "externalgrpc": {"listen": f"127.0.0.1:{self.port}", "insecure": True},
            **settings,
        }
        self._count += 1
        command = self.scene.command(told, name=f"server-{self._count}")
        return Started([*command, "--driver", "externalgrpc"], self.scene.home)

    def autoscaler(self, **flags: str) -> Started:
        self._count += 1
        return autoscaler.start(
            self.driver, self._plane.kubeconfig, f"127.0.0.1:{self.port}", self._home,
            flags={key.replace("_", "-"): value for key, value in flags.items()}, name=f"autoscaler-{self._count}",
        )  # fmt: skip

    @contextlib.contextmanager
    def driven(self, *pools: Mapping[str, Any], **settings: Any) -> Iterator[tuple[Started, Started]]:
        server = self.server(*pools, **settings)
        driver = self.autoscaler()
        with running(server, driver):
            yield server, driver

    @property
    def creates(self) -> int:
        return int(self.scene.state()["creates"])


@pytest.fixture(params=autoscaler.drivers(), ids=autoscaler.label)
def stage(scene: Scene, plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> Stage:
    return Stage(scene, plane, request.param, tmp_path)


def test_a_pending_gpu_pod_gets_one_machine_and_no_second(stage: Stage, kubelets: Kubelets) -> None:
    with stage.driven():
        stage.scene.pod("train", 1)
        until("it runs", lambda: runs(stage.scene, "train"), PATIENCE)
        time.sleep(10)  # what would be bought twice is bought within a few loops
        assert stage.creates == 1
        assert len(stage.scene.nodes()) == 1
