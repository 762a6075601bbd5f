"""The differences that are allowed: the table in `docs/sandbox-cluster.md`, read as the test's own data.

A row covers a field of the answers to some probes, and whatever lies below it. Probes are named by theme
and name, both may have `*`; a row that covers nothing any more has to go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.e2e.controlplane.conformance.play import Difference
from tests.e2e.programs import ROOT

DOCUMENT = ROOT / "docs" / "sandbox-cluster.md"
HEAD = ("Probe", "Field", "API server", "Sandbox", "Why")


@dataclass(frozen=True)
class Row:
    probe: str
    field: str

    def may_concern(self, theme: str, probe: str) -> bool:
        return fnmatchcase(f"{theme}/{probe}", self.probe)

    def covers(self, theme: str, difference: Difference) -> bool:
        if not self.may_concern(theme, difference.probe):
            return False
        parts = difference.field.split(".")
        heads = (".".join(parts[: at + 1]) for at in range(len(parts)))
        return any(fnmatchcase(head.replace("[]", ""), self.field) for head in heads)


def rows() -> tuple[Row, ...]:
    found: list[Row] = []
    inside = False
    for line in DOCUMENT.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if tuple(cells) == HEAD:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not set(line) <= set("|-: "):
            if len(cells) != len(HEAD) or not all(cells):
                raise ValueError(f"{DOCUMENT.name}: a row needs {len(HEAD)} cells: {line}")
            names = [re.findall(r"`([^`]+)`", cell) for cell in cells[:2]]
            if any(len(each) != 1 for each in names):
                raise ValueError(f"{DOCUMENT.name}: probe and field stand in one pair of backticks: {line}")
            found.append(Row(names[0][0], names[1][0]))
    return tuple(found)
