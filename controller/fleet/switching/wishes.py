"""Wishes to switch a machine on for pods: whether they still stand. Pure.

A wish may wait for long before anybody hears of it: its endpoint cannot be reached, or its credentials cannot be read.
"""

from __future__ import annotations

from collections.abc import Set

from msgspec.structs import replace

from controller.domain.switching import Power, Switched
from controller.fleet.switching.life import off


def freed(record: Switched, waiting: Set[str], there: Set[str]) -> Switched:
    """Without its pods, where it was called on for them and they are gone since, or run elsewhere."""
    comes = record.power is Power.RISING and record.call and (record.called_at or record.unsure)
    if not (comes and record.pods) or (waiting | there) & set(record.pods):
        return record
    return replace(record, pods=())


def unless_pointless(record: Switched, wanted: Set[str], now: float) -> Switched:
    """Nobody was called yet, and none of its pods is wanted any more: then nobody is called.

    `wanted`: the pods that wait. None of them where a machine that comes has become free: whoever plans finds out
    whether they need another one beside that.
    """
    called = record.called_at or record.unsure or record.node_ready_at
    if record.power is not Power.RISING or not record.call or called or not record.pods:
        return record
    if wanted & set(record.pods):
        return record
    return replace(off(record, now), call="", off_since=record.off_since, ons=record.ons[:-1])
