"""The cluster's own rules of spreading (`defaultConstraints` of the scheduler), for pods that have none.

They hold for pods of ReplicaSets, ReplicationControllers and StatefulSets, and count the pods of the same
owner. The scheduler finds these by the selectors of owner and Services; here the owner itself tells.
"""

from __future__ import annotations

import msgspec

from controller.domain.kube import Pod, PodShape, Selector, Spread
from controller.domain.plan import Snapshot

_OWNERS = ("ReplicaSet", "ReplicationController", "StatefulSet")
_OWNER = "gpu-autoscaler/owner"  # on no real pod


def with_default_spreads(snapshot: Snapshot) -> Snapshot:
    """The same picture, where such pods say what the cluster says for them."""
    if not snapshot.policy.default_spreads:
        return snapshot
    shapes: dict[int, PodShape] = {}
    return msgspec.structs.replace(
        snapshot, pods=tuple(_with_default(snapshot, pod, shapes) for pod in snapshot.pods)
    )


def _with_default(snapshot: Snapshot, pod: Pod, shapes: dict[int, PodShape]) -> Pod:
    shape = pod.shape
    if shape.owner_kind not in _OWNERS or not shape.owner_uid:
        return pod
    if id(shape) not in shapes:
        siblings = Selector(labels={_OWNER: shape.owner_uid})
        spreads = tuple(
            Spread(topology_key=rule.topology_key, max_skew=rule.max_skew, hard=rule.hard, selector=siblings)
            for rule in snapshot.policy.default_spreads
        )
        shapes[id(shape)] = msgspec.structs.replace(
            shape, labels={**shape.labels, _OWNER: shape.owner_uid}, spreads=shape.spreads or spreads
        )
    return msgspec.structs.replace(pod, shape=shapes[id(shape)])
