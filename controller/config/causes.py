"""One thing that is wrong, one line: what only follows from another problem is not told beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from controller.config.errors import Problem

# A reference, and what it refers to: nobody can judge the one while the other cannot be read.
_REFERENCES = (
    (
        re.compile(r"(?:headroom\[[0-9]+\]\.pool|scale_up\.priorities\[[0-9]+\])"),
        re.compile(r"pools(?:\[[0-9]+\](?:\.name)?)?"),
    ),
    (re.compile(r"pools\[[0-9]+\]\.join"), re.compile(r"join")),
    (re.compile(r"machines\[[0-9]+\]\.webhook"), re.compile(r"webhooks")),
)
_MISSPELT = re.compile(r"(?P<said>[^.]+): one of the known keys; did you mean (?P<meant>\w+)\?")


def causes(problems: Iterable[Problem]) -> list[Problem]:
    """In the same order; of several about one value the first."""
    told = list(dict.fromkeys(problems))
    wrong = {problem.key for problem in told if problem.value is not None and problem.key}
    nameless = {problem.key for problem in told if problem.key.endswith(".name")}
    meant = {
        problem.key[: -len(found["said"])] + found["meant"]
        for problem in told
        if problem.value is None
        and (found := _MISSPELT.fullmatch(f"{problem.key.rpartition('.')[2]}: {problem.expected}"))
    }
    seen: set[tuple[str, str]] = set()
    left = []
    for problem in told:
        place = (problem.key, problem.where)
        if problem.value is not None and problem.key and place in seen:
            continue
        if problem.value is None and problem.key in meant:
            continue  # it is there, under a name that is nearly its own
        if _is_below(problem.key, wrong) or _refers(problem.key, wrong | nameless):
            continue
        if problem.value is not None:
            seen.add(place)
        left.append(problem)
    return left


def _is_below(key: str, wrong: set[str]) -> bool:
    """Whether a whole that it is part of is wrong, such as a list where a map belongs."""
    return any(key[n] in ".[" and key[:n] in wrong for n in range(1, len(key)))


def _refers(key: str, wrong: set[str]) -> bool:
    return any(
        here.fullmatch(key) and any(there.fullmatch(other) for other in wrong) for here, there in _REFERENCES
    )
