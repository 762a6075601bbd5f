"""What volumes, claims and their classes say about nodes and about each other, pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller.sandbox.cluster.fit import NodeRoom
from controller.sandbox.cluster.quantity import thousandths
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.selectors import matches, meets

ZONE = "topology.kubernetes.io/zone"
ZONES = (ZONE, "topology.kubernetes.io/region")
DEFAULT = "storageclass.kubernetes.io/is-default-class"


def default_class(classes: Iterable[Obj]) -> str:
    """The newest of those that say they are it."""
    marked = [c for c in classes if (c["metadata"].get("annotations") or {}).get(DEFAULT) == "true"]
    by_name = sorted((c["metadata"] for c in marked), key=lambda meta: meta["name"])
    return str(max(by_name, key=lambda meta: meta["creationTimestamp"])["name"]) if by_name else ""


def reaches(volume: Obj, room: NodeRoom) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    return any(
        meets(room.labels, term.get("matchExpressions") or [])
        and meets({"metadata.name": room.name}, term.get("matchFields") or [])
        for term in required.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") or term.get("matchFields")
    )


def in_zone(volume: Obj, room: NodeRoom) -> bool:
    """Whether the node has what the volume's labels say of its zone, if it says anything of zones itself."""
    said = {key: value for key, value in (volume["metadata"].get("labels") or {}).items() if key in ZONES}
    return not any(key in room.labels for key in ZONES) or all(
        room.labels.get(key) in value.split("__") for key, value in said.items()
    )


def suits(volume: Obj, claim: Obj) -> bool:
    """Whether an existing volume is free for a claim, or kept for it, and large enough."""
    spec, wanted, reserved = volume["spec"], claim["spec"], kept(volume, claim)
    chosen = wanted.get("selector")
    return (
        (reserved or not spec.get("claimRef"))
        and not volume["metadata"].get("deletionTimestamp")
        and spec.get("storageClassName") == wanted.get("storageClassName")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and size(volume) >= asked(claim)
        and (reserved or chosen is None or matches(volume["metadata"].get("labels") or {}, chosen))
    )


def kept(volume: Obj, claim: Obj) -> bool:
    meta, ref = claim["metadata"], volume["spec"].get("claimRef") or {}
    return (ref.get("namespace"), ref.get("name")) == (meta.get("namespace"), meta["name"])


def size(volume: Obj) -> int:
    return thousandths((volume["spec"].get("capacity") or {}).get("storage", "0"))


def asked(claim: Obj) -> int:
    return thousandths(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0"))


def allowed(kind: Obj, room: NodeRoom) -> bool:
    terms: list[Obj] = kind.get("allowedTopologies") or []
    return not terms or any(
        all(
            room.labels.get(rule["key"]) in rule["values"] for rule in term.get("matchLabelExpressions") or ()
        )
        for term in terms
    )


def made_for(claim: Obj, kind: Obj, room: NodeRoom) -> Obj:
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
