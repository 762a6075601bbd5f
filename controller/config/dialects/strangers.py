"""Variables that have the prefix of a group and are none of it, but look as if they were meant to be.

Where one would have limited what a pool buys it is an error: left out, more is bought than somebody allowed, at any
price and anywhere. Other projects' words for those limits are such names, too.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping

from controller.config.dialects.slips import slips
from controller.config.errors import Problem
from controller.config.paths import PREFIX, suggestion
from controller.config.sources import CREDENTIALS, SERVICE_LINK

_LIMITS = ("LOCATIONS", "MARKET", "MAX", "MAX_PRICE_PER_HOUR", "MAX_GPUS", "MAX_GPUS_TOTAL", "PAUSE")
_ELSEWHERE = {
    "LOCATIONS": ("LOCATION", "REGION", "REGIONS", "ZONE", "ZONES", "AVAILABLE_LOCATIONS", "AVAILABILITY_ZONES"),
    "MARKET": ("SPOT", "IS_SPOT", "CONTRACT", "INSTANCE_OPTION", "CAPACITY_TYPE"),
    "MAX": ("MAX_SIZE", "MAX_COUNT", "MAX_NODES", "MAX_MACHINES", "MAX_INSTANCES", "MAXIMUM"),
    "MAX_PRICE_PER_HOUR": ("PRICE", "MAX_PRICE", "PRICE_PER_HOUR", "HOURLY_PRICE", "MAX_HOURLY_PRICE"),
    "MIN": ("MIN_SIZE", "MIN_COUNT", "MIN_NODES", "MIN_MACHINES", "MIN_INSTANCES", "MINIMUM"),
}  # fmt: skip
# Which programs of all kinds have, too: `AWS_REGION`.
_ANYBODYS = ("REGION", "REGIONS", "ZONE", "ZONES", "AVAILABILITY_ZONES")
_LOCATIONS = re.compile(
    r"[\[\]\",\s]*(?:[A-Z]{3}-[0-9]{2}[\[\]\",\s]*)+", re.IGNORECASE
)  # as the cloud writes them
_WORDS = ("MARKED", "MARKER", "PARSE", "PASSE", "LOTIONS", "LOCATORS", "LOCATING", "LOCUTIONS", "OVATIONS")
_MEANT = {theirs: ours for ours, names in _ELSEWHERE.items() for theirs in names}

_ACCOUNT = {name for names in CREDENTIALS.values() for name in names}


def of_group(
    given: Mapping[str, str], prefix: str, known: Container[str], everyone: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Each with the part that follows the prefix. What another group of a longer prefix has is not meant."""
    longer = [other for other in everyone if other.startswith(f"{prefix}_")]
    for name in sorted(given):
        rest = name.removeprefix(f"{prefix}_")
        if rest == name or rest in known or name.startswith(PREFIX):
            continue
        if name.removesuffix("_FILE") in _ACCOUNT:
            continue
        if not any(name.startswith(f"{other}_") for other in longer):
            yield name, rest


def of_pool(given: Mapping[str, str], prefix: str, rest: str, known: Mapping[str, object]) -> Problem | str:
    """What is wrong with a pool that has such a variable, or a warning, or nothing."""
    name = f"{prefix}_{rest}"
    if SERVICE_LINK.fullmatch(rest):
        return ""
    meant = _MEANT.get(rest) or _misspelt(rest)
    said = rest in _ANYBODYS and f"{prefix}_LOCATIONS" in given
    if meant and not (said and not _LOCATIONS.fullmatch(given[name])):
        expected = f"{prefix}_{meant} in its place: there is no such variable of a pool, and what it says would be lost"
        return Problem("", None, expected, name)
    near = meant or _near(rest, known)
    hint = f"; did you mean {prefix}_{near}?" if near else ""
    return f"{name}: is no variable of a group and has no effect{hint}"


def of_machine(name: str, prefix: str, rest: str, known: Mapping[str, object]) -> str:
    near = "" if SERVICE_LINK.fullmatch(rest) else _near(rest, known)
    return (
        f"{name}: is no variable of a group and has no effect; did you mean {prefix}_{near}?" if near else ""
    )


def _near(rest: str, known: Mapping[str, object]) -> str:
    return suggestion(rest, known).removeprefix("; did you mean ").removesuffix("?")


def _misspelt(rest: str) -> str:
    """The limit that this is, but for a letter or two. What is only alike is somebody else's."""
    theirs = rest.split("_")
    for name in (*_LIMITS, *_MEANT):
        if "".join(theirs) == name.replace("_", ""):
            return _MEANT.get(name, name)
    for limit in _LIMITS:
        ours = limit.split("_")
        counts = [_slips(*pair) for pair in zip(theirs, ours, strict=False)]
        few = all(count <= (1 if len(word) < 7 else 2) for count, word in zip(counts, ours, strict=False))
        if len(theirs) == len(ours) and few and sum(counts) <= 2:
            return limit
    return ""


def _slips(theirs: str, ours: str) -> int:
    """Letters that are changed, dropped, too many or in the wrong order; many if this is another word."""
    if theirs == ours:
        return 0
    if not theirs or theirs in _WORDS or theirs[0] not in ours[:2]:
        return len(ours)
    if len(ours) < 4 and len(theirs) <= len(ours) and sorted(theirs) != sorted(ours):
        return len(ours)  # MAP and MIX are words, too
    return slips(theirs, ours)
