"""Machines with a real kubelet and containerd: who they are, what they run, and how they leave.

They join with what the product's own startup script says, by a bootstrap token and a certificate of
their own, so that the Node authorizer and NodeRestriction are in force.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import NotFoundException

from controller.domain.node_labels import WELL_KNOWN
from tests.e2e.controlplane.node import image
from tests.e2e.controlplane.node.admission import token_for_machines
from tests.e2e.controlplane.node.history import History, gpus, ready
from tests.e2e.controlplane.node.machines import Machines
from tests.e2e.controlplane.node.needs import lacking
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.scene import NAMESPACE, Scene, deadlines, pool, running, until

pytestmark = [pytest.mark.skipif(bool(lacking()), reason=lacking()), pytest.mark.long]

GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
ZONE = "topology.kubernetes.io/zone"
TOLERATED = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
POOL = {
    "name": "a100",
    "instance_types": ["1A100.22V"],
    "locations": ["FIN-01"],
    "max": 2,
    "labels": {"team": "ml", "node.kubernetes.io/tier": "gold"},
    "taints": [TAINT],
}
BELIEVED = {
    "gpu-autoscaler/pool": "a100",
    "gpu-autoscaler/location": "FIN-01",
    "gpu-autoscaler/market": "on-demand",
    "gpu-autoscaler/gpu": "a100-80gb",
    "node.kubernetes.io/instance-type": "1A100.22V",
    "beta.kubernetes.io/instance-type": "1A100.22V",
    "topology.kubernetes.io/region": "FIN-01",
    ZONE: "FIN-01",
    "team": "ml",
    "node.kubernetes.io/tier": "gold",
}


@pytest.fixture(scope="session")
def token(admin: client.ApiClient, controller_kubeconfig: Path) -> str:
    """For machines, and where the controller reads it."""
    made = token_for_machines(admin)
    client.CoreV1Api(admin).patch_namespaced_secret("join", NAMESPACE, {"stringData": {"bootstrap": made}})
    return made


@pytest.fixture
def machines(scene: Scene, plane: ControlPlane, token: str, tmp_path: Path) -> Iterator[Machines]:
    programs = Path(os.environ["CONTROL_PLANE_BIN"])
    made = Machines(scene.cloud, programs, tmp_path / "machines", plane.kubeconfig_for(token))
    with made:
        yield made
    assert made.off
    assert not [left for machine in made.off for left in machine.traces()]


@pytest.fixture
def history(scene: Scene) -> Iterator[History]:
    with History(scene.core) as made:
        yield made


@pytest.fixture
def device_plugin(scene: Scene) -> None:
    """With the tolerations of NVIDIA's own; its GPUs come a while after it was started."""
    folder = {"name": "sockets", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    container = {
        "name": "gpus", "image": image.NAME, "imagePullPolicy": "Never", "command": ["/gpus", "--delay", "2s"],
        "volumeMounts": [{"name": "sockets", "mountPath": "/var/lib/kubelet/device-plugins"}],
    }  # fmt: skip
    tolerations = [{"key": "CriticalAddonsOnly", "operator": "Exists"}, *TOLERATED]
    pods = {"containers": [container], "volumes": [folder], "tolerations": tolerations}
    scene.apps.create_namespaced_daemon_set(
        "default", {"metadata": {"name": "gpus"}, "spec": of_pods("gpus", pods)}
    )


def of_pods(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": name}
    return {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}


def settings(plane: ControlPlane, template: str, **limits: str) -> dict[str, Any]:
    secret = {"name": "join", "key": "bootstrap"}
    entry = {"template": template, "server": plane.url, "token_from": {"secret": secret}}
    if template == "k3s":
        entry["version"] = "v1.36.3+k3s1"
    return pool(**POOL, join="here") | deadlines(**limits) | {"join": {"here": entry}}


def work(*words: str, gpu: int = 0, **spec: Any) -> dict[str, Any]:
    limits = {"cpu": "100m"} | ({GPU: str(gpu)} if gpu else {})
    container = {
        "name": "work", "image": image.NAME, "imagePullPolicy": "Never", "command": ["/work", *words],
        "resources": {"limits": limits},
    }  # fmt: skip
    return {"restartPolicy": "Never", "tolerations": TOLERATED, "containers": [container], **spec}


def status(scene: Scene) -> dict[str, Any]:
    """As the controller last wrote it down; a fresh one has not done so yet."""
    with contextlib.suppress(NotFoundException):
        found = scene.core.read_namespaced_config_map("gpu-autoscaler-status", NAMESPACE)
        told: dict[str, Any] = json.loads(found.data["status.json"])
        return told
    return {"machines": [], "reports": {}}


def phase(scene: Scene) -> str:
    """Of the only machine, as the controller sees it."""
    return next((each["phase"] for each in status(scene)["machines"]), "")


def taints(node: Any) -> set[str]:
    return {f"{each.key}={each.value or ''}:{each.effect}" for each in node.spec.taints or ()}


def finished(pod: Any) -> Any:
    """The last words of its only container, once it has ended."""
    states = [each.state.terminated for each in pod.status.container_statuses or ()]
    return states[0] if states else None


def test_a_job_gets_a_machine_that_is_what_the_plan_believed_and_leaves_without_a_trace(
    scene: Scene, plane: ControlPlane, machines: Machines, history: History, device_plugin: None, token: str
) -> None:
    job = {"backoffLimit": 0, "template": {"spec": work("--takes", "1s", gpu=1, nodeSelector=BELIEVED)}}
    with running(scene.controller(settings(plane, "kubeadm"))):
        scene.batch.create_namespaced_job("default", {"metadata": {"name": "train"}, "spec": job})
        until("its Node is there", lambda: scene.nodes())
        (name,) = scene.nodes()
        until("the controller saw it join", lambda: phase(scene) in ("joined", "started", "ready"))
        until("the controller calls it ready", lambda: phase(scene) == "ready")
        until("the job is done", lambda: scene.batch.read_namespaced_job("train", "default").status.succeeded)
        until("nothing is left in the account", scene.empty)
        until("no Node is left", lambda: not scene.nodes())
        assert scene.state()["creates"] == 1

    assert machines.written[name][:4] == machines.told[name][:4]
    requests = client.CertificatesV1Api(scene.core.api_client).list_certificate_signing_request().items
    assert f"system:bootstrap:{token.partition('.')[0]}" in {each.spec.username for each in requests}
    born, *_, last = history.nodes(name)
    assert born.spec.provider_id == f"verda://{name}"
    assert born.metadata.labels == BELIEVED | {"gpu-autoscaler/machine": name} | of_the_kubelet(name)
    assert f"{GPU}=present:NoSchedule" in taints(born)
    assert "gpu-autoscaler/draining=:NoSchedule" in taints(last)
    first_ready = next(node for node in history.nodes(name) if ready(node))
    assert gpus(first_ready) == 0
    (pod,) = {pod.metadata.name for pod in history.pods("train-", begins=True)}
    ended = finished(history.pods(pod)[-1])
    assert ended.container_id.startswith("containerd://")
    assert ended.message == 'finished with GPUs "GPU-0"'


def of_the_kubelet(name: str) -> dict[str, str]:
    arch = image.architecture()
    return {
        "kubernetes.io/hostname": name,
        **{f"{prefix}kubernetes.io/os": "linux" for prefix in ("", "beta.")},
        **{f"{prefix}kubernetes.io/arch": arch for prefix in ("", "beta.")},
    }


def test_a_removal_evicts_a_real_pod_and_waits_until_the_kubelet_ended_it_in_its_grace(
    scene: Scene, plane: ControlPlane, machines: Machines, history: History, device_plugin: None
) -> None:
    with running(scene.controller(settings(plane, "k3s"))):
        name = bought(scene)
        beside = work("--lingers", "2s", nodeSelector={"kubernetes.io/os": "linux"})
        web = kept_running(scene, beside)
        until("both run", lambda: scene.phase(web) == "Running" and scene.phase("train") != "Pending")
        (machine,) = machines.on.values()
        assert {trace.split()[0] for trace in machine.traces()} == {"process", "cgroup", "bridge", "folder"}
        elsewhere(scene)  # a pod that found no other place would keep the machine
        until("nothing is left in the account", scene.empty)
        until("its Node is gone", lambda: scene.nodes() == ["elsewhere"])
        assert scene.state()["creates"] == 1

    assert machines.written[name][:4] == machines.told[name][:4]
    asked = [each["objectRef"] for each in plane.audited(NAMESPACE) if "objectRef" in each]
    evicted = {each["name"] for each in asked if each.get("subresource") == "eviction"}
    assert web in evicted
    assert "train" not in evicted
    last = history.pods(web)[-1]
    assert ("DisruptionTarget", "EvictionByEvictionAPI") in {
        (c.type, c.reason) for c in last.status.conditions
    }
    ended = finished(last)
    assert (ended.exit_code, ended.message) == (0, "ended in order after signal 15")
    assert ended.finished_at <= last.metadata.deletion_timestamp


def elsewhere(scene: Scene) -> None:
    """A node without GPUs, kept alive by KWOK."""
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    meta = {
        "name": "elsewhere",
        "labels": {"kubernetes.io/os": "linux"},
        "annotations": {"kwok.x-k8s.io/node": "fake"},
    }
    scene.core.create_node({"metadata": meta, "status": {"capacity": room, "allocatable": room}})


def kept_running(scene: Scene, spec: dict[str, Any]) -> str:
    """The name of the only pod of a ReplicaSet."""
    made = {"metadata": {"name": "web"}, "spec": of_pods("web", spec | {"restartPolicy": "Always"})}
    scene.apps.create_namespaced_replica_set("default", made)
    until("its pod is made", lambda: scene.pods_made_by("web"))
    name: str = scene.pods_made_by("web")[0].metadata.name
    return name


def test_a_node_of_its_name_keeps_its_foreign_identity_and_is_never_taken_for_the_machine(
    scene: Scene, plane: ControlPlane, machines: Machines
) -> None:
    machines.hold.set()
    with running(scene.controller(settings(plane, "kubeadm", join="15s"))):
        name = bought(scene)
        theirs = {"metadata": {"name": name, "labels": {"team": "theirs", ZONE: "elsewhere"}}}
        taint = {"key": "theirs", "effect": "NoSchedule"}
        scene.core.create_node(theirs | {"spec": {"providerID": "foreign://box", "taints": [taint]}})
        machines.hold.clear()
        until("the kubelet runs the Node that it found", lambda: ready(scene.core.read_node(name)))
        until("the controller says what it thinks of it", lambda: status(scene)["reports"].get(name))
        assert (
            "carries provider ID foreign://box, which is not this machine" in status(scene)["reports"][name]
        )
        assert phase(scene) not in ("joined", "started", "ready")
        scene.delete_pod("train")
        until("the machine, which never joined, is gone", lambda: scene.empty() and not phase(scene))

    left = scene.core.read_node(name)
    assert left.spec.provider_id == "foreign://box"
    assert {taint for taint in taints(left) if not taint.startswith("node.kubernetes.io/")} == {
        "theirs=:NoSchedule"
    }
    ours = BELIEVED | {"gpu-autoscaler/machine": name}
    corrected = {key: value for key, value in ours.items() if key in WELL_KNOWN}
    assert left.metadata.labels == {"team": "theirs"} | corrected | of_the_kubelet(name)
    assert not [key for key in left.metadata.annotations if key.startswith("gpu-autoscaler/")]


def test_a_node_of_its_name_without_any_identity_gets_none_and_is_believed_by_its_name(
    scene: Scene, plane: ControlPlane, machines: Machines
) -> None:
    machines.hold.set()
    with running(scene.controller(settings(plane, "kubeadm"))):
        name = bought(scene)
        scene.core.create_node({"metadata": {"name": name}})
        machines.hold.clear()
        until("the controller believes it", lambda: phase(scene) in ("joined", "started"))
        until("the kubelet runs the Node that it found", lambda: ready(scene.core.read_node(name)))
        found = scene.core.read_node(name)
        assert found.spec.provider_id is None
        until("it gets the taint", lambda: f"{GPU}=present:NoSchedule" in taints(scene.core.read_node(name)))
        until(
            "it gets its labels", lambda: "gpu-autoscaler/pool" in scene.core.read_node(name).metadata.labels
        )
        assert found.metadata.labels[ZONE] == "FIN-01"
        assert status(scene)["reports"] == {}


def bought(scene: Scene) -> str:
    """The name of the machine that a pod of one GPU, `train`, brings about."""
    pod = {"metadata": {"name": "train"}, "spec": work("--takes", "1s", gpu=1)}
    scene.core.create_namespaced_pod("default", pod)
    until("a machine is bought", lambda: scene.state()["instances"])
    name: str = scene.state()["instances"][0]["hostname"]
    return name
