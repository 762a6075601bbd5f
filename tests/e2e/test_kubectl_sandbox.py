"""Unmodified kubectl against the sandbox cluster: what a person at a terminal would do."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.programs import PROGRAM, started
from tests.e2e.programs import run as run_program

NODE: dict[str, object] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "worker-1", "labels": {"kubernetes.io/hostname": "worker-1"}},
    "spec": {"providerID": "verda://worker-1"},
    "status": {
        "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "1"},
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "1"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "nodeInfo": {"kubeletVersion": "v1.36.3"},
    },
}


def pod(name: str, gpus: int = 0) -> dict[str, object]:
    container: dict[str, object] = {"name": "main", "image": "example/job:1"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }


class Kubectl:
    def __init__(self, program: str, home: Path) -> None:
        self.kubeconfig = home / "kubeconfig"
        self.home = home
        self.command = [program, "--kubeconfig", str(self.kubeconfig)]

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        done = run_program([*self.command, *arguments], self.home, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def refused(self, *arguments: str) -> str:
        done = run_program([*self.command, *arguments], self.home)
        assert done.returncode != 0
        return done.stderr

    def create(self, *things: dict[str, object]) -> str:
        return self("create", "-f", "-", stdin="\n---\n".join(json.dumps(thing) for thing in things))

    def wait(self, what: str, condition: str, seconds: int = 20) -> None:
        self("wait", f"--for={condition}", what, f"--timeout={seconds}s")


@pytest.fixture
def kubectl(kubectl_bin: str, tmp_path: Path) -> Iterator[Kubectl]:
    tool = Kubectl(kubectl_bin, tmp_path)
    command = [PROGRAM, "sandbox", "cluster", "--port", "0", "--kubeconfig", str(tool.kubeconfig)]
    with started(command, tmp_path) as cluster:
        assert cluster.line().startswith("http://127.0.0.1:")
        yield tool


def test_the_kubeconfig_is_private_and_the_cluster_has_a_version(kubectl: Kubectl) -> None:
    assert stat.S_IMODE(kubectl.kubeconfig.stat().st_mode) == 0o600
    assert "Server Version: v1." in kubectl("version")
    assert "nodes" in kubectl("api-resources").split()


def test_what_is_created_is_shown_as_a_real_cluster_shows_it(kubectl: Kubectl) -> None:
    told = kubectl.create(NODE, pod("trainer", gpus=1))
    assert told.splitlines() == ["node/worker-1 created", "pod/trainer created"]
    kubectl.wait("pod/trainer", "condition=Ready")
    nodes = kubectl("get", "nodes", "-o", "wide").splitlines()
    assert nodes[0].split()[:5] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert nodes[1].split()[:2] == ["worker-1", "Ready"]
    header, row = kubectl("get", "pods", "-o", "wide").splitlines()
    assert row.split()[:3] == ["trainer", "1/1", "Running"]
    assert row[header.index("NODE ") :].split()[0] == "worker-1"
    assert kubectl("get", "pod", "trainer", "-o", "jsonpath={.spec.nodeName}") == "worker-1"


def test_a_description_tells_where_a_pod_went_and_what_a_node_holds(kubectl: Kubectl) -> None:
    kubectl.create(NODE, pod("trainer", gpus=1))
    kubectl.wait("pod/trainer", "condition=Ready")
    described = kubectl("describe", "pod", "trainer")
    assert "Node:" in described
    assert "Scheduled" in described
    assert "Successfully assigned default/trainer to worker-1" in described
    node = kubectl("describe", "node", "worker-1")
    assert "ProviderID:" in node
    assert "nvidia.com/gpu" in node
    assert "trainer" in node


def test_a_pod_that_fits_nowhere_says_what_is_missing(kubectl: Kubectl) -> None:
    kubectl.create(NODE, pod("too-large", gpus=8))
    kubectl.wait("pod/too-large", "condition=PodScheduled=false")
    assert kubectl("get", "pod", "too-large", "--no-headers").split()[:3] == ["too-large", "0/1", "Pending"]
    described = kubectl("describe", "pod", "too-large")
    assert "FailedScheduling" in described
    assert "Insufficient nvidia.com/gpu" in described


def test_a_watch_shows_a_pod_from_its_creation_to_its_end(kubectl: Kubectl) -> None:
    kubectl.create(NODE)
    with started([*kubectl.command, "get", "pods", "-w", "--no-headers"], kubectl.home) as watching:
        kubectl.create(pod("trainer"))
        watching.line(lambda line: line.split()[:3] == ["trainer", "1/1", "Running"])
        kubectl("delete", "pod", "trainer", "--wait=false")
        watching.line(lambda line: line.split()[2] in ("Terminating", "Completed"))
        kubectl.wait("pod/trainer", "delete")
    assert "NotFound" in kubectl.refused("get", "pod", "trainer")


def test_a_deleted_node_is_gone_and_a_cordoned_one_takes_no_pods(kubectl: Kubectl) -> None:
    kubectl.create(NODE)
    kubectl("cordon", "worker-1")
    assert "SchedulingDisabled" in kubectl("get", "nodes", "--no-headers")
    kubectl.create(pod("trainer"))
    kubectl.wait("pod/trainer", "condition=PodScheduled=false")
    kubectl("uncordon", "worker-1")
    kubectl.wait("pod/trainer", "condition=Ready")
    assert kubectl("delete", "node", "worker-1").startswith('node "worker-1" deleted')
    assert 'nodes "worker-1" not found' in kubectl.refused("get", "node", "worker-1")
    assert "No resources found" in kubectl("get", "nodes") or kubectl("get", "nodes", "--no-headers") == ""


def test_labels_taints_and_annotations_are_changed_as_kubectl_does_it(kubectl: Kubectl) -> None:
    kubectl.create(NODE)
    kubectl("label", "node", "worker-1", "team=ml")
    kubectl("taint", "node", "worker-1", "gpu-autoscaler/idle=:PreferNoSchedule")
    kubectl("annotate", "node", "worker-1", "gpu-autoscaler/pause=all")
    node = json.loads(kubectl("get", "node", "worker-1", "-o", "json"))
    assert node["metadata"]["labels"]["team"] == "ml"
    assert node["metadata"]["annotations"]["gpu-autoscaler/pause"] == "all"
    assert [(t["key"], t["effect"]) for t in node["spec"]["taints"]] == [
        ("gpu-autoscaler/idle", "PreferNoSchedule")
    ]
    assert kubectl("get", "nodes", "-l", "team=ml", "-o", "name").split() == ["node/worker-1"]
    assert kubectl("get", "nodes", "-l", "team!=ml", "-o", "name") == ""
