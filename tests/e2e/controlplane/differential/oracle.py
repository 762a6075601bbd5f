"""What the planner says of a pod: from what the API server tells, read by the product's own reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from controller.app import snapshots
from controller.domain.kube import Pod
from controller.domain.plan import Snapshot
from controller.planning.feasible import feasible_nodes
from tests.e2e.controlplane.differential.worlds import Json
from tests.e2e.controlplane.scene import SETTINGS

# What the reader is told of; a RuntimeClass is in its pods already, by the API server's own doing.
KINDS = ("Namespace", "Node", "Pod", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode")


def picture(
    listed: Mapping[str, Sequence[Json]], waiting: Sequence[Json], more: Mapping[str, Any] | None = None
) -> Snapshot:
    """The world with these pods in it, as they were when they had been made."""
    ours = {pod["metadata"]["uid"] for pod in waiting}
    rows: dict[str, Any] = {kind: list(found) for kind, found in listed.items()}
    rows["pods"] = [pod for pod in rows["pods"] if pod["metadata"]["uid"] not in ours] + list(waiting)
    data = {"now": datetime.now(UTC).isoformat(), "settings": SETTINGS, **rows, **(more or {})}
    return snapshots.from_json(data)[0]


def of(snapshot: Snapshot, pod: Json) -> Pod:
    return next(each for each in snapshot.pods if each.uid == pod["metadata"]["uid"])


def expected(listed: Mapping[str, Sequence[Json]], pod: Json) -> frozenset[str]:
    """The nodes that would hold the pod now, as the planner sees it."""
    snapshot = picture(listed, [pod])
    return frozenset(feasible_nodes(snapshot, of(snapshot, pod)))
