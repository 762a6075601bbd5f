"""Times as the API writes them."""

from __future__ import annotations

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
