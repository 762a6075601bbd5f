"""Field selectors: few fields of few kinds, and each kind's own words for all others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from controller.sandbox.cluster.errors import bad_request
from controller.sandbox.cluster.resources import Obj, Resource

FieldTest = Callable[[Obj], bool]

_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_PODS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
# What may be asked beside the name: by group and plural, as the stored object has it.
_FIELDS: dict[tuple[str, str], dict[str, str]] = {
    ("", "pods"): {name: name for name in _PODS} | {"spec.host": "spec.nodeName"},
    ("", "nodes"): {"spec.unschedulable": "spec.unschedulable"},
    ("", "namespaces"): {"status.phase": "status.phase"},
    ("", "secrets"): {"type": "type"},
    ("", "services"): {"spec.clusterIP": "spec.clusterIP", "spec.type": "spec.type"},
    ("", "replicationcontrollers"): {"status.replicas": "status.replicas"},
    ("", "events"): {f"involvedObject.{name}": f"involvedObject.{name}" for name in _ABOUT}
    | {name: name for name in ("reason", "reportingComponent", "source", "type")},
    ("events.k8s.io", "events"): {f"regarding.{name}": f"involvedObject.{name}" for name in _ABOUT}
    | {"reason": "reason", "type": "type", "reportingController": "reportingComponent"},
    ("batch", "jobs"): {"status.successful": "status.successful"},
    ("resource.k8s.io", "resourceslices"): {"spec.nodeName": "spec.nodeName", "spec.driver": "spec.driver"},
}
_SLICES = "resource.k8s.io/v1, Kind=ResourceSlice"


def _refusal(resource: Resource, name: str) -> str:
    if resource.plural == "jobs":
        return f'field label "{name}" not supported for Job'
    if resource.plural == "resourceslices":
        return f"field label not supported for {_SLICES}: {name}"
    if (resource.group, resource.plural) in _FIELDS:
        return f"field label not supported: {name}"
    return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def parse_fields(resource: Resource, text: str) -> tuple[dict[str, str], FieldTest | None]:
    """What must be equal (for the indexes), and the whole test of a `fieldSelector`."""
    exact: dict[str, str] = {}
    wanted: list[tuple[str, bool, str]] = []
    known = _FIELDS.get((resource.group, resource.plural), {})
    for part in filter(None, text.split(",")):
        name, operator, value = re.split(r"(!=|==|=)", part, maxsplit=1) if "=" in part else ("", "", "")
        if not operator:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        if name not in ("metadata.name", "metadata.namespace", *known):
            raise bad_request(_refusal(resource, name))
        path = known.get(name, name)
        wanted.append((path, operator != "!=", value))
        if operator != "!=":
            exact[path] = value
    if not wanted:
        return {}, None
    return exact, lambda obj: all((_field(obj, name) == value) == same for name, same, value in wanted)


def _field(obj: Obj, path: str) -> str:
    if path == "source":
        return str((obj.get("source") or {}).get("component", "") or obj.get("reportingComponent", ""))
    if path == "status.podIPs":
        return ",".join(each["ip"] for each in (obj.get("status") or {}).get("podIPs") or ())
    found: Any = obj
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    if found is None and path in ("spec.unschedulable", "spec.hostNetwork"):
        return "false"
    if found is None and path.startswith("status.") and path.rpartition(".")[2] in ("successful", "replicas"):
        return "0"
    return "" if found is None else str(found)
