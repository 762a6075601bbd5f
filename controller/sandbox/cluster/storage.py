"""Storage as far as it decides where a pod runs: bound volumes, volumes to be chosen, volumes to be made.

A class that waits for its first consumer is bound when a pod is: to a volume that exists and fits, else to
one that is made at once, in the node's zone, as a provisioner would make it. The claim of an ephemeral
volume is made when its pod is looked at, and a claim that names a volume gets it then. A class that does not wait is bound by nobody here, so its pods wait.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.sandbox.cluster.fit import NodeRoom
from controller.sandbox.cluster.resources import (
    CLAIMS,
    CSI_NODES,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
    Obj,
)
from controller.sandbox.cluster.store import Store
from controller.sandbox.cluster.volumes import (
    allowed,
    asked,
    default_class,
    in_zone,
    kept,
    made_for,
    reaches,
    size,
    suits,
)

CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
FULL = "node(s) exceed max volume count"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
IN_USE = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
COMPLETED = "pv.kubernetes.io/bind-completed"
ZONES_DIFFER = "node(s) had no available volume zone"


class Storage:
    """What the claims of one pod allow; made anew for each attempt."""

    def __init__(self, store: Store, pod: Obj) -> None:
        self._store = store
        self._namespace = pod["metadata"]["namespace"]
        self._pod = pod
        self.refusal = ""  # of every node
        self._bound: list[Obj | None] = []  # volumes; None: the claim's volume is gone
        self._open: list[Obj] = []  # claims that this pod is the first consumer of
        self._single: set[str] = set()  # claims that one pod alone may use
        for volume in pod["spec"].get("volumes") or ():
            if not self.refusal and (name := self._claim_name(volume)):
                self._look_at(name)
        self._drivers = self._attached([pod])

    def _claim_name(self, volume: Obj) -> str:
        if "ephemeral" not in volume:
            return str((volume.get("persistentVolumeClaim") or {}).get("claimName") or "")
        meta = self._pod["metadata"]
        name = f"{meta['name']}-{volume['name']}"
        if self._store.item(CLAIMS, self._namespace, name) is None:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
            template = volume["ephemeral"].get("volumeClaimTemplate") or {}
            made: Obj = {
                "metadata": {
                    "name": name,
                    "namespace": self._namespace,
                    "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
                },
                "spec": dict(template.get("spec") or {}),
                "status": {"phase": "Pending"},
            }
            if made["spec"].get("storageClassName") is None and (default := self._default_class()):
                made["spec"]["storageClassName"] = default
            self._store.create(CLAIMS, made)
        return name

    def _default_class(self) -> str:
        return default_class(self._store.every(STORAGE_CLASSES))

    def _look_at(self, name: str) -> None:
        claim = self._store.get(CLAIMS, self._namespace, name)
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            self.refusal = f'persistentvolumeclaim "{name}" {"is being deleted" if claim else "not found"}'
            return
        if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()):
            self._single.add(name)
        name = claim["spec"].get("volumeName")
        volume = self._store.get(VOLUMES, "", name) if name else None
        if volume is not None and not is_bound(claim) and is_for(volume, claim):
            self._put_together(claim, volume)
        if name and is_bound(claim):
            self._bound.append(volume)
        elif name:
            self.refusal = UNBOUND
        elif (self._class_of(claim) or {}).get("volumeBindingMode") == "WaitForFirstConsumer":
            self._open.append(claim)
        else:
            self.refusal = UNBOUND

    def _class_of(self, claim: Obj) -> Obj | None:
        name = claim["spec"].get("storageClassName")
        name = self._default_class() if name is None else name
        return self._store.get(STORAGE_CLASSES, "", name) if name else None

    @property
    def matters(self) -> bool:
        return bool(self._bound or self._open)

    def refuses(self, room: NodeRoom) -> str:
        """Why the pod cannot be on a node, in the order of the real filters."""
        if self._single and self._used_elsewhere():
            return IN_USE
        if self._too_many(room):
            return FULL
        for volume in self._bound:
            if volume is None:
                return GONE
            if not reaches(volume, room):
                return CONFLICT
            if not in_zone(volume, room):
                return ZONES_DIFFER
        if self._choose(room) is None:
            return NOTHING_TO_BIND
        return ""

    def _used_elsewhere(self) -> bool:
        return any(
            pod["spec"].get("nodeName")
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
            and (volume.get("persistentVolumeClaim") or {}).get("claimName") in self._single
            for pod in self._store.every(PODS, self._namespace)
            for volume in pod["spec"].get("volumes") or ()
        )

    def _too_many(self, room: NodeRoom) -> bool:
        """Whether a driver would have to attach more volumes than the node can."""
        if not self._drivers or (node := self._store.get(CSI_NODES, "", room.name)) is None:
            return False
        limits = {
            driver["name"]: driver["allocatable"]["count"]
            for driver in node["spec"].get("drivers") or ()
            if (driver.get("allocatable") or {}).get("count") is not None
        }
        if not limits.keys() & self._drivers.keys():
            return False
        here = [pod for key in room.pods if (pod := self._store.get(PODS, *key)) is not None]
        there = self._attached(here)
        return any(
            driver in limits
            and bool(mine - there.get(driver, set()))  # what is attached already takes no more places
            and len(there.get(driver, set()) | mine) > limits[driver]
            for driver, mine in self._drivers.items()
        )

    def _attached(self, pods: Iterable[Obj]) -> dict[str, set[str]]:
        """By driver, the volumes (or claims that have none yet) that pods use."""
        found: dict[str, set[str]] = {}
        for pod in pods:
            space, own = pod["metadata"]["namespace"], pod["metadata"]["name"]
            for volume in pod["spec"].get("volumes") or ():
                name = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
                name = f"{own}-{volume['name']}" if "ephemeral" in volume else name
                claim = self._store.get(CLAIMS, space, name) if name else None
                if claim is None:
                    continue
                bound = claim["spec"].get("volumeName")
                if bound:
                    driver = (
                        ((self._store.get(VOLUMES, "", bound) or {}).get("spec") or {}).get("csi") or {}
                    ).get("driver")
                else:
                    driver = (self._class_of(claim) or {}).get("provisioner")
                if driver and driver != NO_PROVISIONER:
                    found.setdefault(driver, set()).add(bound or f"{space}/{name}")
        return found

    def _choose(self, room: NodeRoom) -> dict[str, Obj | None] | None:
        """For every open claim a volume that exists, or None for one to be made; None if one has neither."""
        chosen: dict[str, Obj | None] = {}
        taken: set[str] = set()
        for claim in sorted(self._open, key=asked):
            name, kind = claim["metadata"]["name"], self._class_of(claim) or {}
            fitting = sorted(
                (v for v in self._store.every(VOLUMES) if suits(v, claim) and reaches(v, room)),
                key=lambda v: (not kept(v, claim), size(v), v["metadata"]["name"]),
            )
            volume = next((v for v in fitting if v["metadata"]["name"] not in taken), None)
            if volume is not None:
                taken.add(volume["metadata"]["name"])
            elif kind.get("provisioner") == NO_PROVISIONER or not allowed(kind, room):
                return None
            chosen[name] = volume
        return chosen

    def bind(self, room: NodeRoom) -> None:
        """Bind the open claims for a pod that goes to a node."""
        for name, volume in (self._choose(room) or {}).items():
            claim = self._store.get(CLAIMS, self._namespace, name)
            if claim is None:
                continue
            if volume is None:
                volume = self._store.create(VOLUMES, made_for(claim, self._class_of(claim) or {}, room))
            meta = claim["metadata"]
            meta.setdefault("annotations", {})["volume.kubernetes.io/selected-node"] = room.name
            self._put_together(claim, volume)

    def _put_together(self, claim: Obj, volume: Obj) -> None:
        meta = claim["metadata"]
        ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": meta["name"]}
        volume["spec"]["claimRef"] = ref | {"namespace": self._namespace, "uid": meta["uid"]}
        volume["status"] = {**(volume.get("status") or {}), "phase": "Bound"}
        self._store.update(VOLUMES, volume)
        meta.setdefault("annotations", {})[COMPLETED] = "yes"
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        claim["status"] = {
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes") or [],
            "capacity": volume["spec"].get("capacity") or {},
        }
        self._store.update(CLAIMS, claim)


def is_bound(claim: Obj) -> bool:
    """As the scheduler sees it: a claim that only names a volume is not."""
    return COMPLETED in (claim["metadata"].get("annotations") or {})


def is_for(volume: Obj, claim: Obj) -> bool:
    """Whether a claim that names the volume gets it: nobody else's it is."""
    ref, meta = volume["spec"].get("claimRef") or {}, claim["metadata"]
    names = (ref.get("namespace"), ref.get("name")) in ((None, None), (meta["namespace"], meta["name"]))
    return names and ref.get("uid") in (None, "", meta["uid"])
