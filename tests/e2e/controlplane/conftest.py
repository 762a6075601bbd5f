"""One control plane for all scenarios; a fresh cloud account, namespace of pods and controller for each."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from tests.e2e.controlplane import access, autoscaler
from tests.e2e.controlplane.clouds import cloud
from tests.e2e.controlplane.driving import Stage
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.scene import Scene, clean

CLEANING = 120  # seconds


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    programs = os.environ.get("CONTROL_PLANE_BIN", "")
    if not (Path(programs) / "kube-apiserver").is_file():
        pytest.fail(
            "CONTROL_PLANE_BIN names no control plane; run tests/e2e/run, which builds it", pytrace=False
        )
    made = ControlPlane(Path(programs), tmp_path_factory.mktemp("plane") / "files")
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def admin(plane: ControlPlane) -> client.ApiClient:
    made: client.ApiClient = config.new_client_from_config(str(plane.kubeconfig))
    return made


@pytest.fixture(scope="session")
def controller_kubeconfig(plane: ControlPlane, admin: client.ApiClient, helm_bin: str) -> Path:
    return access.controller_kubeconfig(plane, admin, helm_bin)


@pytest.fixture
def kubelets(scene: Scene) -> Iterator[Kubelets]:
    with Kubelets(scene.core, scene.cloud, boot=0.3, gpu_delay=0.3) as made:
        yield made


@pytest.fixture
def prompt_kubelets(scene: Scene) -> Iterator[Kubelets]:
    """Of machines that boot at once."""
    with Kubelets(scene.core, scene.cloud, boot=0.1, gpu_delay=0.1) as made:
        yield made


@pytest.fixture
def scene(admin: client.ApiClient, controller_kubeconfig: Path, tmp_path: Path) -> Iterator[Scene]:
    knobs = tmp_path / "cloud.yaml"
    knobs.write_text("rate_limits: false\n")
    with cloud(tmp_path, "--speed", "200", "--settings", str(knobs)) as url:
        made = Scene(admin, url, controller_kubeconfig, tmp_path)
        try:
            yield made
        finally:
            signal.alarm(CLEANING)  # a scenario that took too long must not leave its cluster to the next one
            clean(made)


@pytest.fixture(params=autoscaler.drivers(), ids=autoscaler.label)
def stage(scene: Scene, plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> Stage:
    """With cluster-autoscaler at the wheel: once for each binary that is named, else with the stand-in."""
    return Stage(scene, plane, request.param, tmp_path)
