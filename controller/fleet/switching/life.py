"""The life of a switched machine as a pure transition: `(record, what is seen, now) -> record`.

An acknowledgement proves nothing: a machine is on when its Node is Ready with its GPUs, and off when its Node has
ceased to be Ready (and its status endpoint, where there is one, agrees). Whatever changes without a call of ours
was done by hand, or by the hardware; it is written down and left alone for a while.
"""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain import names
from controller.domain.policy import Deadlines
from controller.domain.reason import Reason
from controller.domain.switching import DAY, Power, Switch, Switched
from controller.fleet.switching.aftermath import DARK, called, dated, may_fall, rebooted
from controller.fleet.switching.ends import failed, given_up, off, off_by_hand
from controller.fleet.switching.faces import face_of, without_gpus
from controller.fleet.switching.going import draining, falling
from controller.fleet.switching.seeing import SPEAKS, TELLS, Seen
from controller.fleet.usable import lacking

_CLOSING = (names.TAINT_DRAINING, names.TAINT_LEAVING)
_MOMENTS = tuple(n for n in Switched.__struct_fields__ if n.endswith("_at") or n in ("on_since", "off_since"))


def first(switch: Switch, seen: Seen, now: float) -> Switched:
    """A machine that no record speaks of. Nothing was switched yet, so nobody's hand is suspected.

    Where its Node is closed by us its record was lost, and a call may have gone out before.
    """
    closed = seen.node is not None and any(taint.key in _CLOSING for taint in seen.node.taints)
    fall = called(None, now, now + switch.off_within, None) if closed else None
    if not seen.up:
        return Switched(name=switch.name, fall=fall)
    return Switched(name=switch.name, power=Power.RISING, wanted_at=now, fall=fall)


def step(record: Switched, seen: Seen, switch: Switch, limits: Deadlines, now: float) -> Switched:
    """Follow the machine as far as what is seen carries it."""
    record = dated(_no_later_than(record, switch, limits, now), now)
    if record.doubted and seen.told == "off":
        record = replace(record, doubted=False)
    elif record.doubted:
        seen = replace(seen, told="")
    if seen.up and seen.node is not None:
        after = rebooted(record, seen.node)
        called_off = record.power is Power.FALLING and bool(record.called_at or record.unsure)
        if called_off and after is not record:  # it went off, and somebody has switched it on again
            after = replace(off(after, now), rose_at=0.0)
        record = after
    for _ in Power:
        after = _once(record, seen, switch, limits, now)
        if after == record:
            break
        record = after
    return record


def _no_later_than(record: Switched, switch: Switch, limits: Deadlines, now: float) -> Switched:
    """What lies in the future was written before the clock was set back: it counts from now on."""
    later = {name: now for name in _MOMENTS if getattr(record, name) > now}
    for name, most in (
        ("hand_until", switch.left_alone),
        ("refused_until", max(limits.backoff_first, limits.backoff_most)),
    ):
        if getattr(record, name) > now + most:
            later[name] = now + most
    ons = tuple(min(at, now) for at in record.ons if min(at, now) > now - DAY)
    if not later and ons == record.ons:
        return record
    return replace(record, ons=ons, **later)


def _once(record: Switched, seen: Seen, switch: Switch, limits: Deadlines, now: float) -> Switched:
    match record.power:
        case Power.OFF:
            return _off(record, seen, switch, limits, now)
        case Power.RISING:
            return _rising(record, seen, switch, limits, now)
        case Power.ON:
            return _on(record, seen, switch, limits, now)
        case Power.DRAINING:
            return draining(record, seen, switch, limits, now)
        case Power.FALLING:
            return falling(record, seen, switch, limits, now)


def _off(record: Switched, seen: Seen, switch: Switch, limits: Deadlines, now: float) -> Switched:
    if not seen.up:
        record = replace(record, node_ready_at=0.0) if record.node_ready_at else record
        return _left_behind(record, seen, switch, limits, now)
    if seen.told == "off":
        # Its Node may look Ready for a moment yet; later it is right, and the endpoint looks at something else.
        since = record.node_ready_at or now
        if now <= since + TELLS:
            return replace(record, node_ready_at=since, down_at=0.0)
    # It may be late, or the answer to a call was lost: then it was no stranger who switched it on.
    ours = bool(record.rose_at) and now - record.rose_at < 2 * switch.on_within
    return replace(
        record,
        power=Power.RISING,
        call="",
        pods=(),
        wanted_at=now,
        called_at=0.0,
        acked_at=0.0,
        unsure=False,
        tries=0,
        node_ready_at=0.0,
        gpus_seen_at=0.0,
        down_at=0.0,
        node_goes=False,
        hand_until=record.hand_until if ours else now + switch.left_alone,
        reason=None if ours else Reason.SWITCHED_BY_HAND,
        note="" if ours else "somebody else switched it on",
    )


