"""The life of a machine as a pure transition: `(record, what is seen, now) -> record`.

Each phase's deadline counts from its own start. Absence is believed only from several complete
lists over a minute, or from the cloud's own word about that id: one bad listing proves nothing.
What has to be done about a new phase is read off the record by the engine, not decided here.
"""

from __future__ import annotations

from operator import attrgetter

import msgspec
from msgspec.structs import replace

from controller.domain.cloudthings import Instance
from controller.domain.kube import Node, Pod
from controller.domain.machine import Machine, Phase
from controller.domain.money import in_words
from controller.domain.policy import Deadlines
from controller.domain.reason import SENTENCES, Reason
from controller.domain.resources import Resources
from controller.fleet.usable import in_use, lacking
from controller.planning.choice import clock
from controller.planning.lost import is_due

_MOMENTS = tuple(name for name in Machine.__struct_fields__ if name.endswith(("_at", "_since")))
_moments = attrgetter(*_MOMENTS)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the world shows of one machine."""

    instance: Instance | None = None
    listed_at: float = 0.0  # when the last complete list was taken; 0: there is none
    told_at: float = 0.0  # when the cloud was asked last, whether or not it told all
    fresh_list: bool = False  # this list has not been judged before
    in_flight: bool = False  # the create call is under way: nothing may be concluded
    node: Node | None = None
    doubt: bool = False  # some Node claims to be it and cannot be believed: nothing is concluded from that
    blind: bool = False  # nothing was heard of Nodes for long: no deadline that one may have met is over
    pods: tuple[Pod, ...] = ()
    dressed: bool = True  # its Node carries every label that pods may select it by
    promised: Resources = {}  # the accelerators that the node must offer
    declared: frozenset[str] = frozenset()
    kept: str = ""  # why somebody wants to keep it although it is off, or of no use for a while


def step(machine: Machine, seen: Seen, limits: Deadlines, now: float) -> Machine:
    """Follow the machine as far as what is seen carries it."""
    machine = _no_later_than(machine, now)
    if seen.listed_at > now:
        seen = replace(seen, listed_at=now)
    for _ in Phase:
        after = _once(machine, seen, limits, now)
        if after is machine or after == machine:
            break
        if seen.fresh_list:
            seen = replace(seen, fresh_list=False)  # each list counts once
        machine = after
    return machine


def _no_later_than(machine: Machine, now: float) -> Machine:
    """What lies in the future was written before the clock was set back: it counts from now on."""
    if max(_moments(machine)) <= now:
        return machine
    return replace(machine, **{name: now for name in _MOMENTS if getattr(machine, name) > now})


def _once(machine: Machine, seen: Seen, limits: Deadlines, now: float) -> Machine:
    if machine.phase is Phase.TOMBSTONE:
        return machine
    machine = _absence(machine, seen, now)
    absent = proven_absent(machine, seen, limits)
    if machine.phase is Phase.INTENDED:
        return _intended(machine, seen, absent, now)
    machine = _stopped(_known(machine, seen), seen, now)
    if _is_back(machine, seen):
        return followed_again(machine, now)
    if machine.phase is Phase.DELETING:
        # Without an id only the lists can tell that there is nothing to delete.
        gone = absent and not machine.instance_id and not machine.gone_at
        return replace(machine, gone_at=now) if gone else machine
    if absent or (seen.instance and seen.instance.state in ("gone", "leaving")):
        return failed(machine, Reason.VANISHED, now)
    if machine.phase is Phase.DRAINING:
        started = seen.instance is not None and seen.instance.state == "running"
        return followed_again(machine, now) if started and machine.reason is Reason.STOPPED else machine
    off = machine.stopped_at and machine.phase is not Phase.READY  # one that was of use may be so again
    machine = _faulty(machine, seen)
    broken = (
        seen.instance is not None and seen.instance.state == "failed" and _believed(machine, seen, limits)
    )
    if seen.instance is not None and (off or broken):
        reason = Reason.NO_CAPACITY if seen.instance.status == "no_capacity" else Reason.LAUNCH_FAILED
        return failed(machine, reason, now, f"the cloud says {seen.instance.status}")
    match machine.phase:
        case Phase.ORDERED:
            return _ordered(machine, seen, limits, now)
        case Phase.BOOTING:
            return _booting(machine, seen, limits, now)
        case Phase.JOINED:
            return _joined(machine, seen, limits, now)
        case Phase.STARTED:
            return _started(machine, seen, limits, now)
        case _:
            return _ready(machine, seen, limits, now)


def failed(machine: Machine, reason: Reason, now: float, note: str = "") -> Machine:
    """It has to go. A Node that has joined is drained first: other pods may run there already."""
    joined = machine.phase in (Phase.JOINED, Phase.STARTED, Phase.READY) and reason is not Reason.VANISHED
    return replace(
        machine,
        phase=Phase.DRAINING if joined else Phase.DELETING,
        reason=reason,
        note=note or SENTENCES[reason],
        drain_at=now if joined else machine.drain_at,
    )


def proven_absent(machine: Machine, seen: Seen, limits: Deadlines) -> bool:
    """Several lists, the first and the last of them far enough apart; time alone proves nothing."""
    return (
        machine.absent_lists >= limits.unknown_lists
        and seen.listed_at - machine.absent_since >= limits.unknown_over
    )


def _is_back(machine: Machine, seen: Seen) -> bool:
    """Lists had not shown it for long, and nobody asked for its end. From this pass on it is capacity again.

    One whose end the cloud itself told is asked for by its id first: a list may lag behind that.
    """
    return (
        machine.phase is Phase.DELETING
        and machine.reason is Reason.VANISHED
        and machine.absent_lists > 0
        and not machine.delete_at
        and seen.instance is not None
        and seen.instance.state not in ("gone", "leaving")
    )


def followed_again(machine: Machine, now: float) -> Machine:
    """It was believed to be gone and is there: its life is followed again, as far as it really is.

    It may have gone out of sight in the middle of a removal: what that wrote to its Node is still to be undone.
    """
    return replace(
        machine,
        phase=Phase.ORDERED,
        reason=Reason.SURPLUS if machine.surplus else None,
        note="",
        moving=(),
        ordered_at=now,
        gpus_seen_at=0.0,
        gpus_lost_at=0.0,
        node_missing_at=0.0,
        drain_at=machine.drain_at or now,
        delete_at=0.0,
        gone_at=0.0,
        gone_in="",
        absent_lists=0,
        absent_since=0.0,
    )


def _absence(machine: Machine, seen: Seen, now: float) -> Machine:
    """Count complete lists that do not show the machine; one that does starts the count again."""
    if seen.instance is not None:
        if machine.phase is Phase.DELETING:
            return machine  # how it was believed to have vanished is told until it is followed again
        return replace(machine, absent_lists=0, absent_since=0.0) if machine.absent_lists else machine
    if machine.phase is Phase.DELETING and machine.instance_id:
        return machine  # asked for by its id from now on
    started = machine.ordered_at or machine.intended_at
    if not seen.fresh_list or seen.in_flight or seen.listed_at <= started:
        return machine
    return replace(
        machine,
        absent_lists=machine.absent_lists + 1,
        absent_since=machine.absent_since or seen.listed_at,
    )


def _intended(machine: Machine, seen: Seen, absent: bool, now: float) -> Machine:
    if seen.instance is not None and not seen.in_flight:
        return ordered(machine, seen.instance.id, now)
    runs = seen.node is not None and seen.node.ready  # whatever the lists lack
    if absent and not (seen.in_flight or runs):
        return replace(machine, phase=Phase.TOMBSTONE, gone_at=now)
    return machine


def ordered(machine: Machine, instance_id: str, now: float) -> Machine:
    """The cloud has it: by the answer to the order, or found by its marks."""
    return replace(
        machine,
        phase=Phase.ORDERED,
        instance_id=instance_id,
        ordered_at=now,
        reason=None,
        note="",
        absent_lists=0,
        absent_since=0.0,
    )


def _known(machine: Machine, seen: Seen) -> Machine:
    """Remember the id, every disk that came with it, and its Node: later nobody can say.

    A Node may be replaced by another of the same name (deleted by hand, registered again).
    """
    if seen.instance is not None:
        if not machine.instance_id:
            machine = replace(machine, instance_id=seen.instance.id)
        if not set(seen.instance.disks) <= set(machine.disks):
            machine = replace(machine, disks=tuple(dict.fromkeys((*machine.disks, *seen.instance.disks))))
    if seen.node is not None and machine.node_uid and seen.node.uid != machine.node_uid:
        machine = replace(machine, node_uid=seen.node.uid)
    return machine


def _stopped(machine: Machine, seen: Seen, now: float) -> Machine:
    """Since when the cloud says that it is off. A list that does not show it says nothing about that."""
    if seen.instance is None or (seen.instance.state == "stopped") == bool(machine.stopped_at):
        return machine
    return replace(machine, stopped_at=0.0 if machine.stopped_at else now)


def _faulty(machine: Machine, seen: Seen) -> Machine:
    """Since when lists say that a machine which was of use has failed."""
    says = machine.phase is Phase.READY and seen.instance is not None and seen.instance.state == "failed"
    if seen.instance is None or says == bool(machine.faulty_at):
        return machine
    return replace(machine, faulty_at=seen.told_at if says else 0.0)


def _believed(machine: Machine, seen: Seen, limits: Deadlines) -> bool:
    """Where its Node works a later list has to say it again; else one word is enough."""
    lasts = machine.faulty_at and seen.told_at - machine.faulty_at >= limits.unknown_over
    works = machine.phase is Phase.READY and seen.node is not None and seen.node.ready
    return not works or bool(lasts)


def _off(machine: Machine, seen: Seen, limits: Deadlines, now: float) -> Machine:
    """Nothing can run on it, and it costs its full price. Whoever only restarts it is given the time for that."""
    ready = seen.node is not None and seen.node.ready
    if not is_due(machine, limits, now) or ready or seen.doubt or seen.kept:
        return machine
    price = in_words(machine.price)
    return failed(
        machine,
        Reason.STOPPED,
        now,
        f"shut down in the cloud since {clock(machine.stopped_at)}; costs {price} an hour",
    )


def _ordered(machine: Machine, seen: Seen, limits: Deadlines, now: float) -> Machine:
    if seen.instance is not None and seen.instance.state == "running":
        return replace(machine, phase=Phase.BOOTING, running_at=now)
    if now > machine.ordered_at + limits.launch:
        return failed(machine, Reason.LAUNCH_DEADLINE, now)
    return machine


def _booting(machine: Machine, seen: Seen, limits: Deadlines, now: float) -> Machine:
    if seen.node is not None:
        return replace(machine, phase=Phase.JOINED, joined_at=now, node_uid=seen.node.uid)
    if now > machine.running_at + limits.join and not seen.blind:
        return failed(machine, Reason.JOIN_DEADLINE, now)
    return machine


def _joined(machine: Machine, seen: Seen, limits: Deadlines, now: float) -> Machine:
    if seen.node is not None and seen.node.ready:
        return replace(machine, phase=Phase.STARTED, node_ready_at=now)
    if now > machine.joined_at + limits.ready and not seen.blind:
        return failed(machine, Reason.READY_DEADLINE, now)
    return machine


def _started(machine: Machine, seen: Seen, limits: Deadlines, now: float) -> Machine:
    node = seen.node
    lack = lacking(seen.promised, node)
    if node is not None and node.ready and not lack:
        if not machine.gpus_seen_at:
            return replace(machine, gpus_seen_at=now)
        # Until its labels stand there it is on its way, and counts with them: a pod that selects by one is no reason
        # to buy another. Labels that nobody lets us write are not waited for without end.
        settled = now - machine.gpus_seen_at >= (limits.gpu_settle if seen.promised else 0)
        if settled and (seen.dressed or now > machine.node_ready_at + limits.gpu):
            return replace(machine, phase=Phase.READY, ready_at=now)
        return machine
    if machine.gpus_seen_at:
        machine = replace(machine, gpus_seen_at=0.0)  # a flap right after the join is no failure
    if now > machine.node_ready_at + limits.gpu and not seen.blind:
        return failed(
            machine, Reason.GPU_DEADLINE, now, f"the node never offered {', '.join(lack) or 'to be Ready'}"
        )
    return machine


def is_lost(machine: Machine, limits: Deadlines, now: float) -> bool:
    """Whether some of its GPUs are gone for longer than any restart of a plug-in takes."""
    lost = machine.phase is Phase.READY and machine.gpus_lost_at > 0
    return lost and now > machine.gpus_lost_at + limits.gpu_lost


def _ready(machine: Machine, seen: Seen, limits: Deadlines, now: float) -> Machine:
    """A machine in use: its Node may disappear, its GPUs may be lost; both are believed only in time."""
    if machine.stopped_at:
        return _off(machine, seen, limits, now)
    if seen.blind or (seen.node is None and seen.doubt):
        return machine
    if seen.node is None:
        if not machine.node_missing_at:
            return replace(machine, node_missing_at=now)
        if now > machine.node_missing_at + limits.ready and not seen.kept:
            return replace(
                machine,
                phase=Phase.DELETING,
                reason=Reason.JOIN_DEADLINE,
                note="its Node object is gone and did not come back",
            )
        return machine
    if machine.node_missing_at or not machine.node_uid:
        machine = replace(machine, node_missing_at=0.0, node_uid=seen.node.uid)
    lack = lacking(seen.promised, seen.node)
    if not lack or not seen.node.ready:
        return replace(machine, gpus_lost_at=0.0) if machine.gpus_lost_at else machine
    if not machine.gpus_lost_at:
        return replace(machine, gpus_lost_at=now)
    busy = any(in_use(pod, seen.declared) for pod in seen.pods)
    if is_lost(machine, limits, now) and not busy and not seen.kept:
        return replace(
            machine,
            phase=Phase.DRAINING,
            reason=Reason.GPU_LOST,
            note=f"the node offers {', '.join(lack)}",
            drain_at=now,
        )
    return machine
