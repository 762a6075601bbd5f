"""Label and field selectors, from the query string of a list and from objects (`matchLabels`…)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from controller.sandbox.cluster.errors import bad_request
from controller.sandbox.cluster.resources import Obj, Resource

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]
FieldTest = Callable[[Obj], bool]

_SET = re.compile(r"\s*([^\s!=,()]+)\s+(in|notin)\s*\(([^)]*)\)\s*")
_EQUAL = re.compile(r"\s*([^\s!=,()]+)\s*(==|=|!=)\s*([^\s,()=!]*)\s*")
_EXISTS = re.compile(r"\s*(!?)\s*([^\s!=,()]+)\s*")


def parse_labels(text: str) -> LabelTest | None:
    """The test of a `labelSelector` parameter; None where it selects everything."""
    wanted: list[tuple[str, str, frozenset[str]]] = []
    position = 0
    while position < len(text):
        if found := _SET.match(text, position):
            values = frozenset(value.strip() for value in found[3].split(","))
            wanted.append((found[1], "In" if found[2] == "in" else "NotIn", values))
        elif found := _EQUAL.match(text, position):
            wanted.append((found[1], "NotIn" if found[2] == "!=" else "In", frozenset((found[3],))))
        elif found := _EXISTS.match(text, position):
            wanted.append((found[2], "DoesNotExist" if found[1] else "Exists", frozenset()))
        if not found or (found.end() < len(text) and text[found.end()] != ","):
            raise bad_request(f"unable to parse requirement: found unexpected text in {text!r}")
        position = found.end() + 1
    return (lambda labels: all(_meets(labels, *each) for each in wanted)) if wanted else None


def _meets(labels: Labels, key: str, operator: str, values: frozenset[str]) -> bool:
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) == (operator == "Exists")
    if operator in ("Gt", "Lt"):
        try:
            left, right = int(labels[key]), int(next(iter(values)))
        except (KeyError, ValueError, StopIteration):
            return False
        return left > right if operator == "Gt" else left < right
    return False


def meets(labels: Labels, requirements: list[Obj]) -> bool:
    """`matchExpressions`, of label selectors and of node selector terms."""
    return all(
        _meets(labels, each["key"], each["operator"], frozenset(each.get("values") or ()))
        for each in requirements
    )


def matches(labels: Labels, selector: Obj | None, *, empty: bool = True) -> bool:
    """A LabelSelector object; None selects nothing, an empty one selects `empty`."""
    if selector is None:
        return False
    exact, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not exact and not expressions:
        return empty
    return all(labels.get(key) == value for key, value in exact.items()) and meets(labels, expressions)


_INVOLVED = tuple(
    f"involvedObject.{name}"
    for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
)
_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "events": (*_INVOLVED, "reason", "reportingComponent", "source", "type"),
    "secrets": ("type",),
    "jobs": ("status.successful",),
    "replicasets": ("status.replicas",),
}


def parse_fields(resource: Resource, text: str) -> tuple[dict[str, str], FieldTest | None]:
    """What must be equal (for the indexes), and the whole test of a `fieldSelector`."""
    exact: dict[str, str] = {}
    wanted: list[tuple[str, bool, str]] = []
    for part in filter(None, text.split(",")):
        name, operator, value = re.split(r"(!=|==|=)", part, maxsplit=1) if "=" in part else ("", "", "")
        if not operator:
            raise bad_request(f"invalid field selector: couldn't understand operator in {part!r}") from None
        if name not in ("metadata.name", "metadata.namespace", *_FIELDS.get(resource.plural, ())):
            raise bad_request(
                f'Unable to find "{resource.group}/{resource.version}, Resource={resource.plural}" that match '
                f'label selector "", field selector "{text}": field label not supported: {name}'
            )
        wanted.append((name, operator != "!=", value))
        if operator != "!=":
            exact[name] = value
    if not wanted:
        return {}, None
    return exact, lambda obj: all((_field(obj, name) == value) == same for name, same, value in wanted)


def _field(obj: Obj, path: str) -> str:
    if path == "source":
        return str((obj.get("source") or {}).get("component", ""))
    found: Any = obj
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    if found is None and path in ("spec.unschedulable", "spec.hostNetwork"):
        return "false"
    return "" if found is None else str(found)
