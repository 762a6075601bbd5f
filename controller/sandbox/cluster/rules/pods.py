"""What is refused in the spec of a new pod or of a template."""

from __future__ import annotations

from collections.abc import Iterable

from controller.sandbox.cluster.errors import (
    Cause,
    doubled,
    not_allowed_there,
    required,
    unsupported_value,
    wrong,
)
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.rules import names
from controller.sandbox.cluster.rules.figures import resource_causes
from controller.sandbox.cluster.rules.metadata import labels

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
POLICIES = ("Always", "OnFailure", "Never")
PORTS = "must be between 1 and 65535, inclusive"


def spec_causes(spec: Obj, place: str = "spec") -> list[Cause]:
    volumes = spec.get("volumes") or []
    causes = _volumes(volumes, f"{place}.volumes")
    if not spec.get("containers"):
        causes.append(required(f"{place}.containers"))
    seen: set[str] = set()
    known = {each.get("name") for each in volumes}
    for group in ("containers", "initContainers"):
        for at, each in enumerate(spec.get(group) or ()):
            causes += _container(each, f"{place}.{group}[{at}]", seen, known)
    if spec.get("hostNetwork"):
        causes += _host_ports(spec, place)
    if spec["restartPolicy"] not in POLICIES:
        causes.append(unsupported_value(f"{place}.restartPolicy", spec["restartPolicy"], *POLICIES))
    causes += labels(spec.get("nodeSelector"), f"{place}.nodeSelector")
    causes += _affinity(spec.get("affinity") or {}, f"{place}.affinity")
    if spec["dnsPolicy"] == "None" and not spec.get("dnsConfig"):
        text = "must provide `dnsConfig` when `dnsPolicy` is None"
        causes.append(required(f"{place}.dnsConfig", text))
    causes += _gates(spec.get("schedulingGates") or (), f"{place}.schedulingGates")
    causes += _spread(spec.get("topologySpreadConstraints") or (), f"{place}.topologySpreadConstraints")
    causes += toleration_causes(spec.get("tolerations") or (), f"{place}.tolerations")
    return causes


def _volumes(volumes: list[Obj], place: str) -> list[Cause]:
    causes, seen = list[Cause](), set[str]()
    for at, each in enumerate(volumes):
        name = each.get("name", "")
        if not name:
            causes.append(required(f"{place}[{at}].name"))
        elif bad := names.label_name(name):
            causes += [wrong(f"{place}[{at}].name", name, text) for text in bad]
        elif name in seen:
            causes.append(doubled(f"{place}[{at}].name", name))
        seen.add(name)
    return causes


def _container(each: Obj, place: str, seen: set[str], volumes: set[str | None]) -> list[Cause]:
    name, causes = each["name"], list[Cause]()
    if not name:
        causes.append(required(f"{place}.name"))
    else:
        causes += [wrong(f"{place}.name", name, text) for text in names.label_name(name)]
    if not each.get("image"):
        causes.append(required(f"{place}.image"))
    for at, port in enumerate(each.get("ports") or ()):
        for key in ("containerPort", "hostPort"):
            number = port.get(key, 0)
            if number and not 0 < number < 65536:
                causes.append(wrong(f"{place}.ports[{at}].{key}", number, PORTS))
            elif key == "containerPort" and not number:
                causes.append(required(f"{place}.ports[{at}].{key}"))
    for at, mount in enumerate(each.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            field = f"{place}.volumeMounts[{at}].name"
            causes.append((field, "FieldValueNotFound", f'Not found: "{mount.get("name", "")}"'))
    causes += resource_causes(each["resources"], f"{place}.resources")
    if name and name in seen:
        causes.append(doubled(f"{place}.name", name))
    seen.add(name)
    return causes


def _host_ports(spec: Obj, place: str) -> list[Cause]:
    text = "must match `containerPort` when `hostNetwork` is true"
    return [
        wrong(f"{place}.{group}[{at}].ports[{number}].hostPort", port.get("hostPort", 0), text)
        for group in ("containers", "initContainers")
        for at, each in enumerate(spec.get(group) or ())
        for number, port in enumerate(each.get("ports") or ())
        if port.get("hostPort", 0) != port["containerPort"]
    ]


def _affinity(affinity: Obj, place: str) -> list[Cause]:
    must = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if must is not None and not must.get("nodeSelectorTerms"):
        field = f"{place}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        return [required(field, "must have at least one node selector term")]
    return []


def _gates(gates: Iterable[Obj], place: str) -> list[Cause]:
    causes, seen = list[Cause](), set[str]()
    for at, each in enumerate(gates):
        causes += [wrong(f"{place}[{at}]", each["name"], text) for text in names.qualified(each["name"])]
        if each["name"] in seen:
            causes.append(doubled(f"{place}[{at}]", each["name"]))
        seen.add(each["name"])
    return causes


def _spread(constraints: Iterable[Obj], place: str) -> list[Cause]:
    causes: list[Cause] = []
    for at, each in enumerate(constraints):
        if each["maxSkew"] <= 0:
            causes.append(wrong(f"{place}[{at}].maxSkew", each["maxSkew"], "must be greater than zero"))
        if not each["topologyKey"]:
            causes.append(required(f"{place}[{at}].topologyKey", "can not be empty"))
        if each["whenUnsatisfiable"] not in ("DoNotSchedule", "ScheduleAnyway"):
            field, allowed = f"{place}[{at}].whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway")
            causes.append(unsupported_value(field, each["whenUnsatisfiable"], *allowed))
    return causes


def toleration_causes(tolerations: Iterable[Obj], place: str) -> list[Cause]:
    causes: list[Cause] = []
    for at, each in enumerate(tolerations):
        field, operator, value = f"{place}[{at}]", each.get("operator", ""), each.get("value", "")
        if key := each.get("key"):
            causes += [wrong(f"{field}.key", key, text) for text in names.qualified(key)]
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(wrong(f"{field}.operator", operator, text))
        if each.get("tolerationSeconds") is not None and each.get("effect") != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(wrong(f"{field}.effect", each.get("effect", ""), text))
        if operator in ("", "Equal"):
            if bad := names.label_value(value):
                causes.append(wrong(f"{field}.operator", value, ";".join(bad)))
        elif operator == "Exists":
            if value:
                causes.append(
                    wrong(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'")
                )
        else:
            causes.append(unsupported_value(f"{field}.operator", operator, "Equal", "Exists"))
        if each.get("effect") and each["effect"] not in EFFECTS:
            causes.append(unsupported_value(f"{field}.effect", each["effect"], *EFFECTS))
    return causes


def pod_causes(pod: Obj) -> list[Cause]:
    spec = pod["spec"]
    causes = spec_causes(spec)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        causes.append(not_allowed_there("spec.nodeName", text))
    return causes
