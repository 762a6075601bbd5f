"""What the API says about its limits in the headers of an answer. Pure.

`RateLimit-Policy: "project";q=500;w=60, "endpoint";q=60;w=60` are the limits, and
`RateLimit: "project";r=486;t=37, "endpoint";r=48;t=37` what is left of them and for how many seconds.
Names and numbers that cannot be read are left out: headers are a help, and no answer fails over them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

_ITEM = re.compile(r'\s*"?([A-Za-z0-9_-]{1,40})"?((?:\s*;\s*[a-z]{1,8}\s*=\s*"?[0-9.]{1,12}"?)+)\s*')
_PART = re.compile(r'([a-z]{1,8})\s*=\s*"?([0-9]{1,9}(?:\.[0-9]{1,3})?)"?(?=\s*(?:;|$))')


class Standing(msgspec.Struct, frozen=True):
    """One window: its limit and length, what is left, and when it begins anew."""

    most: int | None = None
    span: float | None = None
    left: int | None = None
    resets: float | None = None


def standings(headers: Mapping[str, str]) -> dict[str, Standing]:
    """By the window's name. Header names are in lower case."""
    policy, state = _items(headers.get("ratelimit-policy", "")), _items(headers.get("ratelimit", ""))
    found = {}
    for name in {*policy, *state}:
        limits, now = policy.get(name, {}), state.get(name, {})
        most, span, left = limits.get("q"), limits.get("w"), now.get("r")
        found[name] = Standing(
            most=int(most) if most else None,
            span=span or None,
            left=int(left) if left is not None else None,
            resets=now.get("t"),
        )
    return found


@lru_cache(maxsize=64)
def _items(header: str) -> Mapping[str, Mapping[str, float]]:
    """What is said of the limits themselves is the same in every answer."""
    found: dict[str, dict[str, float]] = {}
    for item in header.split(","):
        match = _ITEM.fullmatch(item)
        if match:
            found[match[1].lower()] = {key: float(value) for key, value in _PART.findall(match[2])}
    return found
