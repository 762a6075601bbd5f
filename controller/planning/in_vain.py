"""Pods for which machines were bought in vain: replaced once, and not a third time.

A machine is in vain for its pod when it never became usable (a deadline on its way), or when even empty
it is too small. What was bought and is gone again is remembered by the ledger; what is still there is
judged here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from controller.domain import names
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import total
from controller.planning.fit import Ask, with_place
from controller.planning.room import Room, has_room_when_empty
from controller.planning.sites import node_of, usable

# A machine that came to nothing for its pod is replaced once: there is no third.
IN_VAIN = 2


def without_hopeless(snapshot: Snapshot, left: Sequence[Ask], told: dict[str, Explanation]) -> list[Ask]:
    """Drop pods for which machines were bought twice in vain: not usable, or even empty too small."""
    nodes = {node.name: node for node in snapshot.nodes}
    bought: dict[str, list[Machine]] = {}
    stuck: dict[str, list[str]] = {}
    for machine in snapshot.machines:
        for key in machine.pods:
            if machine.phase is Phase.READY:
                bought.setdefault(key, []).append(machine)
            elif is_stuck(machine):
                stuck.setdefault(key, []).append(machine.name)
    kept = []
    for ask in left:
        key = ask.pod.key
        if len(waits_for := sorted(stuck.get(key, ()))) >= IN_VAIN:
            told[key] = Explanation(
                Reason.LAUNCH_DEADLINE,
                f"{' and '.join(waits_for)} were ordered for it, did not start in time and are still there; no other is "
                "ordered before one of them is gone",
            )
            continue
        wrong = {m.name for m in bought.get(key, ()) if _disappoints(snapshot, ask, m, nodes)}
        wrong |= set(snapshot.disappointed.get(ask.pod.identity, ()))
        given_up = snapshot.given_up.get(ask.pod.identity, {})
        if len(wrong | given_up.keys()) < IN_VAIN:
            kept.append(ask)
        elif given_up:
            told[key] = _given_up(wrong, given_up)
        else:
            told[key] = Explanation(
                Reason.PREDICTION_WRONG,
                f"{' and '.join(sorted(wrong))} were bought for it and did not hold it even when empty; nothing more "
                "is bought: lower its requests, or name a larger type",
            )
    return kept


def is_stuck(machine: Machine) -> bool:
    """Given up in provisioning, where the cloud may refuse to delete it: it may start, and cost money, yet."""
    return (
        machine.phase is Phase.DELETING
        and machine.reason is Reason.LAUNCH_DEADLINE
        and not (machine.delete_at or machine.gone_at)
    )


def _given_up(too_small: Collection[str], given_up: Mapping[str, Reason]) -> Explanation:
    why = dict.fromkeys(too_small, Reason.PREDICTION_WRONG) | dict(given_up)
    listed = " and ".join(f"{name} ({code.value})" for name, code in sorted(why.items()))
    return Explanation(
        sorted(given_up.items())[-1][1],
        f"{listed} were bought for it in vain; nothing more is bought: look at how machines start (join script, "
        "token, image, device plug-in), then restart the controller with other settings or another token, or create "
        "the pod anew",
    )


def _disappoints(snapshot: Snapshot, ask: Ask, machine: Machine, nodes: Mapping[str, Node]) -> bool:
    node = node_of(machine, nodes)
    if node is None or not usable(node):
        return False
    daemons = [
        pod
        for pod in snapshot.pods
        if pod.node == node.name and not pod.finished and (pod.shape.is_daemon or pod.shape.mirror)
    ]
    room = Room(node.name, {names.LABEL_HOSTNAME: node.name, **node.labels}, node.taints, {})
    overhead = total(with_place(pod.shape.requests) for pod in daemons)
    return not has_room_when_empty(ask, room, overhead, node.allocatable)
