"""A failing course reduced: fewer events and fewer pods that still end in a violation, written as a test.

Halves, quarters, eighths … of what is there are left out as long as anything is still violated without them.
The rest of the chance (times, latencies) stays that of the seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from controller.sandbox.simulator.schedule import Entry
from controller.sandbox.simulator.workload import Work

T = TypeVar("T")
Violates = Callable[[Sequence[Work], Sequence[Entry]], list[str]]


def reduced(items: Sequence[T], violates: Callable[[Sequence[T]], bool]) -> list[T]:
    """A part of `items` that still violates, of which no single one can be left out."""
    kept, size = list(items), max(1, len(items) // 2)
    while kept:
        begin, shorter = 0, False
        while begin < len(kept):
            rest = kept[:begin] + kept[begin + size :]
            if violates(rest):
                kept, shorter = rest, True
            else:
                begin += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return kept


def shrink(
    works: Sequence[Work], trouble: Sequence[Entry], violates: Violates
) -> tuple[list[Work], list[Entry], list[str]]:
    """Events first, then pods, then events again. With what is violated at the end."""
    fewer = reduced(trouble, lambda part: bool(violates(works, part)))
    pods = reduced(works, lambda part: bool(part) and bool(violates(part, fewer)))
    fewer = reduced(fewer, lambda part: bool(violates(pods, part)))
    return pods, fewer, violates(pods, fewer)


def as_test(
    seed: int,
    hours: float,
    works: Sequence[Work],
    trouble: Sequence[Entry],
    told: str,
    settings: Mapping[str, Any],
    *,
    residents: bool = False,
) -> str:
    """`settings`: those that differ from a standard day's. `residents`: pods without GPUs lived there, too."""
    pods = "".join(f"    {work!r},\n" for work in works)
    events = "".join(f"    {json.loads(json.dumps(entry))!r},\n" for entry in trouble)
    chosen = "".join(f"    {key!r}: {value!r},\n" for key, value in settings.items())
    beside = ", residents=True" if residents else ""
    return (
        f'"""Reduced from seed {seed}, which violated: {told}"""\n\n'
        "from __future__ import annotations\n\n"
        "from controller.sandbox.simulator.workload import Work\n"
        "from tests.simulator.days import Day\n\n"
        f"PODS = [\n{pods}]\nFAULTS = [\n{events}]\nSETTINGS = {{\n{chosen}}}\n\n\n"
        f"def test_seed_{seed}_violates_nothing() -> None:\n"
        f"    day = Day({seed}, {hours!r}, works=PODS, faults=FAULTS, settings=SETTINGS{beside})\n"
        '    assert day.result["violations"] == [], day.trace\n'
    )
