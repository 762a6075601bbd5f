"""The end of the program in a cluster: everything that was bought goes, whether or not it is used. Pure.

Somebody asked for it, so cooldown, `min`, windows and budgets of disruption do not count; a pause, annotations and
PodDisruptionBudgets do. Nothing is bought any more. Machines that are only switched are the user's own: they go off as
they always do. One that is on its way goes when it is Ready, or has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from controller.domain.kube import Node, Pod
from controller.domain.machine import Phase
from controller.domain.plan import Action, Explanation, Retire, Snapshot
from controller.domain.policy import AFTER_WORK, FORCE
from controller.domain.reason import SENTENCES, Reason
from controller.domain.resources import uses_accelerator
from controller.planning import lost, scale_down
from controller.planning.elsewhere import moves
from controller.planning.protection import (
    blockers,
    forbidden_by_budget,
    node_forbids,
    owner_makes_another,
    paused,
    protected,
    uses_gpus,
)
from controller.planning.room import Room
from controller.planning.sites import node_of

_NOTHING = "every machine of this cluster is being retired, so none is bought (retire --undo ends that)"


def decide(
    snapshot: Snapshot, rooms: Callable[[], Sequence[Room]]
) -> tuple[list[Action], dict[str, Explanation], float | None]:
    """Removals, why other machines stay, and when time alone could change it. `rooms` are the Ready nodes."""
    own = {switch.name for switch in snapshot.policy.switches}
    switched = replace(snapshot, machines=tuple(m for m in snapshot.machines if m.name in own))
    actions, told, wake = scale_down.decide(switched, {}, rooms=rooms)
    nodes = {node.name: node for node in snapshot.nodes}
    bound = scale_down.by_node(snapshot.pods)
    for machine in snapshot.machines:
        if machine.name in own or machine.phase is not Phase.READY:
            continue
        node, pods = node_of(machine, nodes), bound.get(machine.name, [])
        if (said := lost.told(snapshot, machine, node, pods)) is not None:
            told[machine.name] = said
        elif node is None:
            continue
        elif paused(snapshot, node, "scale-down", machine.pool):
            told[machine.name] = Explanation(Reason.PAUSED, "scale-down is paused")
        elif (kept := keeps(snapshot, node, pods)) is not None:
            told[machine.name] = kept
        else:
            why = Explanation(Reason.RETIRED, SENTENCES[Reason.RETIRED])
            told[machine.name] = why
            actions.append(
                Retire(machine=machine.name, reason=why.code, message=why.message, excused=machine.pods)
            )
    return actions, told, wake


def told_to_pods(snapshot: Snapshot) -> dict[str, Explanation]:
    declared = snapshot.policy.gpu_resources
    return {
        pod.key: Explanation(Reason.RETIRED, _NOTHING)
        for pod in snapshot.pods
        if not (pod.node or pod.finished or pod.deleting_at is not None)
        and (pod.shape.has_claims or uses_accelerator(pod.shape.requests, declared))
    }


def keeps(snapshot: Snapshot, node: Node, pods: Sequence[Pod]) -> Explanation | None:
    """What keeps a machine although all are to go, as `kubectl drain` would see it; with `after-work` also its work."""
    how = snapshot.policy.retire
    if how == AFTER_WORK:
        return blockers(snapshot, node, pods)
    if said := node_forbids(node, snapshot.now):
        return Explanation(Reason.DO_NOT_DISRUPT, said)
    for pod in pods:
        if _cannot_be_seen_to_end(snapshot, node, pod):
            words = f"pod {pod.key} uses its GPUs, and its Node is not Ready to tell that it has ended"
            return Explanation(Reason.IN_USE, words)
        if not moves(pod):
            continue
        if why := protected(pod, snapshot.now):
            return Explanation(Reason.DO_NOT_DISRUPT, f"pod {pod.key} {why}")
        if how != FORCE and not owner_makes_another(pod):
            words = f"pod {pod.key} has no controller and would be lost (--force evicts it, too)"
            return Explanation(Reason.IN_USE, words)
        if (budget := forbidden_by_budget(snapshot, pod)) is not None:
            return budget
    return None


def _cannot_be_seen_to_end(snapshot: Snapshot, node: Node, pod: Pod) -> bool:
    """Work that was asked to leave and may run on: the last list would stop the delete each time it is tried."""
    if node.ready or pod.deleting_at is None or not uses_gpus(snapshot, pod):
        return False
    return snapshot.now > pod.deleting_at + snapshot.policy.deadlines.terminating_slack
