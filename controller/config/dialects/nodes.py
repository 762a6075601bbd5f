"""`--nodes=…` of cluster-autoscaler: a group with its bounds, in the forms that the providers gave it."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass

from controller.config.dialects.draft import Draft

_REGION = re.compile(r"[A-Z]{3}-[0-9]{2}")  # as the cloud writes them; gpu-1 is a group
_WITH_REGION = "<min>:<max>:<instance type>:<region>:<group>"
_WITH_PREFIX = "<min>:<max>:<instance type>:<group>[:<hostname prefix>]"


@dataclass(frozen=True)
class Nodes:
    """One flag; `least` and `most` are texts, which the settings model judges."""

    text: str
    least: str
    most: str
    kind: str
    group: str
    region: str = ""
    prefix: str = ""


def parse_nodes(draft: Draft, text: str, *, region: bool, groups: Container[str] = ()) -> Nodes | None:
    """`region`: the form that has one. The other is read without, and with one where nothing else can be meant.

    `groups`: those that the configuration knows.
    """
    form = _WITH_REGION if region else _WITH_PREFIX
    parts = [part.strip() for part in text.split(":")]
    if not all(parts) or len(parts) not in ((5,) if region else (4, 5)):
        draft.wrong("--nodes", text or '""', form, "command line")
        return None
    least, most, kind = parts[:3]
    for number in (least, most):
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            draft.wrong("--nodes", text or '""', f"{form} with whole numbers as bounds", "command line")
            return None
    if region or (len(parts) == 5 and parts[3] not in groups and _REGION.fullmatch(parts[3])):
        return Nodes(text, least, most, kind, parts[4], region=parts[3].upper())
    return Nodes(text, least, most, kind, parts[3], prefix=parts[4] if len(parts) == 5 else "")


def parse_all(
    draft: Draft, texts: tuple[str, ...], *, region: bool, groups: Container[str] = ()
) -> list[Nodes]:
    found: list[Nodes] = []
    for text in texts:
        nodes = parse_nodes(draft, text, region=region, groups=groups)
        if nodes is None:
            continue
        if any(nodes.group == other.group for other in found):
            draft.wrong("--nodes", text, f"every group once; {nodes.group} is given twice", "command line")
            continue
        found.append(nodes)
    if not texts:
        form = _WITH_REGION if region else _WITH_PREFIX
        draft.wrong(
            "--nodes",
            None,
            f"at least one --nodes={form}, because groups have their bounds there",
            "command line",
        )
    return found
