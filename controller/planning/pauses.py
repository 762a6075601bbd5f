"""How long nothing is ordered after machines came to nothing. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from controller.domain.plan import Snapshot

LONGEST_PAUSE = 86400.0


def pause_after(tries: int, snapshot: Snapshot) -> float:
    """What the settings say after two tries, and doubling from there."""
    return min(LONGEST_PAUSE, snapshot.policy.deadlines.backoff_unusable * 2.0 ** min(tries - 2, 32))


def until(tries: int, last: float, snapshot: Snapshot, *, more: float = 0.0) -> float | None:
    """When the pause ends; None: it is over, also where it began at a moment to come (a clock was corrected)."""
    pause = pause_after(tries, snapshot) + more
    return last + pause if 0 <= snapshot.now - last < pause else None


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
