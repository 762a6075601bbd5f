"""The cells of tables: what each kind shows of an object in a row, as the real API prints it."""

from __future__ import annotations

from typing import Any

from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.stamps import seconds_of

Cells = list[Any]
NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"


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


def age(obj: Obj, now: float) -> str:
    made = obj["metadata"].get("creationTimestamp")
    return short_time(now - seconds_of(made)) if made else UNKNOWN


def pod(pod: Obj, now: float) -> Cells:
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
    held_open = spec.get("readinessGates") or []
    met = {c["type"] for c in status.get("conditions") or [] if c["status"] == "True"}
    open_now = f"{sum(each['conditionType'] in met for each in held_open)}/{len(held_open)}"
    wide += [status.get("nominatedNodeName") or NONE, open_now if held_open else NONE]
    return [meta["name"], ready, shown, str(restarts), age(pod, now), *wide]


def node(node: Obj, now: float) -> Cells:
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
    wide += [info.get(key) or UNKNOWN for key in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    return [
        meta["name"],
        shown,
        ",".join(roles) or NONE,
        age(node, now),
        info.get("kubeletVersion", ""),
        *wide,
    ]


def event(event: Obj, now: float) -> Cells:
    about = event.get("involvedObject") or {}
    last = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    seen = short_time(now - seconds_of(last)) if last else UNKNOWN
    source = event.get("source") or {}
    who = source.get("component") or event.get("reportingComponent", "")
    who = f"{who}, {source['host']}" if source.get("host") else who
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
        event.get("count", 1),
        event["metadata"]["name"],
    ]


def claim(obj: Obj, now: float) -> Cells:
    spec, status = obj["spec"], obj.get("status") or {}
    shown = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    room = (status.get("capacity") or {}).get("storage", "0") if bound else ""
    head = [obj["metadata"]["name"], shown, spec.get("volumeName", ""), room]
    head += [_modes(status.get("accessModes")) if bound else "", spec.get("storageClassName", "")]
    return [
        *head,
        spec.get("volumeAttributesClassName") or UNSET,
        age(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def volume(obj: Obj, now: float) -> Cells:
    spec, status = obj["spec"], obj.get("status") or {}
    shown = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    ref = spec.get("claimRef") or {}
    claimed = f"{ref.get('namespace', '')}/{ref.get('name', '')}" if ref else ""
    head = [
        obj["metadata"]["name"],
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes(spec.get("accessModes")),
    ]
    head += [spec.get("persistentVolumeReclaimPolicy", ""), shown, claimed, spec.get("storageClassName", "")]
    head += [spec.get("volumeAttributesClassName") or UNSET, status.get("reason", ""), age(obj, now)]
    return [*head, spec.get("volumeMode", UNSET)]


def _modes(modes: Any) -> str:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(short.get(each, each) for each in modes or ())


def service(obj: Obj, now: float) -> Cells:
    spec = obj["spec"]
    ports = (
        ",".join(f"{each['port']}/{each.get('protocol', 'TCP')}" for each in spec.get("ports") or ()) or NONE
    )
    chosen = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items())) or NONE
    head = [obj["metadata"]["name"], spec.get("type", ""), spec.get("clusterIP") or NONE, NONE]
    return [*head, ports, age(obj, now), chosen]


def device_claim(obj: Obj, now: float) -> Cells:
    status = obj.get("status") or {}
    states = ["deleted"] if obj["metadata"].get("deletionTimestamp") else []
    states += ["allocated"] if status.get("allocation") else []
    states += ["reserved"] if status.get("reservedFor") else []
    return [obj["metadata"]["name"], ",".join(states) or "pending", age(obj, now)]


def slice_(obj: Obj, now: float) -> Cells:
    spec = obj["spec"]
    where = spec.get("nodeName") or ("<all>" if spec.get("allNodes") else NONE)
    return [obj["metadata"]["name"], where, spec["driver"], spec["pool"]["name"], age(obj, now)]


def attachment(obj: Obj, now: float) -> Cells:
    spec = obj["spec"]
    source, attached = (
        spec["source"].get("persistentVolumeName", ""),
        (obj.get("status") or {}).get("attached", False),
    )
    return [obj["metadata"]["name"], spec["attacher"], source, spec["nodeName"], attached, age(obj, now)]


def role_binding(obj: Obj, now: float) -> Cells:
    ref, found = obj["roleRef"], dict[str, list[str]]()
    for each in obj.get("subjects") or ():
        name = (
            f"{each.get('namespace', '')}/{each['name']}"
            if each["kind"] == "ServiceAccount"
            else each["name"]
        )
        found.setdefault(each["kind"], []).append(name)
    wide = [", ".join(found.get(kind, ())) for kind in ("User", "Group", "ServiceAccount")]
    return [obj["metadata"]["name"], f"{ref['kind']}/{ref['name']}", age(obj, now), *wide]
