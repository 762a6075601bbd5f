"""What of a switched machine's Node is planned with while the machine is off."""

from __future__ import annotations

import pytest

from controller.domain.kube import Taint
from controller.fleet.switching.faces import face_of
from tests.fleet.fakes import make_node


@pytest.mark.parametrize(
    ("key", "stays"),
    [
        ("nvidia.com/gpu", True),
        ("startup.example.com/driver", True),
        ("gpu-autoscaler/draining", False),
        ("node.kubernetes.io/unreachable", False),
        ("node.cloudprovider.kubernetes.io/uninitialized", False),
        ("ToBeDeletedByClusterAutoscaler", False),
        ("ignore-taint.cluster-autoscaler.kubernetes.io/x", False),
        ("startup-taint.cluster-autoscaler.kubernetes.io/driver", False),
        ("status-taint.cluster-autoscaler.kubernetes.io/rebooting", False),
    ],
)
def test_taints_that_come_and_go_keep_no_pod_off_a_machine_that_is_off(key: str, stays: bool) -> None:
    node = make_node("w1", 0.0, taints=(Taint(key, "", "NoSchedule"),))
    assert [taint.key for taint in face_of(node).taints] == [key] * stays
