"""What is refused in the small kinds: maps, secrets, leases, budgets, classes, claims."""

from __future__ import annotations

import re
from collections.abc import Callable

from controller.sandbox.cluster.errors import Cause, doubled, not_allowed_there, required, wrong
from controller.sandbox.cluster.resources import (
    BUDGETS,
    CONFIG_MAPS,
    LEASES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SECRETS,
    Obj,
    Resource,
)
from controller.sandbox.cluster.rules.figures import NEGATIVE
from controller.sandbox.cluster.rules.metadata import IMMUTABLE
from controller.sandbox.cluster.rules.names import config_key

SET_FAST = "field is immutable when `immutable` is set"
LARGEST = 1024 * 1024
HIGHEST = 1_000_000_000
SHARE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
SYSTEM_CLASSES = ("system-node-critical", "system-cluster-critical")
OF_TYPE = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}
TLS = ("tls.crt", "tls.key")


def _config_map(obj: Obj, old: Obj | None) -> list[Cause]:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    causes = [wrong(f"data[{key}]", key, each) for key in data for each in config_key(key)]
    causes += [
        wrong(f"data[{key}]", key, "duplicate of key present in binaryData") for key in data if key in binary
    ]
    causes += [wrong(f"binaryData[{key}]", key, each) for key in binary for each in config_key(key)]
    size = sum(len(value.encode()) for value in data.values()) + sum(len(v) * 3 // 4 for v in binary.values())
    if size > LARGEST:
        causes.append(("", "FieldValueTooLong", f"Too long: may not be more than {LARGEST} bytes"))
    return causes + _immutable(obj, old, "data", "binaryData")


def _secret(obj: Obj, old: Obj | None) -> list[Cause]:
    data, kind = obj.get("data") or {}, obj.get("type")
    causes = [wrong(f"data[{key}]", key, each) for key in data for each in config_key(key)]
    if kind == "kubernetes.io/service-account-token":
        name = "kubernetes.io/service-account.name"
        if not (obj["metadata"].get("annotations") or {}).get(name):
            causes.append(required(f"metadata.annotations[{name}]"))
    if kind in OF_TYPE and OF_TYPE[kind] not in data:
        causes.append(required(f"data[{OF_TYPE[kind]}]"))
    if kind == "kubernetes.io/tls":
        causes += [required(f"data[{key}]") for key in TLS if key not in data]
    if old is not None and kind != old.get("type"):
        causes.append(wrong("type", kind, IMMUTABLE))
    return causes + _immutable(obj, old, "data")


def _immutable(obj: Obj, old: Obj | None, *fields: str) -> list[Cause]:
    if old is None or not old.get("immutable"):
        return []
    causes = [] if obj.get("immutable") else [not_allowed_there("immutable", SET_FAST)]
    return causes + [not_allowed_there(key, SET_FAST) for key in fields if obj.get(key) != old.get(key)]


def _lease(obj: Obj, _: Obj | None) -> list[Cause]:
    spec, causes = obj["spec"], list[Cause]()
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        causes.append(wrong("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        causes.append(wrong("spec.leaseTransitions", transitions, NEGATIVE))
    return causes


def _budget(obj: Obj, _: Obj | None) -> list[Cause]:
    spec = obj["spec"]
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    causes: list[Cause] = []
    if low is not None and high is not None:
        shown = {"MinAvailable": low, "Selector": spec.get("selector"), "MaxUnavailable": high}
        shown["UnhealthyPodEvictionPolicy"] = spec.get("unhealthyPodEvictionPolicy")
        causes.append(wrong("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for key in ("minAvailable", "maxUnavailable"):
        value = spec.get(key)
        if isinstance(value, str) and not re.fullmatch(r"[0-9]+%", value):
            causes.append(wrong(f"spec.{key}", value, SHARE))
        elif isinstance(value, int) and value < 0:
            causes.append(wrong(f"spec.{key}", value, NEGATIVE))
    return causes


def _priority_class(obj: Obj, old: Obj | None) -> list[Cause]:
    name, value, causes = obj["metadata"]["name"], obj["value"], list[Cause]()
    if old is not None:
        if value != old["value"]:
            causes.append(not_allowed_there("value", "may not be changed in an update."))
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            causes.append(wrong("preemptionPolicy", obj.get("preemptionPolicy"), IMMUTABLE))
        return causes
    if name.startswith("system-"):
        if name not in SYSTEM_CLASSES:
            text = (
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class"
            )
            causes.append(not_allowed_there("metadata.name", text))
    elif value > HIGHEST:
        text = f"maximum allowed value of a user defined priority is {HIGHEST}"
        causes.append(not_allowed_there("value", text))
    return causes


def _runtime_class(obj: Obj, old: Obj | None) -> list[Cause]:
    if old is not None and obj["handler"] != old["handler"]:
        return [wrong("handler", obj["handler"], IMMUTABLE)]
    return [] if obj["handler"] else [required("handler")]


_RULES: dict[Resource, Callable[[Obj, Obj | None], list[Cause]]] = {
    CONFIG_MAPS: _config_map,
    SECRETS: _secret,
    LEASES: _lease,
    BUDGETS: _budget,
    PRIORITY_CLASSES: _priority_class,
    RUNTIME_CLASSES: _runtime_class,
}


def other_causes(resource: Resource, obj: Obj, old: Obj | None = None) -> list[Cause]:
    if resource in _RULES:
        return _RULES[resource](obj, old)
    if resource.kind.startswith("ResourceClaim"):
        return _claim(resource, obj)
    return []


def _claim(resource: Resource, obj: Obj) -> list[Cause]:
    template = resource.kind.endswith("Template")
    spec, place = (obj["spec"]["spec"], "spec.spec") if template else (obj["spec"], "spec")
    causes, seen = list[Cause](), set[str]()
    for at, each in enumerate((spec.get("devices") or {}).get("requests") or ()):
        field = f"{place}.devices.requests[{at}]"
        if each["name"] in seen:
            causes.append(doubled(f"{field}.name", each["name"]))
        seen.add(each["name"])
        if bool(each.get("exactly")) == bool(each.get("firstAvailable")):
            causes.append(required(field, "exactly one of `exactly` or `firstAvailable` is required"))
    return causes
