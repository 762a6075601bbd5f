"""Kinds that the cluster has and that the controller may not read: what depends on them is not guessed.

A snapshot names them as RBAC does (`podgroups.scheduling.volcano.sh`).
"""

from __future__ import annotations

from controller.domain.plan import Snapshot

POD_GROUPS = {
    "coscheduling": "podgroups.scheduling.x-k8s.io",
    "volcano": "podgroups.scheduling.volcano.sh",
    "kai": "podgroups.scheduling.run.ai",
    "native": "podgroups.scheduling.k8s.io",
}
WORKLOADS = "workloads.scheduling.k8s.io"
DEVICE_CLAIMS = ("resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io")
DEVICE_CLASSES = "deviceclasses.resource.k8s.io"
VOLUME_CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
STORAGE_CLASSES = "storageclasses.storage.k8s.io"
VOLUME_KINDS = (VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES)


def missing_right(snapshot: Snapshot, *kinds: str) -> str:
    """The sentence about the first of these that may not be read; "" if all may."""
    for kind in kinds:
        if kind in snapshot.unreadable:
            return f"the controller may not read {kind}: grant its role the verbs list and watch on them"
    return ""
