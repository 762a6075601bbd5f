"""The pods of a simulation: drawn from a seed, or read from a file; and how a file is read.

Two forms of CSV, told apart by their header: `arrival_s,duration_s,gpus,cpu_milli,memory_mib,gpu_model`
(the last may be empty or missing), and the columns of a published GPU trace (`cpu_milli`, `memory_mib`,
`num_gpu`, `gpu_spec`, `creation_time`, `deletion_time`, `scheduled_time`): pods without GPU are left out,
and a share of a GPU counts as one.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from controller.domain.names import gpu_slug

DRAWN = ("standard", "big")  # all others are files
MOST_MACHINES = 400  # in a workload from a file
STANDARD_PODS, STANDARD_MACHINES = 200, 15  # in a day
BIG_PODS, BIG_MACHINES = 1000, 60
DAY = 86400.0
YEAR = 366 * DAY  # no course is longer; in a later moment or a longer time somebody mistook a unit
GPUS = ((1, 60), (2, 22), (4, 12), (8, 6))  # how many, how often
SHORTEST, LONGEST = 120.0, 6 * 3600.0
MEDIAN, SPREAD = 1500.0, 1.0  # seconds; of the logarithm
_TOO_MANY = "too many"
MINIMAL = ("arrival_s", "duration_s", "gpus", "cpu_milli", "memory_mib", "gpu_model")
TRACE = (
    "cpu_milli", "memory_mib", "num_gpu", "gpu_spec", "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip


class Work(NamedTuple):
    """One pod that somebody wants to run once, to its end."""

    name: str  # while a file is read, where it stands there
    arrives: float
    lasts: float
    gpus: int
    cpu_milli: int
    memory_mib: int
    models: tuple[str, ...] = ()  # of which any will do; none: any GPU


def standard(seed: int, hours: float, *, pods_a_day: int = STANDARD_PODS) -> list[Work]:
    """A day has quiet nights and a busy afternoon; a third of the pods come in small bursts."""
    rng = random.Random(f"{seed}-workload")
    count = max(1, round(pods_a_day * hours * 3600 / DAY))
    found: list[Work] = []
    while len(found) < count:
        arrives = _moment(rng, hours * 3600)
        for _ in range(rng.choice((1, 1, 1, 1, 2, 4)) if len(found) + 4 <= count else 1):
            gpus = rng.choices([n for n, _ in GPUS], weights=[often for _, often in GPUS])[0]
            lasts = min(LONGEST, max(SHORTEST, rng.lognormvariate(math.log(MEDIAN), SPREAD)))
            found.append(Work("", arrives, round(lasts, 1), gpus, 2000 * gpus, 8192 * gpus))
            arrives += rng.uniform(0.0, 20.0)
    return _named(found)


def _moment(rng: random.Random, end: float) -> float:
    while True:
        at = rng.uniform(0.0, end)
        if rng.random() < 0.55 - 0.45 * math.cos(2 * math.pi * (at / DAY - 0.1)):
            return round(at, 1)


def _named(works: Iterable[Work]) -> list[Work]:
    ordered = sorted(works, key=lambda work: work.arrives)
    return [work._replace(name=f"pod-{number:05d}") for number, work in enumerate(ordered, 1)]


# -- from a file


class BadWorkload(ValueError):
    """Names the line, the value and what was expected."""


def read(path: str, *, compress: float = 1.0) -> list[Work]:
    """`compress`: how many times faster the arrivals and the running pass than they are written.

    The minimal form is somebody's own, and its moments are those of a faults file; a trace begins with its first pod.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, restkey=_TOO_MANY)
            columns = tuple(rows.fieldnames or ())
            if set(MINIMAL[:5]) <= set(columns):
                found, begin = list(_minimal(path, rows)), 0.0
            elif set(TRACE) <= set(columns):
                found = list(_trace(path, rows))
                begin = min((work.arrives for work in found), default=0.0)
            else:
                raise BadWorkload(
                    f"{path}: columns {', '.join(columns) or 'none'}; expected {','.join(MINIMAL)}, "
                    f"or those of a GPU trace ({','.join(TRACE)})"
                )
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise BadWorkload(f"{path}: cannot be read: {problem}") from None
    if not found:
        raise BadWorkload(f"{path}: no pod that needs a GPU")
    return _named(
        _within_a_year(work._replace(arrives=(work.arrives - begin) / compress, lasts=work.lasts / compress))
        for work in found
    )


def _within_a_year(work: Work) -> Work:
    for what, seconds in (("arrives", work.arrives), ("runs", work.lasts)):
        if seconds > YEAR:
            after = "after the beginning" if what == "arrives" else "long"
            raise BadWorkload(
                f"{work.name}: the pod {what} {seconds:g} s {after}, expected {YEAR:.0f} s (a year) at most"
            )
    return work


def _minimal(path: str, rows: csv.DictReader[str]) -> Iterator[Work]:
    for number, row in enumerate(rows, 2):
        at = f"{path}:{number}"
        _whole_row(at, row)
        gpus = _whole(at, row, "gpus")
        if gpus:
            yield Work(
                at, _number(at, row, "arrival_s"), _number(at, row, "duration_s"), gpus,
                _whole(at, row, "cpu_milli"), _whole(at, row, "memory_mib"), _models(row.get("gpu_model")),
            )  # fmt: skip


def _trace(path: str, rows: csv.DictReader[str]) -> Iterator[Work]:
    """Running begins when the trace scheduled it; one that never was is as long as it was there."""
    for number, row in enumerate(rows, 2):
        at = f"{path}:{number}"
        _whole_row(at, row)
        gpus = _whole(at, row, "num_gpu")
        if not gpus:
            continue
        created, deleted = _number(at, row, "creation_time"), _number(at, row, "deletion_time")
        began = _number(at, row, "scheduled_time") if row.get("scheduled_time") else created
        lasts = max(1.0, deleted - max(began, created))
        yield Work(
            at, created, lasts, gpus, _whole(at, row, "cpu_milli"), _whole(at, row, "memory_mib"),
        )  # fmt: skip


def _whole_row(at: str, row: Mapping[str, str | list[str] | None]) -> None:
    """What is beyond the header would be dropped, and with a comma in a field all after it means something else."""
    if more := row.get(_TOO_MANY):
        raise BadWorkload(f"{at}: got {len(row) - 1 + len(more)} fields, expected {len(row) - 1}")


def _models(text: str | None) -> tuple[str, ...]:
    """As labels say them, however they are written: `A100 80GB` is a100-80gb."""
    return tuple(gpu_slug(part) for part in (text or "").split("|") if part.strip())


def _number(at: str, row: Mapping[str, str | None], key: str) -> float:
    text = (row.get(key) or "").strip()
    try:
        value = float(text)
    except ValueError:
        raise BadWorkload(f"{at}: {key}: got {text!r}, expected a number") from None
    if not math.isfinite(value) or value < 0:
        raise BadWorkload(f"{at}: {key}: got {text!r}, expected a number of 0 or more")
    return value


def _whole(at: str, row: Mapping[str, str | None], key: str) -> int:
    value = _number(at, row, key)
    if value != int(value):
        raise BadWorkload(f"{at}: {key}: got {row.get(key)!r}, expected a whole number")
    return int(value)
