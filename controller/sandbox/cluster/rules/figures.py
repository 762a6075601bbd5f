"""Amounts of resources: their names, that they are whole where they must be, requests against limits."""

from __future__ import annotations

import re

from controller.sandbox.cluster.errors import Cause, not_allowed_there, required, wrong
from controller.sandbox.cluster.quantity import canonical, thousandths
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.rules.names import qualified

STANDARD = ("cpu", "memory", "ephemeral-storage")
ELSEWHERE = ("pods", "storage", "services", "secrets", "configmaps")  # standard, but not for containers
COUNTED = ("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps")
NEGATIVE, FRACTION = "must be greater than or equal to 0", "must be an integer"
_PAGE = re.compile(r"hugepages-(.+)")


def extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def amount_causes(name: str, value: str, field: str) -> list[Cause]:
    amount, causes = thousandths(value), list[Cause]()
    if amount < 0:
        causes.append(wrong(field, value, NEGATIVE))
    if (extended(name) or name in COUNTED) and amount % 1000:
        causes.append(wrong(field, value, FRACTION))
    return causes


def _name_causes(name: str, field: str) -> list[Cause]:
    causes = [wrong(field, name, each) for each in qualified(name)]
    if causes and "/" in name:
        causes.append(wrong(field, name, "doesn't follow extended resource name standard"))
    if causes or "/" in name or name in STANDARD or name.startswith("hugepages-"):
        return causes
    if name not in ELSEWHERE:
        causes.append(wrong(field, name, "must be a standard resource type or fully qualified"))
    return [*causes, wrong(field, name, "must be a standard resource for containers")]


def _page_causes(name: str, value: str, field: str) -> list[Cause]:
    found = _PAGE.fullmatch(name)
    if not found:
        return []
    size = thousandths(found[1])
    if size and thousandths(value) % size:
        return [wrong(field, value, f"{canonical(value)} is not positive integer multiple of {name}")]
    return []


def resource_causes(resources: Obj, place: str) -> list[Cause]:
    """Requests and limits of a container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes: list[Cause] = []
    for kind, held in (("limits", limits), ("requests", requests)):
        for name, value in held.items():
            field = f"{place}.{kind}[{name}]"
            causes += _name_causes(name, field) + amount_causes(name, value, field)
            if kind == "requests":
                causes += _against_limit(name, value, limits, place)
            causes += _page_causes(name, value, field)
    pages = any(name.startswith("hugepages-") for name in (*limits, *requests))
    if pages and not {"cpu", "memory"} & {*limits, *requests}:
        causes.append(not_allowed_there(place, "HugePages require cpu or memory"))
    return causes


def _against_limit(name: str, value: str, limits: Obj, place: str) -> list[Cause]:
    fixed = extended(name) or name.startswith("hugepages-")
    if name not in limits:
        text = "Limit must be set for non overcommitable resources"
        return [required(f"{place}.limits", text)] if fixed else []
    asked, most = thousandths(value), thousandths(limits[name])
    if fixed and asked != most:
        return [wrong(f"{place}.requests", value, f"must be equal to {name} limit of {limits[name]}")]
    if asked > most:
        return [
            wrong(f"{place}.requests", value, f"must be less than or equal to {name} limit of {limits[name]}")
        ]
    return []
