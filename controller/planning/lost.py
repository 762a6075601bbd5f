"""Machines that cost their price and are of no use: shut down in the cloud, or silent for long. Pure.

Where the cloud says that a machine is off, nothing runs there, so its pods keep it no longer than a person could
want: for a while, or as long as an annotation or a pause says. A pod that Kubernetes has given up itself says
nothing any more. Where only the Node is silent, its work may go on: that machine stays, and is told with its cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from controller.domain.kube import Node, Pod
from controller.domain.machine import Machine, Phase
from controller.domain.money import in_words
from controller.domain.plan import Explanation, Snapshot
from controller.domain.policy import Deadlines
from controller.domain.reason import Reason
from controller.planning.choice import clock
from controller.planning.elsewhere import moves
from controller.planning.protection import in_use, node_forbids, paused, protected

CODES = (Reason.STOPPED, Reason.SILENT)
_MANY, _SHARE = 3, 5  # at least so many, and more than one in so many


def kept_though_off(snapshot: Snapshot, machine: Machine, node: Node | None, pods: Sequence[Pod]) -> str:
    """What a person said that keeps a machine on which nothing can run, or ""."""
    if paused(snapshot, node, "scale-down", machine.pool):
        return "scale-down is paused"
    if node is not None and (said := node_forbids(node, snapshot.now)):
        return said
    for pod in pods:
        if moves(pod) and (why := protected(pod, snapshot.now)):
            return f"pod {pod.key} {why}"
    return ""


def is_due(machine: Machine, limits: Deadlines, now: float) -> bool:
    """Whether the cloud has said for long enough that it is off."""
    return bool(machine.stopped_at) and now > machine.stopped_at + limits.stopped


def silent_for_long(node: Node, limits: Deadlines, now: float) -> bool:
    return not node.ready and node.ready_since is not None and now > node.ready_since + limits.stopped


def is_for_good(snapshot: Snapshot, machine: Machine, node: Node | None) -> bool:
    """Whether nobody can count on it: the cloud says that it is off, or its Node is silent for long."""
    silent = node is not None and silent_for_long(node, snapshot.policy.deadlines, snapshot.now)
    return bool(machine.stopped_at) or silent


def counted_on(snapshot: Snapshot) -> Counter[str]:
    """By pool, the machines that its minimum can count on: they are there or on their way, and their Node is not silent for
    long. Where that is so of many at once the fault is elsewhere, and all count: no new machine mends it."""
    there = [
        m
        for m in snapshot.machines
        if m.phase is not Phase.TOMBSTONE and not m.phase.leaving and not m.failed
    ]
    nodes = {node.name: node for node in snapshot.nodes if not node.ready}
    lost = {
        m.name
        for m in there
        if m.phase is Phase.READY
        and m.name in nodes
        and silent_for_long(nodes[m.name], snapshot.policy.deadlines, snapshot.now)
    }
    if len(lost) >= _MANY and len(lost) * _SHARE > len(there):
        lost = set()
    return Counter(m.pool for m in there if m.name not in lost)


def changes_at(snapshot: Snapshot, machine: Machine, node: Node | None) -> float | None:
    """When time alone makes it lost for good, where it is not that yet."""
    since = machine.stopped_at or (node.ready_since if node is not None and not node.ready else None)
    end = since + snapshot.policy.deadlines.stopped if since else 0.0
    return end if end >= snapshot.now else None


def told(snapshot: Snapshot, machine: Machine, node: Node | None, pods: Sequence[Pod]) -> Explanation | None:
    """What is to be told of a ready machine that is of no use at the moment; None: it may well be."""
    limits, now = snapshot.policy.deadlines, snapshot.now
    cost = f"costs {in_words(machine.price)} an hour"
    up = node is not None and node.ready  # then it is idle, or not, as every other one
    if machine.stopped_at and not (up and in_use(snapshot, pods) is None):
        words = f"shut down in the cloud since {clock(machine.stopped_at)}, and {cost} all the same"
        kept = kept_though_off(snapshot, machine, node, pods)
        if kept:
            return Explanation(Reason.STOPPED, f"{words}; it is kept: {kept}")
        if up and is_due(machine, limits, now):
            return Explanation(Reason.STOPPED, f"{words}; its Node is Ready all the same, so it is kept")
        end = clock(machine.stopped_at + limits.stopped)
        return Explanation(
            Reason.STOPPED,
            f"{words}; unless it is started it is deleted with its disk after {end} (deadlines.stopped)",
        )
    if node is None or not silent_for_long(node, limits, now):
        return None
    busy = in_use(snapshot, pods)
    if busy is None:
        return None
    return Explanation(
        Reason.SILENT,
        f"its Node is not Ready since {clock(node.ready_since or 0.0)}, and nobody says that the machine is off: it "
        f"stays and {cost}, because {busy.message}. Restart or delete it in the cloud, or force the pod's deletion",
    )
