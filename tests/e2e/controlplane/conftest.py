"""One control plane for all scenarios; a fresh cloud account, namespace of pods and controller for each."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml
from kubernetes import client, config

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.plane import ControlPlane, rights_of
from tests.e2e.programs import PROGRAM, ROOT, Started, started

NAMESPACE = "gpu-autoscaler"
SETTINGS: dict[str, Any] = {
    "cluster_id": "real",
    "namespace": NAMESPACE,
    "pools": [
        {"name": "a100", "instance_types": ["1A100.22V", "2A100.44V"], "locations": ["FIN-01"], "max": 4}
    ],
    "timing": {"tick": "500ms", "poll_cloud": "1s", "poll_cloud_busy": "500ms"},
    "deadlines": {
        "gpu_settle": "500ms",
        "drain_pause": "300ms",
        "unknown_create": {"lists": 3, "over": "2s"},
    },
    "scale_down": {"cooldown": "3s"},
    "lease": {"duration": "4s", "renew": "1s", "spend_within": "3s"},
    "join": {
        "k3s": {
            "template": "k3s",
            "server": "https://10.0.0.1:6443",
            "version": "v1.36.3+k3s1",
            "token_from": {"secret": {"name": "join", "key": "token"}},
        }
    },
}


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
    """Of the controller's own ServiceAccount, with exactly the rights of the chart."""
    core = client.CoreV1Api(admin)
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    core.create_namespaced_secret(
        NAMESPACE, {"metadata": {"name": "join"}, "stringData": {"token": "K10x::server:y"}}
    )
    values = yaml.safe_dump({"config": SETTINGS, "existingSecret": "verda"})
    rendered = subprocess.run(
        [helm_bin, "template", "gpuas", str(ROOT / "charts" / "verda-gpu-autoscaler"), "-n", NAMESPACE, "-f", "-"],
        input=values, capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    made = rights_of(rendered, NAMESPACE)
    rbac = client.RbacAuthorizationV1Api(admin)
    for each in made:
        space = each["metadata"].get("namespace", NAMESPACE)
        create: dict[str, Callable[[], object]] = {
            "ServiceAccount": lambda s=space, e=each: core.create_namespaced_service_account(s, e),
            "ClusterRole": lambda e=each: rbac.create_cluster_role(e),
            "ClusterRoleBinding": lambda e=each: rbac.create_cluster_role_binding(e),
            "Role": lambda s=space, e=each: rbac.create_namespaced_role(s, e),
            "RoleBinding": lambda s=space, e=each: rbac.create_namespaced_role_binding(s, e),
        }
        create[each["kind"]]()
    account = next(each["metadata"]["name"] for each in made if each["kind"] == "ServiceAccount")
    answer = core.create_namespaced_service_account_token(
        account, NAMESPACE, client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
    )
    path = plane.folder / "controller.kubeconfig"
    path.write_text(yaml.safe_dump(plane.kubeconfig_for(answer.status.token)))
    return path


class Scene:
    """One scenario's cloud account and controller, and what it may ask of both worlds."""

    def __init__(self, admin: client.ApiClient, cloud: str, kubeconfig: Path, home: Path) -> None:
        self.core = client.CoreV1Api(admin)
        self.batch = client.BatchV1Api(admin)
        self.policy = client.PolicyV1Api(admin)
        self.cloud = cloud
        self._kubeconfig = kubeconfig
        self._home = home

    def command(self, settings: Mapping[str, Any] | None = None, name: str = "config") -> list[str]:
        path = self._home / f"{name}.yaml"
        cloud = {"verda": {"base_url": self.cloud, "client_id": "real", "client_secret": "real-not-a-key"}}
        path.write_text(json.dumps({**SETTINGS, **cloud, **(settings or {})}))
        return [
            PROGRAM, "run", "--config", str(path), "--kubeconfig", str(self._kubeconfig), "--listen", "127.0.0.1:0",
        ]  # fmt: skip

    def controller(self, settings: Mapping[str, Any] | None = None, name: str = "config") -> Started:
        return Started(self.command(settings, name), self._home)

    def pod(self, name: str, gpus: int, **spec: Any) -> None:
        limits = {"cpu": "1"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
        container = {"name": "work", "image": "work", "resources": {"limits": limits}}
        self.core.create_namespaced_pod(
            "default",
            {
                "metadata": {"name": name},
                "spec": {"restartPolicy": "Never", "containers": [container], **spec},
            },
        )

    def phase(self, name: str) -> str:
        return str(self.core.read_namespaced_pod(name, "default").status.phase)

    def delete_pod(self, name: str) -> None:
        self.core.delete_namespaced_pod(name, "default", grace_period_seconds=0)

    def nodes(self) -> list[str]:
        return [node.metadata.name for node in self.core.list_node().items]

    def events(self, name: str) -> dict[str, str]:
        found = self.core.list_namespaced_event("default", field_selector=f"involvedObject.name={name}").items
        return {event.reason: event.message for event in found}

    def state(self) -> dict[str, Any]:
        with urlopen(self.cloud.removesuffix("/v1") + "/_sandbox/state", timeout=10) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
            return found

    def tell_cloud(self, method: str, path: str, body: Any) -> None:
        url = f"{self.cloud.removesuffix('/v1')}/_sandbox/{path}"
        request = Request(url, data=json.dumps(body).encode(), method=method)  # noqa: S310
        with urlopen(request, timeout=10) as answer:  # noqa: S310
            answer.read()

    def empty(self) -> bool:
        return not any(self.state()[part] for part in ("instances", "volumes", "trash", "scripts"))


def until(what: str, holds: Callable[[], object], within: float = 60.0) -> None:
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, f"not within {within:g} s: {what}"
        time.sleep(0.1)


@pytest.fixture
def kubelets(scene: Scene) -> Iterator[Kubelets]:
    with Kubelets(scene.core, scene.cloud) as made:
        yield made


@pytest.fixture
def scene(admin: client.ApiClient, controller_kubeconfig: Path, tmp_path: Path) -> Iterator[Scene]:
    knobs = tmp_path / "cloud.yaml"
    knobs.write_text("rate_limits: false\n")
    with started(
        [PROGRAM, "sandbox", "cloud", "--speed", "200", "--settings", str(knobs)], tmp_path
    ) as cloud:
        made = Scene(admin, cloud.line(), controller_kubeconfig, tmp_path)
        try:
            yield made
        finally:
            _clean(made)


def _clean(scene: Scene) -> None:
    """Leave the shared cluster as it was found."""
    core = scene.core
    for job in scene.batch.list_namespaced_job("default").items:
        scene.batch.delete_namespaced_job(job.metadata.name, "default", propagation_policy="Background")
    for budget in scene.policy.list_namespaced_pod_disruption_budget("default").items:
        scene.policy.delete_namespaced_pod_disruption_budget(budget.metadata.name, "default")
    for pod in core.list_namespaced_pod("default").items:
        core.delete_namespaced_pod(pod.metadata.name, "default", grace_period_seconds=0)
    for node in core.list_node().items:
        core.delete_node(node.metadata.name)
    for name in ("gpu-autoscaler-ledger", "gpu-autoscaler-status"):
        if any(m.metadata.name == name for m in core.list_namespaced_config_map(NAMESPACE).items):
            core.delete_namespaced_config_map(name, NAMESPACE)
