"""Storage as far as it decides where a pod runs: bound volumes, volumes to be chosen, volumes to be made.

A class that waits for its first consumer is bound when a pod is: to a volume that exists and fits, else to
one that is made at once, in the node's zone, as a provisioner would make it. The claim of an ephemeral
volume is made when its pod is looked at. A class that does not wait is bound by nobody here, so its pods wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller.sandbox.cluster.fit import NodeRoom
from controller.sandbox.cluster.quantity import thousandths
from controller.sandbox.cluster.resources import BY_NAME, CLAIMS, CSI_NODES, PODS, VOLUMES, Obj
from controller.sandbox.cluster.selectors import meets
from controller.sandbox.cluster.store import Store

CLASSES = BY_NAME["storage.k8s.io", "storageclasses"]
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
FULL = "node(s) exceed max volume count"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
IN_USE = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ZONE = "topology.kubernetes.io/zone"
DEFAULT = "storageclass.kubernetes.io/is-default-class"


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
        classes = self._store.every(CLASSES)
        marked = [c for c in classes if (c["metadata"].get("annotations") or {}).get(DEFAULT) == "true"]
        newest = sorted(marked, key=lambda c: (c["metadata"]["creationTimestamp"], c["metadata"]["name"]))
        return newest[-1]["metadata"]["name"] if newest else ""

    def _look_at(self, name: str) -> None:
        claim = self._store.get(CLAIMS, self._namespace, name)
        if claim is None:
            self.refusal = f'persistentvolumeclaim "{name}" not found'
            return
        if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()):
            self._single.add(name)
        volume = claim["spec"].get("volumeName")
        if volume:
            self._bound.append(self._store.get(VOLUMES, "", volume))
        elif (self._class_of(claim) or {}).get("volumeBindingMode") == "WaitForFirstConsumer":
            self._open.append(claim)
        else:
            self.refusal = UNBOUND

    def _class_of(self, claim: Obj) -> Obj | None:
        name = claim["spec"].get("storageClassName")
        return self._store.get(CLASSES, "", name) if name else None

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
            if not _reaches(volume, room):
                return CONFLICT
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
            driver in limits and len(there.get(driver, set()) | mine) > limits[driver]
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
        for claim in self._open:
            name, kind = claim["metadata"]["name"], self._class_of(claim) or {}
            fitting = sorted(
                (v for v in self._store.every(VOLUMES) if _suits(v, claim) and _reaches(v, room)),
                key=lambda v: (thousandths(v["spec"]["capacity"]["storage"]), v["metadata"]["name"]),
            )
            volume = next((v for v in fitting if v["metadata"]["name"] not in taken), None)
            if volume is not None:
                taken.add(volume["metadata"]["name"])
            elif kind.get("provisioner") == NO_PROVISIONER or not _allowed(kind, room):
                return None
            chosen[name] = volume
        return chosen

    def bind(self, room: NodeRoom) -> None:
        """Bind the open claims for a pod that goes to a node."""
        for name, volume in (self._choose(room) or {}).items():
            claim = self._store.get(CLAIMS, self._namespace, name)
            if claim is None:
                continue
            meta = claim["metadata"]
            if volume is None:
                volume = self._store.create(VOLUMES, _made_for(claim, self._class_of(claim) or {}, room))
            ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": name}
            volume["spec"]["claimRef"] = ref | {"namespace": self._namespace, "uid": meta["uid"]}
            volume["status"] = {**(volume.get("status") or {}), "phase": "Bound"}
            self._store.update(VOLUMES, volume)
            meta.setdefault("annotations", {})["volume.kubernetes.io/selected-node"] = room.name
            meta["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
            claim["spec"]["volumeName"] = volume["metadata"]["name"]
            claim["status"] = {
                "phase": "Bound",
                "accessModes": volume["spec"].get("accessModes") or [],
                "capacity": volume["spec"].get("capacity") or {},
            }
            self._store.update(CLAIMS, claim)


def _reaches(volume: Obj, room: NodeRoom) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    return any(
        meets(room.labels, term.get("matchExpressions") or [])
        and meets({"metadata.name": room.name}, term.get("matchFields") or [])
        for term in required.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") or term.get("matchFields")
    )


def _suits(volume: Obj, claim: Obj) -> bool:
    """Whether an existing volume is free for a claim, and large enough."""
    spec, wanted = volume["spec"], claim["spec"]
    asked = ((wanted.get("resources") or {}).get("requests") or {}).get("storage", "0")
    return (
        not spec.get("claimRef")
        and spec.get("storageClassName") == wanted.get("storageClassName")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and thousandths((spec.get("capacity") or {}).get("storage", "0")) >= thousandths(asked)
    )


def _allowed(kind: Obj, room: NodeRoom) -> bool:
    terms: list[Obj] = kind.get("allowedTopologies") or []
    return not terms or any(
        all(
            room.labels.get(rule["key"]) in rule["values"] for rule in term.get("matchLabelExpressions") or ()
        )
        for term in terms
    )


def _made_for(claim: Obj, kind: Obj, room: NodeRoom) -> Obj:
    """The volume that a provisioner makes: it can be reached from the zone of the node alone."""
    spec: dict[str, Any] = {
        "capacity": ((claim["spec"].get("resources") or {}).get("requests")) or {"storage": "1Gi"},
        "accessModes": claim["spec"].get("accessModes") or ["ReadWriteOnce"],
        "storageClassName": claim["spec"].get("storageClassName") or "",
        "persistentVolumeReclaimPolicy": kind.get("reclaimPolicy", "Delete"),
        "volumeMode": "Filesystem",
        "csi": {"driver": kind.get("provisioner", ""), "volumeHandle": claim["metadata"]["uid"]},
    }
    if zone := room.labels.get(ZONE):
        only = {"key": ZONE, "operator": "In", "values": [zone]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [only]}]}}
    return {
        "metadata": {"name": f"pvc-{claim['metadata']['uid']}"},
        "spec": spec,
        "status": {"phase": "Available"},
    }
