"""What a kubelet may set of its labels."""

from __future__ import annotations

import pytest

from controller.domain.node_labels import kubelet_may_set


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
