"""What no random pod or world has, for planner and scheduler would differ: the table in the docs, as a test's data."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
)


def documented() -> tuple[str, ...]:
    """The fields in the first column, row by row."""
    rows = DOCUMENT.read_text("utf-8").split(HEAD)[1].split("\n\n")[0].splitlines()[2:]
    return tuple(name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1]))


def found_in(case: Case) -> Iterator[str]:
    told = repr([case.pod, case.objects, list(case.world.everything())])
    for field in FIELDS:
        if f"'{field}'" in told:
            yield field
