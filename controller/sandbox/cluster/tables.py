"""Answers as tables, which is how kubectl wants lists: columns, cells and wide columns as the real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.sandbox.cluster.resources import Obj, Resource
from controller.sandbox.cluster.stamps import seconds_of

Cells = list[Any]
Row = Callable[[Obj, float], Cells]
NONE, UNSET = "<none>", "<unknown>"


def short_time(seconds: float) -> str:
    """A duration as kubectl writes ages: 45s, 3m5s, 59m, 3h20m, 2d4h, 12d."""
    left = int(seconds)
    if left < 0:
        return "0s"
    if left < 120:
        return f"{left}s"
    minutes, rest = divmod(left, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, rest = divmod(minutes, 60)
    if hours < 8:
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days, rest = divmod(hours, 24)
    return f"{days}d{rest}h" if days < 8 and rest else f"{days}d"


def _age(obj: Obj, now: float) -> str:
    made = obj["metadata"].get("creationTimestamp")
    return short_time(now - seconds_of(made)) if made else UNSET


def _pod(pod: Obj, now: float) -> Cells:
    spec, status, meta = pod["spec"], pod.get("status") or {}, pod["metadata"]
    held = status.get("containerStatuses") or []
    shown = status.get("reason") or status.get("phase", "")
    for each in held:
        state = each.get("state") or {}
        if reason := (state.get("waiting") or state.get("terminated") or {}).get("reason"):
            shown = reason
    if shown == "Pending" and any(
        c.get("reason") == "SchedulingGated" for c in status.get("conditions") or []
    ):
        shown = "SchedulingGated"
    if meta.get("deletionTimestamp"):
        shown = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    ready = f"{sum(bool(c.get('ready')) for c in held)}/{len(spec['containers'])}"
    restarts = sum(c.get("restartCount", 0) for c in held)
    wide = [status.get("podIP") or NONE, spec.get("nodeName") or NONE]
    wide += [status.get("nominatedNodeName") or NONE, NONE]
    return [meta["name"], ready, shown, str(restarts), _age(pod, now), *wide]


def _node(node: Obj, now: float) -> Cells:
    meta, status = node["metadata"], node.get("status") or {}
    conditions = {c["type"]: c["status"] for c in status.get("conditions") or []}
    shown = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    if (node.get("spec") or {}).get("unschedulable"):
        shown += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    roles = sorted(k.removeprefix(prefix) for k in meta.get("labels") or {} if k.startswith(prefix))
    addresses = {a["type"]: a["address"] for a in status.get("addresses") or []}
    info = status.get("nodeInfo") or {}
    wide = [addresses.get("InternalIP", NONE), addresses.get("ExternalIP", NONE)]
    wide += [info.get(key, UNSET) for key in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    return [
        meta["name"],
        shown,
        ",".join(roles) or NONE,
        _age(node, now),
        info.get("kubeletVersion", ""),
        *wide,
    ]


def _event(event: Obj, now: float) -> Cells:
    about = event.get("involvedObject") or {}
    last = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    seen = short_time(now - seconds_of(last)) if last else UNSET
    who = (event.get("source") or {}).get("component") or event.get("reportingComponent", "")
    head = [
        seen,
        event.get("type", ""),
        event.get("reason", ""),
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
    ]
    first = event.get("firstTimestamp") or last
    wide = [about.get("fieldPath", ""), who, event.get("message", "").strip()]
    return [
        *head,
        *wide,
        short_time(now - seconds_of(first)),
        str(event.get("count", 1)),
        event["metadata"]["name"],
    ]


def _job(job: Obj, now: float) -> Cells:
    spec, status = job["spec"], job.get("status") or {}
    kinds = {c["type"] for c in status.get("conditions") or [] if c["status"] == "True"}
    shown = next((k for k in ("Complete", "Failed", "Suspended") if k in kinds), "Running")
    wanted = spec.get("completions")
    done = f"{status.get('succeeded', 0)}/" + (
        str(wanted) if wanted is not None else f"1 of {spec['parallelism']}"
    )
    took = ""
    if status.get("startTime"):
        end = seconds_of(status["completionTime"]) if status.get("completionTime") else now
        took = short_time(end - seconds_of(status["startTime"]))
    return [job["metadata"]["name"], shown, done, took, _age(job, now)]


def _daemon_set(obj: Obj, now: float) -> Cells:
    status = obj.get("status") or {}
    names = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    counts = [status.get(name, 0) for name in (*names, "numberAvailable")]
    chosen = (obj["spec"]["template"]["spec"].get("nodeSelector") or {}).items()
    return [obj["metadata"]["name"], *counts, ",".join(f"{k}={v}" for k, v in chosen) or NONE, _age(obj, now)]


def _deployment(obj: Obj, now: float) -> Cells:
    status, wanted = obj.get("status") or {}, obj["spec"].get("replicas", 1)
    ready = f"{status.get('readyReplicas', 0)}/{wanted}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    return [obj["metadata"]["name"], ready, *counts, _age(obj, now)]


def _replica_set(obj: Obj, now: float) -> Cells:
    status = obj.get("status") or {}
    counts = [obj["spec"].get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [obj["metadata"]["name"], *counts, _age(obj, now)]


def _budget(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    low, high = spec.get("minAvailable", "N/A"), spec.get("maxUnavailable", "N/A")
    allowed = (obj.get("status") or {}).get("disruptionsAllowed", 0)
    return [obj["metadata"]["name"], str(low), str(high), allowed, _age(obj, now)]


_TABLES: dict[str, tuple[str, Row]] = {
    "pods": ("Name Ready Status Restarts Age | IP Node Nominated_Node Readiness_Gates", _pod),
    "nodes": (
        "Name Status Roles Age Version | Internal-IP External-IP OS-Image Kernel-Version Container-Runtime",
        _node,
    ),
    "events": ("Last_Seen Type Reason Object | Subobject Source ! Message | First_Seen Count Name", _event),
    "jobs": ("Name Status Completions Duration Age", _job),
    "daemonsets": ("Name Desired Current Ready Up-to-date Available Node_Selector Age", _daemon_set),
    "deployments": ("Name Ready Up-to-date Available Age", _deployment),
    "replicasets": ("Name Desired Current Ready Age", _replica_set),
    "poddisruptionbudgets": ("Name Min_Available Max_Unavailable Allowed_Disruptions Age", _budget),
    "namespaces": (
        "Name Status Age",
        lambda o, now: [o["metadata"]["name"], o["status"].get("phase", ""), _age(o, now)],
    ),
    "configmaps": (
        "Name Data Age",
        lambda o, now: [o["metadata"]["name"], len(o.get("data") or {}), _age(o, now)],
    ),
    "secrets": (
        "Name Type Data Age",
        lambda o, now: [o["metadata"]["name"], o.get("type", ""), len(o.get("data") or {}), _age(o, now)],
    ),
    "leases": (
        "Name Holder Age",
        lambda o, now: [o["metadata"]["name"], (o.get("spec") or {}).get("holderIdentity", ""), _age(o, now)],
    ),
}
_GENERIC: tuple[str, Row] = ("Name Age", lambda obj, now: [obj["metadata"]["name"], _age(obj, now)])


def columns(resource: Resource) -> list[Obj]:
    """Column definitions; what stands behind `|` is wide, until a `!`."""
    wide, defined = 0, []
    for word in _TABLES.get(resource.plural, _GENERIC)[0].split():
        if word in "|!":
            wide = 1 if word == "|" else 0
            continue
        name = word.replace("_", " ")
        kind = "name" if name == "Name" and not wide else ""
        defined.append(
            {"name": name, "type": "string", "format": kind, "description": name, "priority": wide}
        )
    return defined


def row(resource: Resource, obj: Obj, now: float, include: str) -> Obj:
    made: Obj = {"cells": _TABLES.get(resource.plural, _GENERIC)[1](obj, now)}
    if include == "Object":
        made["object"] = {"kind": resource.kind, "apiVersion": resource.api_version, **obj}
    elif include != "None":
        head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        made["object"] = head | {"metadata": obj["metadata"]}
    return made


def table(resource: Resource, rows: list[Obj], meta: Obj, *, headed: bool = True) -> Obj:
    defined = columns(resource) if headed else []
    head: Obj = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
    return head | {"columnDefinitions": defined, "rows": rows}
