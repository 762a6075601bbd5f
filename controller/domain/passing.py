"""Taints that come and go by themselves, and so say nothing of what fits a machine once it is of use.

The control plane marks Nodes that are not Ready or were shut down, network agents those on which they do not run
(Calico leaves its mark at a clean shutdown, too), and cluster-autoscaler and whoever starts a Node have marks of theirs.
A Node that is kept while its machine is off keeps them all, and nobody takes them off before it is on.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.domain import names
from controller.domain.kube import Taint

_PASSING = (
    names.PREFIX,
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node.cilium.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    names.CA_TO_BE_DELETED,
    "DeletionCandidateOfClusterAutoscaler",
)
# As agents of networks and volumes call theirs: ebs.csi.aws.com/agent-not-ready, cni.istio.io/not-ready.
_AGENTS = ("/agent-not-ready", "/not-ready")


def lasting(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    return tuple(t for t in taints if not (t.key.startswith(_PASSING) or t.key.endswith(_AGENTS)))
