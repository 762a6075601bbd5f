"""Labels of a machine and what a kubelet may set of them."""

from __future__ import annotations

import pytest

from controller.domain import names
from controller.join.labels import kubelet_may_set, machine_labels

A100 = {
    "pool": "a100",
    "machine": "home-a100-abcdefghij",
    "location": "FIN-01",
    "market": "spot",
    "instance_type": "1A100.22V",
}


def test_a_gpu_machine_carries_every_label() -> None:
    labels = machine_labels(**A100, model="A100 80GB", gpus=1, extra={"team": "ml"})
    assert labels == {
        "gpu-autoscaler/gpu": "a100-80gb",
        "gpu-autoscaler/location": "FIN-01",
        "gpu-autoscaler/machine": "home-a100-abcdefghij",
        "gpu-autoscaler/market": "spot",
        "gpu-autoscaler/pool": "a100",
        "node.kubernetes.io/instance-type": "1A100.22V",
        "team": "ml",
        "topology.kubernetes.io/region": "FIN-01",
        "topology.kubernetes.io/zone": "FIN-01",
    }
    assert list(labels) == sorted(labels)


def test_a_machine_without_gpus_never_carries_the_gpu_label() -> None:
    labels = machine_labels(**A100, model="CPU", gpus=0, extra={names.LABEL_GPU: "a100-80gb"})
    assert names.LABEL_GPU not in labels


def test_a_pools_own_labels_never_replace_ours() -> None:
    labels = machine_labels(**A100, model="A100 80GB", gpus=1, extra={names.LABEL_POOL: "other"})
    assert labels[names.LABEL_POOL] == "a100"


@pytest.mark.parametrize(
    "key",
    [
        "team",
        "example.com/team",
        "gpu-autoscaler/pool",
        "nvidia.com/gpu.deploy.driver",
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "node.kubernetes.io/anything",
        "x.node.kubernetes.io/y",
        "kubelet.kubernetes.io/z",
        "topology.kubernetes.io/zone",
        "notkubernetes.io/x",
    ],
)
def test_a_kubelet_may_set(key: str) -> None:
    assert kubelet_may_set(key)


@pytest.mark.parametrize(
    "key",
    [
        "node-role.kubernetes.io/gpu",
        "node-restriction.kubernetes.io/x",
        "team.node-restriction.kubernetes.io/x",
        "kubernetes.io/role",
        "app.kubernetes.io/name",
        "topology.kubernetes.io/rack",
        "k8s.io/x",
        "feature.k8s.io/x",
    ],
)
def test_a_kubelet_may_not_set(key: str) -> None:
    assert not kubelet_may_set(key)
