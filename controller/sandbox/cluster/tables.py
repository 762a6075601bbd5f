"""Answers as tables, which is how kubectl wants lists: columns as the real ones, cells from `cells`."""

from __future__ import annotations

from collections.abc import Callable

from controller.sandbox.cluster import cells, owner_cells
from controller.sandbox.cluster.cells import Cells, age
from controller.sandbox.cluster.resources import Obj, Resource

Row = Callable[[Obj, float], Cells]
MADE_OF = "| Containers Images Selector"


def _first(*paths: str) -> Row:
    """The name, what lies at some places, and the age where it says `age`."""

    def row(obj: Obj, now: float) -> Cells:
        return [
            obj["metadata"]["name"],
            *(age(obj, now) if path == "age" else _at(obj, path) for path in paths),
        ]

    return row


def _at(obj: Obj, path: str) -> object:
    default: object = ""
    path, _, kind = path.partition(":")
    if kind == "bool":
        default = False
    found: object = obj
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if kind == "len":
        return len(found) if isinstance(found, (list, dict)) else 0
    return default if found is None else found


def _map(obj: Obj, now: float) -> Cells:
    count = len(obj.get("data") or {}) + len(obj.get("binaryData") or {})
    return [obj["metadata"]["name"], count, age(obj, now)]


# A column is `Name:type:format`; what stands behind `|` is wide, until a `!`.
_TABLES: dict[str, tuple[str, Row]] = {
    "pods": ("Name Ready Status Restarts Age | IP Node Nominated_Node Readiness_Gates", cells.pod),
    "nodes": (
        "Name Status Roles Age Version | Internal-IP External-IP OS-Image Kernel-Version Container-Runtime",
        cells.node,
    ),
    "events": (
        "Last_Seen Type Reason Object | Subobject Source ! Message | First_Seen Count Name:string:name",
        cells.event,
    ),
    "jobs": (f"Name Status Completions Duration Age {MADE_OF}", owner_cells.job),
    "cronjobs": (
        f"Name Schedule Timezone Suspend:boolean Active:integer Last_Schedule Age {MADE_OF}",
        owner_cells.cron_job,
    ),
    "daemonsets": (
        "Name Desired:integer Current:integer Ready:integer Up-to-date:integer Available:integer Node_Selector "
        f"Age {MADE_OF}",
        owner_cells.daemon_set,
    ),
    "deployments": (f"Name Ready Up-to-date Available Age {MADE_OF}", owner_cells.deployment),
    "replicasets": (
        f"Name Desired:integer Current:integer Ready:integer Age {MADE_OF}",
        owner_cells.replica_set,
    ),
    "replicationcontrollers": (
        f"Name Desired:integer Current:integer Ready:integer Age {MADE_OF}",
        owner_cells.replica_set,
    ),
    "statefulsets": ("Name Ready Age | Containers Images", owner_cells.stateful_set),
    "poddisruptionbudgets": (
        "Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age",
        owner_cells.budget,
    ),
    "namespaces": ("Name Status Age", _first("status.phase", "age")),
    "configmaps": ("Name Data Age", _map),
    "secrets": ("Name Type Data Age", _first("type", "data:len", "age")),
    "serviceaccounts": ("Name Age", _first("age")),
    "services": ("Name Type Cluster-IP External-IP Port(s) Age | Selector", cells.service),
    "leases": ("Name Holder Age", _first("spec.holderIdentity", "age")),
    "priorityclasses": (
        "Name Value:integer Global-Default:boolean Age PreemptionPolicy",
        _first("value", "globalDefault:bool", "age", "preemptionPolicy"),
    ),
    "runtimeclasses": ("Name Handler Age", _first("handler", "age")),
    "storageclasses": (
        "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age",
        _first("provisioner", "reclaimPolicy", "volumeBindingMode", "allowVolumeExpansion:bool", "age"),
    ),
    "csinodes": ("Name Drivers:integer Age", _first("spec.drivers:len", "age")),
    "volumeattachments": ("Name Attacher:string:name PV Node Attached:boolean Age", cells.attachment),
    "persistentvolumeclaims": (
        "Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age | VolumeMode",
        cells.claim,
    ),
    "persistentvolumes": (
        "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass Reason Age "
        "| VolumeMode",
        cells.volume,
    ),
    "deviceclasses": ("Name Age", _first("age")),
    "resourceclaims": ("Name State Age", cells.device_claim),
    "resourceclaimtemplates": ("Name Age", _first("age")),
    "resourceslices": ("Name Node Driver Pool Age", cells.slice_),
    "rolebindings": ("Name Role Age | Users Groups ServiceAccounts", cells.role_binding),
    "clusterrolebindings": ("Name Role Age | Users Groups ServiceAccounts", cells.role_binding),
}
_GENERIC: tuple[str, Row] = ("Name Created_At:date", _first("metadata.creationTimestamp"))


def columns(resource: Resource) -> list[Obj]:
    wide, defined = 0, list[Obj]()
    for word in _TABLES.get(resource.plural, _GENERIC)[0].split():
        if word in "|!":
            wide = 1 if word == "|" else 0
            continue
        name, kind, form = (*word.split(":"), "", "")[:3]
        name = name.replace("_", " ")
        form = form or ("name" if name == "Name" and not wide else "")
        defined.append(
            {"name": name, "type": kind or "string", "format": form, "description": name, "priority": wide}
        )
    return defined


def row(resource: Resource, obj: Obj, now: float, include: str) -> Obj:
    made: Obj = {"cells": _TABLES.get(resource.plural, _GENERIC)[1](obj, now), "object": None}
    if include == "Object":
        made["object"] = {"kind": resource.kind, "apiVersion": resource.api_version, **obj}
    elif include != "None":
        head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        made["object"] = head | {"metadata": obj["metadata"]}
    return made


def table(resource: Resource, rows: list[Obj], meta: Obj, *, headed: bool = True) -> Obj:
    defined = columns(resource) if headed else None
    head: Obj = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
    return head | {"columnDefinitions": defined, "rows": rows}
