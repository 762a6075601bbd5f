"""What was measured, as rows: the value, the goal, whether it holds; for people, for scripts, for the docs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- bench-real: begin -->", "<!-- bench-real: end -->"


@dataclass(frozen=True)
class Row:
    key: str
    what: str
    value: float
    unit: str = ""
    below: float | None = None  # the goal, where there is one
    exactly: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool | None:
        if self.below is not None:
            return self.value < self.below
        if self.at_least is not None:
            return self.value >= self.at_least
        if self.at_most is not None:
            return self.value <= self.at_most
        return self.value == self.exactly if self.exactly is not None else None

    @property
    def goal(self) -> str:
        if self.below is not None:
            return f"under {_number(self.below)}{self._unit}"
        if self.at_least is not None:
            return f"at least {_number(self.at_least)}{self._unit}"
        if self.at_most is not None:
            return f"at most {_number(self.at_most)}{self._unit}"
        return f"{_number(self.exactly)}{self._unit}" if self.exactly is not None else ""

    @property
    def shown(self) -> str:
        return f"{_number(self.value)}{self._unit}"

    @property
    def _unit(self) -> str:
        return f" {self.unit}" if self.unit else ""

    def as_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "what": self.what,
            "value": self.value,
            "unit": self.unit,
            "goal": self.goal,
            "holds": self.holds,
            "note": self.note,
        }


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.3g}"


def percentile(values: Sequence[float], share: float) -> float:
    """By nearest rank: a value that was really seen, never one in between."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def spread(key: str, what: str, seconds: Sequence[float], goals: dict[str, float] | None = None) -> list[Row]:
    """p50, p99 and most of these times, in milliseconds."""
    found = {"p50": percentile(seconds, 0.5), "p99": percentile(seconds, 0.99), "max": max(seconds)}
    return [
        Row(
            f"{key}_{name}_ms",
            f"{what}, {name}",
            round(value * 1000, 1),
            "ms",
            below=(goals or {}).get(name),
        )
        for name, value in found.items()
    ]


@dataclass
class Part:
    """Rows that were measured together, and under which conditions."""

    name: str
    title: str
    about: str
    rows: list[Row] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "part": self.name,
            "title": self.title,
            "about": self.about,
            "rows": [row.as_json() for row in self.rows],
        }


def table(parts: Sequence[Part]) -> str:
    marks = {True: "holds", False: "MISSED", None: ""}
    every = [row for part in parts for row in part.rows]
    widths = [max((len(text) for text in texts), default=0) for texts in (
        [row.what for row in every], [row.shown for row in every], [row.goal for row in every],
    )]  # fmt: skip
    lines = []
    for part in parts:
        lines += ["", f"{part.title}. {part.about}".strip(), ""]
        for row in part.rows:
            cells = zip((row.what, row.shown, row.goal), widths, strict=True)
            lines.append(
                (
                    "  " + "  ".join(text.ljust(width) for text, width in cells) + "  " + marks[row.holds]
                ).rstrip()
            )
            lines += [f"      {row.note}"] if row.note else []
    return "\n".join(lines[1:])


def markdown(parts: Sequence[Part], made_on: str) -> str:
    marks = {True: "yes", False: "**no**", None: ""}
    lines = [made_on]
    for part in parts:
        lines += [
            "",
            f"**{part.title}.** {part.about}",
            "",
            "| what | measured | goal | holds |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {row.what}{f' ({row.note})' if row.note else ''} | {row.shown} | {row.goal} | {marks[row.holds]} |"
            for row in part.rows
        ]
    return "\n".join(lines)


def write(page: Path, text: str, marks: tuple[str, str] = (BEGIN, END)) -> None:
    """Replace what stands between the marks."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise SystemExit(f"{page}: expected the lines {marks[0]} and {marks[1]}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
