"""Kubernetes timestamps: whole seconds (`Time`) or exactly six decimals (`MicroTime`), always UTC.

Replicas share their seconds, and parsing costs more than remembering, so it is remembered.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_SUCH = "2026-11-18T10:00:00Z"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def parse(text: str) -> float:
    """Seconds since the epoch. ValueError for anything else than RFC 3339."""
    try:
        return (datetime.fromisoformat(text) - _EPOCH).total_seconds()
    except (ValueError, TypeError, OverflowError) as error:  # TypeError: it has no time zone
        raise ValueError(f"{text!r}; expected a time as RFC 3339 has it, such as {_SUCH}") from error


def _at(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)  # multiplying a float by 1e6 is a microsecond off at times


def stamp(seconds: float) -> str:
    """`2026-01-02T03:04:05Z`, with decimals only where there are any."""
    found = _at(seconds)
    return found.strftime("%Y-%m-%dT%H:%M:%S") + (f".{found.microsecond:06d}Z" if found.microsecond else "Z")


def micro(seconds: float) -> str:
    """The form of leases: the API server refuses other than six decimals there."""
    found = _at(seconds)
    return found.strftime("%Y-%m-%dT%H:%M:%S") + f".{found.microsecond:06d}Z"
