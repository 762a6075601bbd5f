"""How what is under way with a switched machine ends: what its record says then. Pure.

Its wish is over, nobody could be called, it has failed, or was called in vain, or somebody else has switched it off.
"""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.policy import Deadlines
from controller.domain.reason import SENTENCES, Reason
from controller.domain.switching import Power, Switch, Switched
from controller.fleet.switching.aftermath import kept

# Why a machine that is on is of no use.
USELESS = (Reason.ON_DEADLINE, Reason.GPU_DEADLINE, Reason.GPU_LOST)
ROUNDS = 3  # of calls, each as long as off_within, before it is thought over whether they will ever do what they should


def off_by_hand(record: Switched, switch: Switch, now: float) -> Switched:
    return replace(
        off(record, now),
        rose_at=0.0,
        hand_until=now + switch.left_alone,
        reason=Reason.SWITCHED_BY_HAND,
        note="somebody else switched it off, or it failed",
    )


def called_in_vain(record: Switched, words: str = "") -> Switched:
    """It goes on, so it is called once more, with another key."""
    keeps = record.reason in USELESS
    return replace(
        record,
        again=record.again + 1,
        called_at=0.0,
        acked_at=0.0,
        tries=0,
        reason=record.reason if keeps else Reason.OFF_DEADLINE,
        note=record.note if keeps else words or SENTENCES[Reason.OFF_DEADLINE],
    )


def would_not_go(record: Switched, limits: Deadlines, now: float, words: str) -> Switched:
    """No call to switch it off has any effect: it goes on working, and is switched off at another time."""
    failures = record.failures + 1
    return replace(
        kept(record, now),
        again=0,
        acked_at=0.0,
        unsure=False,
        failures=failures,
        refused_until=now + pause_after(failures, limits),
        reason=Reason.SWITCH_FAILED,
        note=f"it cannot be switched off: {words}",
    )


def off(record: Switched, now: float) -> Switched:
    """It is off, for whatever reason; what it was called for is over."""
    return replace(
        record,
        power=Power.OFF,
        pods=(),
        called_at=0.0,
        acked_at=0.0,
        unsure=False,
        tries=0,
        again=0,
        on_since=0.0,
        off_since=now,
        node_ready_at=0.0,
        gpus_seen_at=0.0,
        gpus_lost_at=0.0,
        down_at=0.0,
        drain_at=0.0,
        refused_at=0.0,
        told_on=False,
        told_off_at=0.0,
    )


def withdrawn(record: Switched, now: float) -> Switched:
    """A wish that nobody has heard of: as if there had been none."""
    return replace(off(record, now), call="", off_since=record.off_since, ons=record.ons[:-1])


def given_up(record: Switched, limits: Deadlines, now: float, words: str) -> Switched:
    """It could not be switched on: others may take its pods."""
    failures = record.failures + 1
    return replace(
        withdrawn(record, now),
        rose_at=0.0,
        failures=failures,
        refused_until=now + pause_after(failures, limits),
        reason=Reason.SWITCH_FAILED,
        note=words,
    )


def failed(record: Switched, reason: Reason, limits: Deadlines, now: float, note: str = "") -> Switched:
    """It is of no use, and has to be off before it is tried again. A Node that is Ready is drained first."""
    failures = record.failures + 1
    drains = reason is not Reason.ON_DEADLINE
    return replace(
        record,
        power=Power.DRAINING if drains else Power.FALLING,
        wanted_at=record.wanted_at if drains else now,
        drain_at=now if drains else 0.0,
        failures=failures,
        refused_until=now + pause_after(failures, limits),
        reason=reason,
        note=note or SENTENCES[reason],
        again=0,
        called_at=0.0,
        acked_at=0.0,
        unsure=False,
        tries=0,
        down_at=0.0,
        refused_at=0.0,
    )


def pause_after(failures: int, limits: Deadlines) -> float:
    return min(limits.backoff_most, limits.backoff_first * 2.0 ** min(failures - 1, 16))
