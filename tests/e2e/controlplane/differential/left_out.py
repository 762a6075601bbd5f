"""What no random pod or world has, for planner and scheduler would differ: the table in the docs, as a test's data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.e2e.controlplane.differential.worlds import Case
from tests.e2e.programs import ROOT

DOCUMENT = ROOT / "docs" / "testing.md"
HEAD = "| Left out | Reason |"
FIELDS = (
    "priorityClassName",
    "resourceClaims",
    "CSIStorageCapacity",
    "VolumeAttachment",
    "restartPolicyRules",
    "hostUsers",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "iscsi",
    "rbd",
    "namespaceSelector",  # of negations alone
)
NEGATIONS = ("NotIn", "DoesNotExist")


def documented() -> tuple[str, ...]:
    """The fields in the first column, row by row."""
    rows = DOCUMENT.read_text("utf-8").split(HEAD)[1].split("\n\n")[0].splitlines()[2:]
    return tuple(name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1]))


def found_in(case: Case) -> Iterator[str]:
    told = repr([case.pod, case.objects, list(case.world.everything())])
    for field in FIELDS:
        if field != "namespaceSelector" and f"'{field}'" in told:
            yield field
    for pod in (case.pod, *case.world.pods):
        for selector in _values(pod, "namespaceSelector"):
            rules = selector.get("matchExpressions", [])
            if (
                rules
                and not selector.get("matchLabels")
                and all(rule["operator"] in NEGATIONS for rule in rules)
            ):
                yield "namespaceSelector"


def _values(thing: Any, key: str) -> Iterator[Any]:
    """Of this key, wherever it is."""
    inside = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for name, value in inside:
        if name == key:
            yield value
        yield from _values(value, key)
