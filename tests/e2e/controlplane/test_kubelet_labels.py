"""The labels that a machine may be given: what the kubelet, the API server and our settings say of each.

A kubelet exits on a label that it may not set, which is a machine that was bought and never joins.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ForbiddenException

from controller.domain.node_labels import WELL_KNOWN, kubelet_may_set
from tests.e2e.controlplane.node.identity import Identity
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.programs import PROGRAM, run

KEYS = (
    *sorted(WELL_KNOWN), "team", "example.com/team", "gpu-autoscaler/pool", "nvidia.com/gpu.product",
    "node.kubernetes.io/x", "x.node.kubernetes.io/y", "kubelet.kubernetes.io/x", "x.kubelet.kubernetes.io/y",
    "notkubernetes.io/x", "kubernetes.io.example.com/x", "xk8s.io/x",
    "kubernetes.io/x", "app.kubernetes.io/name", "node-role.kubernetes.io/x", "topology.kubernetes.io/rack",
    "beta.kubernetes.io/x", "xnode.kubernetes.io/y", "node-restriction.kubernetes.io/x",
    "team.node-restriction.kubernetes.io/x", "k8s.io/x", "x.k8s.io/y", "node.k8s.io/x",
)  # fmt: skip


@pytest.fixture(scope="module")
def refused_by_the_kubelet(plane: ControlPlane) -> set[str]:
    """It names all of them at once, and exits; what it is not told keeps it from coming any further."""
    said = kubelet_with(*KEYS)
    found = re.search(
        r"unknown 'kubernetes\.io' or 'k8s\.io' labels specified with --node-labels: \[(.*?)\]", said
    )
    assert found, said
    return set(found[1].split())


def kubelet_with(*keys: str) -> str:
    identity = Identity("real-a100-abcdefghij", "verda://x", dict.fromkeys(keys, "x"), [], None)
    command = [str(Path(os.environ["CONTROL_PLANE_BIN"], "kubelet")), *identity.flags(), "--config=/nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    return done.stderr


def test_our_list_is_the_kubelets(refused_by_the_kubelet: set[str]) -> None:
    assert {key for key in KEYS if not kubelet_may_set(key)} == refused_by_the_kubelet
    told = kubelet_with("kubernetes.io/x").partition("in the specifically allowed set (")[2].partition(")")[0]
    assert set(told.split(", ")) == WELL_KNOWN


def test_a_kubelet_exits_on_each_of_them_and_on_no_other(refused_by_the_kubelet: set[str]) -> None:
    assert refused_by_the_kubelet
    for key in refused_by_the_kubelet:
        assert f"[{key}]" in kubelet_with(key)
    assert "/nowhere" in kubelet_with(*set(KEYS) - refused_by_the_kubelet)


def test_the_api_server_refuses_a_node_with_exactly_those(
    admin: client.ApiClient, plane: ControlPlane, refused_by_the_kubelet: set[str]
) -> None:
    kubelet = client.ApiClient(admin.configuration)
    kubelet.set_default_header("Impersonate-User", "system:node:box")
    kubelet.set_default_header("Impersonate-Group", "system:nodes")
    core = client.CoreV1Api(kubelet)
    assert {key for key in KEYS if forbidden(core, key)} == refused_by_the_kubelet


def forbidden(kubelet: client.CoreV1Api, key: str) -> bool:
    try:
        kubelet.create_node({"metadata": {"name": "box", "labels": {key: "x"}}}, dry_run="All")
    except ForbiddenException as error:
        return f"is not allowed to set the following labels: {key}" in error.body
    return False


def test_the_settings_allow_them_because_the_controller_sets_what_a_kubelet_may_not(tmp_path: Path) -> None:
    pool = {
        "name": "a",
        "instance_types": ["1A100.22V"],
        "max": 1,
        "join": "own",
        "labels": dict.fromkeys((key for key in KEYS if not key.startswith("gpu-autoscaler/")), "x"),
    }
    settings = {"pools": [pool], "join": {"own": {"startup_script_id": "s"}}}
    (tmp_path / "settings.yaml").write_text(json.dumps(settings))
    told = run([PROGRAM, "config", "check", "--config", str(tmp_path / "settings.yaml"), "--json"], tmp_path)
    found = json.loads(told.stdout)
    assert (told.returncode, found["problems"]) == (0, []), told.stderr
    others = [
        words for words in found["warnings"] if "is set from the machine's own facts instead" not in words
    ]
    assert not others
