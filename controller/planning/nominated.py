"""Pods that the scheduler has chosen a node for and not bound yet: they hold their place there like bound ones.

Since Kubernetes 1.35 every pod that waits for its binding may be nominated, without any preemption; kube-scheduler counts
it on that node against all others of no higher priority. Those of higher priority are not told apart here: whoever of the
two gets the place, the other one needs another.
"""

from __future__ import annotations

import msgspec

from controller.domain.kube import Pod
from controller.domain.plan import Snapshot


def with_nominated(snapshot: Snapshot) -> tuple[Snapshot, frozenset[str]]:
    """The same picture with these pods on their nodes, and which they are. One whose node is gone holds nothing."""
    chosen = [pod for pod in snapshot.pods if pod.nominated and _waits_for_binding(pod)]
    if not chosen:
        return snapshot, frozenset()
    nodes = {node.name for node in snapshot.nodes}
    placed = {pod.key for pod in chosen if pod.nominated in nodes}
    pods = tuple(
        msgspec.structs.replace(pod, node=pod.nominated) if pod.key in placed else pod
        for pod in snapshot.pods
    )
    return msgspec.structs.replace(snapshot, pods=pods), frozenset(placed)


def _waits_for_binding(pod: Pod) -> bool:
    return not (pod.node or pod.finished or pod.gated) and pod.deleting_at is None
