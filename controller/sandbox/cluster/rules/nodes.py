"""What is refused in a Node: taints, figures, and changes of its identity."""

from __future__ import annotations

import ipaddress

from controller.sandbox.cluster.errors import Cause, doubled, not_allowed_there, unsupported_value, wrong
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.rules import names
from controller.sandbox.cluster.rules.figures import amount_causes
from controller.sandbox.cluster.rules.pods import EFFECTS

CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def node_causes(node: Obj) -> list[Cause]:
    causes = _taints(node["spec"].get("taints") or []) + _figures(node["status"])
    for at, each in enumerate(node["spec"].get("podCIDRs") or ()):
        try:
            ipaddress.ip_network(each)
        except ValueError:
            causes.append(wrong(f"spec.podCIDRs[{at}]", each, CIDR))
    return causes


def change_causes(node: Obj, old: Obj) -> list[Cause]:
    causes = _figures(node["status"])
    spec, was = node["spec"], old["spec"]
    for key, field, name in (("podCIDRs", "podCIDRs", "podCIDR"), ("providerID", "providerID", "providerID")):
        if was.get(key) and spec.get(key) != was[key]:
            text = f'node updates may not change {name} except from "" to valid'
            causes.append(not_allowed_there(f"spec.{field}", text))
    causes += _taints(spec.get("taints") or [])
    if spec.get("externalID", "") != was.get("externalID", ""):
        causes.append(not_allowed_there("spec.externalID", "may not be updated"))
    return causes


def _figures(status: Obj) -> list[Cause]:
    return [
        cause
        for kind in ("capacity", "allocatable")
        for name, value in (status.get(kind) or {}).items()
        for cause in amount_causes(name, value, f"status.{kind}.{name}")
    ]


def _taints(taints: list[Obj]) -> list[Cause]:
    """Under `metadata`, where the server looks for them."""
    causes, seen = list[Cause](), set[tuple[str, str]]()
    for at, each in enumerate(taints):
        field, value = f"metadata.taints[{at}]", each.get("value", "")
        causes += [wrong(f"{field}.key", each["key"], text) for text in names.qualified(each["key"])]
        if bad := names.label_value(value):
            causes.append(wrong(f"{field}.value", value, ";".join(bad)))
        if each["effect"] not in EFFECTS:
            causes.append(unsupported_value(f"{field}.effect", each["effect"], *EFFECTS))
        if (each["key"], each["effect"]) in seen:
            shown = {
                "Key": each["key"],
                "Value": value,
                "Effect": each["effect"],
                "TimeAdded": each.get("timeAdded"),
            }
            causes.append(doubled(field, shown, "taints must be unique by key and effect pair"))
        seen.add((each["key"], each["effect"]))
    return causes
