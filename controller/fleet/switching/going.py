"""The life of a switched machine from the moment on in which it is to go off: the part of `life` that ends it. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.policy import Deadlines
from controller.domain.reason import Reason
from controller.domain.switching import Switch, Switched
from controller.fleet.switching.aftermath import DARK, kept, may_fall
from controller.fleet.switching.ends import ROUNDS, USELESS, called_in_vain, off, off_by_hand, would_not_go
from controller.fleet.switching.seeing import Seen
from controller.fleet.usable import lacking


def draining(record: Switched, seen: Seen, switch: Switch, limits: Deadlines, now: float) -> Switched:
    """One that failed may be kept from going for long: by a pod, an annotation, a pause. Meanwhile it may be mended.

    Any other one is drained for as long as an eviction may take, and then goes, or stays.
    """
    if record.reason not in USELESS:
        return record
    if not seen.up or seen.node is None:
        return _silent(record, seen, switch, limits, now)
    record = replace(record, down_at=0.0) if record.down_at else record
    return record if lacking(seen.promised, seen.node) else _mended(record, now)


def _silent(record: Switched, seen: Seen, switch: Switch, limits: Deadlines, now: float) -> Switched:
    """One that nobody here has called off has gone dark: it was switched off by hand, or its network is away."""
    if not record.down_at:
        return replace(record, down_at=now)
    silence = DARK if seen.told == "off" else _silence(switch, limits)
    over = seen.told != "on" and now >= record.down_at + silence
    return off_by_hand(record, switch, now) if over else record


def _doubted(record: Switched, now: float) -> Switched:
    """Its Node is silent, and its endpoint says on. It obeys, or answers as if it did: at last the Node is believed."""
    words = "It was switched off and its Node is silent, but its status endpoint says that it is on."
    if not record.acked_at or record.again < ROUNDS:
        return called_in_vain(record, words)
    words += " It counts as off."
    after = replace(off(record, now), doubted=True)  # whether its Node may go nobody knows
    if record.reason in USELESS:
        return replace(after, note=f"{record.note.rstrip('.')}. {words}")
    return replace(after, rose_at=0.0, reason=Reason.OFF_DEADLINE, note=words, failures=0, refused_until=0.0)


def _enough(record: Switched) -> bool:
    """Whether it was called often enough. Where that has ended in nothing before, once is enough."""
    refused_before = record.failures and record.reason not in USELESS
    return bool(refused_before) or record.again >= ROUNDS


def _works_on(record: Switched, seen: Seen, limits: Deadlines, now: float) -> Switched:
    """It shows all its GPUs, and no call can end it any more: to keep pods off it for ever would be to lose it."""
    if seen.paused or record.reason in USELESS:
        return replace(_mended(record, now), acked_at=0.0, unsure=False, again=0)
    return would_not_go(record, limits, now, "it was called, and its Node is still Ready")


def _silence(switch: Switch, limits: Deadlines) -> float:
    """An endpoint that could tell and says nothing is asked for long: meanwhile it may be started again, and called off."""
    return switch.on_within + switch.off_within if switch.asked else limits.ready


def _mended(record: Switched, now: float) -> Switched:
    return replace(kept(replace(record, on_since=0.0), now), pods=(), reason=None, note="")


def falling(record: Switched, seen: Seen, switch: Switch, limits: Deadlines, now: float) -> Switched:
    # It failed, and every call was refused, or none was made yet: what changes now nobody here has done.
    left = record.reason in USELESS and not (record.called_at or record.acked_at or record.unsure)
    if seen.up and seen.node is not None:
        if left and record.refused_at and record.down_at and now >= record.down_at + DARK:
            return off_by_hand(record, switch, now)  # and on again
        record = replace(record, down_at=0.0) if record.down_at else record
        whole = not lacking(seen.promised, seen.node)
        if left and whole:
            return _mended(record, now)
        if record.called_at and now <= record.called_at + switch.off_within:
            return record
        if whole and (seen.paused or (record.called_at and _enough(record))):
            return record if may_fall(record, now) else _works_on(record, seen, limits, now)
        return called_in_vain(record) if record.called_at else record
    if not record.down_at:
        return replace(record, down_at=now)
    was_up = left and record.reason is not Reason.ON_DEADLINE
    if was_up and seen.told != "on" and now >= record.down_at + _silence(switch, limits):
        return off_by_hand(record, switch, now)
    # Then it is, whoever did it: calls that are refused change nothing.
    is_told = switch.asked and seen.told == "off"
    if now < record.down_at + DARK or not (record.called_at or is_told):
        return record
    if switch.asked and seen.told != "off" and now <= record.called_at + switch.off_within:
        return record  # its endpoint does not say so yet, or does not answer
    heard = record.acked_at or (record.fall is not None and record.fall.lit) or seen.told == "off"
    if not heard:  # its Node was silent before, and no call was acknowledged: perhaps none was even made
        over = now > record.called_at + switch.off_within
        return (
            called_in_vain(record, "It was called off, and nobody knows whether it is off.")
            if over
            else record
        )
    if seen.told == "on":  # its Node alone has ended, and nobody would ever switch it off
        return _doubted(record, now)
    # Of one that is doubted nobody knows whether its Node may go.
    record = replace(off(record, now), node_goes=switch.delete_node and not record.doubted)
    if record.reason in USELESS:
        return record  # why is told until it is tried again
    return replace(record, rose_at=0.0, reason=None, note="", failures=0, refused_until=0.0)
