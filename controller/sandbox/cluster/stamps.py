"""Times as the API writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=8)
def _whole(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp(at: float) -> str:
    return _whole(int(at))


def micro_stamp(at: float) -> str:
    """MicroTime, which leases carry: always six digits."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(written: str | None) -> float:
    return datetime.fromisoformat(written).timestamp() if written else 0.0


_SECONDS = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_ZONE = r"(Z|[+-]\d\d:\d\d)"


def _moment(written: str, fraction: str, shown: str) -> datetime:
    begun = re.match(_SECONDS, written)
    if begun and re.fullmatch(fraction + _ZONE, written[begun.end() :]):
        return datetime.fromisoformat(written).astimezone(UTC)
    rest, wanted = (written[begun.end() :], ".000000") if begun else (written, "2006")
    raise ValueError(f'parsing time "{written}" as "{shown}": cannot parse "{rest}" as "{wanted}"')


def stamp_of(written: str) -> str:
    """A time as clients may write it, in the one form that is stored. ValueError in the server's words."""
    if re.fullmatch(_SECONDS + "Z", written):
        return written
    found = _moment(written, r"(\.\d+)?", "2006-01-02T15:04:05Z07:00")
    return found.strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=64)
def micro_stamp_of(written: str) -> str:
    """A MicroTime must have its six digits."""
    found = _moment(written, r"\.\d{6}", "2006-01-02T15:04:05.000000Z07:00")
    return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