def _left_behind(record: Switched, seen: Seen, switch: Switch, limits: Deadlines, now: float) -> Switched:
    """Where its Node is to go: also when somebody else switched it off, or it was off before anybody looked.

    Silence is no proof. Where an endpoint can say that it is off, that is waited for; where none can, work that may
    go on there keeps the Node, also work that the cluster gave up because of the silence.
    """
    silent = not switch.asked and not seen.busy
    lies = switch.delete_node and not seen.up and (seen.told == "off" or silent)
    if seen.node is None or not lies or seen.node.has_taint(*SPEAKS) or record.node_goes:
        return replace(record, down_at=0.0) if record.down_at else record
    if not record.down_at:
        return replace(record, down_at=now)
    if now < record.down_at + (DARK if seen.told == "off" else limits.ready):
        return record
    face = record.face or without_gpus(seen.node, seen.promised)
    return replace(record, node_goes=True, down_at=0.0, face=face)


def _rising(record: Switched, seen: Seen, switch: Switch, limits: Deadlines, now: float) -> Switched:
    node = seen.node
    if not seen.up or node is None:
        if record.node_ready_at:
            record = replace(record, node_ready_at=0.0, gpus_seen_at=0.0, down_at=now)
        record = _told(record, seen, now)
        # A second answer has to say it: firmware that starts anew may look off for a moment.
        if record.told_off_at and min(now, seen.told_at) >= record.told_off_at + DARK:
            ended = may_fall(record, record.told_off_at)  # by an earlier call, else by a hand on the button
            return off(record, now) if ended else off_by_hand(record, switch, now)
        fell = record.down_at and record.down_at >= max(
            record.called_at, record.acked_at
        )  # else it comes again
        gone = fell and may_fall(record, record.down_at) and seen.told != "on"
        if gone and now >= record.down_at + (DARK if seen.told == "off" else limits.ready):
            return off(record, now)  # it had come, and an earlier call has ended it
        # From the call on: until then its credentials may not have been readable, or its endpoint away.
        if now <= max(record.wanted_at, record.called_at, record.acked_at) + switch.on_within:
            return record
        if not record.call:  # nobody here wanted it; it went away again
            return off(record, now)
        if record.unheard:
            return given_up(record, limits, now, "nobody could be called to switch it on")
        return failed(record, Reason.ON_DEADLINE, limits, now)
    if not record.node_ready_at:
        return replace(record, node_ready_at=now, down_at=0.0)
    lack = lacking(seen.promised, node)
    if not lack:
        if not record.gpus_seen_at:
            return replace(record, gpus_seen_at=now)
        if now - record.gpus_seen_at < limits.gpu_settle or may_fall(record, now):
            return record
        return replace(
            record,
            power=Power.ON,
            on_since=now,
            gpus_lost_at=0.0,
            down_at=0.0,
            failures=0,
            refused_until=0.0,
            reason=None,
            note="",
            face=face_of(node, seen.promised),
        )
    if record.gpus_seen_at:
        record = replace(record, gpus_seen_at=0.0)
    # While our taint is kept there, what brings the GPUs may not come.
    since = max(record.node_ready_at, record.opens_at)
    if now > since + limits.gpu and now >= record.hand_until:
        return failed(record, Reason.GPU_DEADLINE, limits, now, f"its node never offered {', '.join(lack)}")
    return record


def _told(record: Switched, seen: Seen, now: float) -> Switched:
    """What its status endpoint says of one that was called on, and whose Node is not Ready yet.

    Until it has said on, off says nothing: the call may not have had its effect.
    """
    if seen.told == "off" and record.told_on:
        return replace(record, told_off_at=record.told_off_at or min(now, seen.told_at))
    on = record.told_on or (seen.told == "on" and bool(record.call) and not record.unheard)
    return replace(record, told_on=on, told_off_at=0.0)


def _on(record: Switched, seen: Seen, switch: Switch, limits: Deadlines, now: float) -> Switched:
    node = seen.node
    if not seen.up or node is None:
        if not record.down_at:
            return replace(record, down_at=now)
        # It may be cut off from the network and hard at work: it is believed to be off, and nothing is done to it.
        if now >= record.down_at + (DARK if seen.told == "off" else limits.ready):
            return off_by_hand(record, switch, now)
        return record
    if record.down_at:
        record = replace(record, down_at=0.0)
    lack = lacking(seen.promised, node)
    if not lack:
        if record.gpus_lost_at:
            record = replace(record, gpus_lost_at=0.0)
        face = face_of(node, seen.promised)
        return record if record.face == face else replace(record, face=face)
    if not record.gpus_lost_at:
        return replace(record, gpus_lost_at=now)
    if now > record.gpus_lost_at + limits.gpu_lost and now >= record.hand_until and not seen.busy:
        return failed(record, Reason.GPU_LOST, limits, now, f"its node offers {', '.join(lack)}")
    return record
