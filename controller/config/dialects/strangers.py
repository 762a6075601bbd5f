"""Variables that have the prefix of a group and are none of it, but look as if they were meant to be.

Where one would have limited what a pool buys it is an error: left out, more is bought than somebody allowed, at any
price and anywhere. Other projects' words for those limits are such names, too.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from controller.config.errors import Problem
from controller.config.paths import PREFIX, suggestion
from controller.config.sources import SERVICE_LINK

_LIMITS = ("LOCATIONS", "MARKET", "MAX", "MAX_PRICE_PER_HOUR", "MAX_GPUS", "MAX_GPUS_TOTAL", "PAUSE")
_ELSEWHERE = {
    "LOCATIONS": ("LOCATION", "REGION", "REGIONS", "ZONE", "ZONES", "AVAILABLE_LOCATIONS", "AVAILABILITY_ZONES"),
    "MARKET": ("SPOT", "IS_SPOT", "CONTRACT", "INSTANCE_OPTION", "CAPACITY_TYPE"),
    "MAX": ("MAX_SIZE", "MAX_COUNT", "MAX_NODES", "MAX_MACHINES", "MAX_INSTANCES", "MAXIMUM"),
    "MAX_PRICE_PER_HOUR": ("PRICE", "MAX_PRICE", "PRICE_PER_HOUR", "HOURLY_PRICE", "MAX_HOURLY_PRICE"),
    "MIN": ("MIN_SIZE", "MIN_COUNT", "MIN_NODES", "MIN_MACHINES", "MIN_INSTANCES", "MINIMUM"),
}  # fmt: skip
_MEANT = {theirs: ours for ours, names in _ELSEWHERE.items() for theirs in names}


def of_group(
    given: Mapping[str, str], prefix: str, known: Container[str], everyone: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Each with the part that follows the prefix. What another group of a longer prefix has is not meant."""
    longer = [other for other in everyone if other.startswith(f"{prefix}_")]
    for name in sorted(given):
        rest = name.removeprefix(f"{prefix}_")
        if rest == name or rest in known or name.startswith(PREFIX):
            continue
        if not any(name.startswith(f"{other}_") for other in longer):
            yield name, rest


def of_pool(name: str, prefix: str, rest: str, known: Mapping[str, object]) -> Problem | str:
    """What is wrong with a pool that has such a variable, or a warning, or nothing."""
    near = _near(rest, known)
    if rest in _MEANT or near in _LIMITS:
        meant = f"{prefix}_{_MEANT.get(rest) or near}"
        expected = (
            f"{meant} in its place: there is no such variable of a pool, and what it says would be lost"
        )
        return Problem("", None, expected, name)
    if SERVICE_LINK.fullmatch(rest):
        return ""
    hint = f"; did you mean {prefix}_{near}?" if near else ""
    return f"{name}: is no variable of a group and has no effect{hint}"


def of_machine(name: str, prefix: str, rest: str, known: Mapping[str, object]) -> str:
    near = _near(rest, known)
    return (
        f"{name}: is no variable of a group and has no effect; did you mean {prefix}_{near}?" if near else ""
    )


def _near(rest: str, known: Mapping[str, object]) -> str:
    return suggestion(rest, known).removeprefix("; did you mean ").removesuffix("?")
