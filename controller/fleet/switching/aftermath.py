"""Calls to switch a machine off that may have their effect yet: what is remembered of them, and what follows.

A power server may act minutes after it was asked, also when it never answered; and a Node that goes dark, or was dark
before, tells nothing of what the call did: its network may have been away. Until the last of them can have no effect
any more no pod is bound to the machine, whatever becomes of it, and whether or not it still is in the settings. What a
status endpoint says does not shorten that: an answer may be older than the call, and "off" does not say that no call is
waiting. One thing does: there was one call, to a Node that was Ready, and it was answered; then we called the machine
on again, and now its Node shows that it has rebooted. One that reboots without being asked for was perhaps never off.
"""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.kube import Node
from controller.domain.switching import Fall, Power, Switched

# A Node that stops being Ready for a moment is not off; kubelets miss a heartbeat now and then.
DARK = 30.0


def may_fall(record: Switched, now: float) -> bool:
    return record.fall is not None and now < record.fall.until


def called(before: Fall | None, now: float, until: float, node: Node | None) -> Fall:
    """A call is about to be made; it counts as unanswered until it is not. `node`: as it is seen now."""
    lit = node is not None and node.ready
    if before is None:
        return Fall(since=now, until=until, lit=lit, lost=True, boot=node.boot if node and lit else "")
    return replace(before, since=now, until=max(before.until, until), lost=True, boot="")


def prolonged(fall: Fall, now: float, until: float) -> Fall:
    """The last call goes out, or ends, only now."""
    return replace(fall, since=now, until=max(fall.until, until))


def answered(record: Switched, before: Fall | None) -> Fall | None:
    """The last call was; `before` is what was remembered of those ahead of it."""
    fall = record.fall
    return fall if fall is None else replace(fall, lost=before is not None and before.lost)


def rebooted(record: Switched, node: Node) -> Switched:
    """What its Node, which is Ready, says of the call: it has had its effect, or no reboot will ever prove it."""
    fall = record.fall
    if fall is None or not (fall.boot and node.boot):
        return record
    if node.boot == fall.boot:  # it is Ready still, or it was dark and never off
        was_dark = record.power in (Power.OFF, Power.RISING)
        return replace(record, fall=replace(fall, boot="")) if was_dark else record
    asked = record.power is Power.RISING and record.call and record.called_at
    return replace(record, fall=None if asked and not fall.lost else replace(fall, boot=""))


def dated(record: Switched, now: float) -> Switched:
    """As of now: if the clock was set back since, it counts from now on; and it is forgotten when it is over.

    Of a machine that comes on not yet: what brings its GPUs could not come before.
    """
    fall = record.fall
    if fall is None:
        return record
    if fall.since > now:
        return replace(record, fall=replace(fall, since=now, until=now + (fall.until - fall.since)))
    waits = now < fall.until or record.power is Power.RISING
    return record if waits else replace(record, fall=None)


def kept(record: Switched, now: float) -> Switched:
    """It is not switched off after all. Of use it is only where it was, and where no earlier call can end it."""
    after = replace(record, drain_at=0.0, called_at=0.0, refused_at=0.0, tries=0, down_at=0.0)
    if record.on_since and not may_fall(record, now):
        return replace(after, power=Power.ON)
    return replace(
        after, power=Power.RISING, call="", wanted_at=now, acked_at=0.0, unsure=False, on_since=0.0,
        node_ready_at=0.0, gpus_seen_at=0.0,
    )  # fmt: skip
