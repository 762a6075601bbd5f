"""Emptying a half-empty machine whose pods provably fit elsewhere, where the user asked for that.

Work is disturbed here, so every doubt is a no: nothing else may be under way, no pod may wait, each pod must
have a controller that makes it again, have run for as long as a cooldown, and fit a Ready node that stays; and
only pods whose place is decided by resources, selectors and taints are counted on. One machine at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from controller.domain.kube import Node, Pod, PodShape
from controller.domain.machine import Machine, Phase
from controller.domain.money import in_words
from controller.domain.plan import Explanation, Retire, Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import gpus_of, total
from controller.planning.ageing import outdated
from controller.planning.elsewhere import moves
from controller.planning.fit import asks
from controller.planning.gangs import membership
from controller.planning.lost import is_for_good
from controller.planning.protection import blockers, movable, uses_gpus
from controller.planning.room import Room
from controller.planning.sites import usable

OFF = "off"


def is_calm(snapshot: Snapshot, demand: Sequence[Pod]) -> bool:
    """Whether it is asked for, and nothing is bought, removed or waited for: nothing is emptied beside that."""
    alive = [m for m in snapshot.machines if m.phase is not Phase.TOMBSTONE]
    return snapshot.policy.consolidate != OFF and not demand and all(m.phase is Phase.READY for m in alive)


def empty_one(
    snapshot: Snapshot,
    candidates: Sequence[tuple[Machine, Node]],
    bound: Mapping[str, Sequence[Pod]],
    rooms: Sequence[Room],
    stays: Collection[str] = (),
) -> Retire | None:
    """The first of the busy machines that can be emptied. `stays` names what is kept as it is, and free."""
    policy = snapshot.policy
    nodes = {node.name: node for node in snapshot.nodes}
    staying = Counter(
        m.pool
        for m in snapshot.machines
        if m.phase is Phase.READY and not is_for_good(snapshot, m, nodes.get(m.name))
    )
    going_soon = {m.name for m in snapshot.machines if outdated(snapshot, m) is not None}
    # What is free in these is to stay free: whatever is emptied or filled there is bought again.
    free = {entry.pool for entry in policy.headroom if entry.gpus}
    going_soon |= {m.name for m in snapshot.machines if m.pool in free}
    targets = [room for room in rooms if room.name not in going_soon and room.name not in stays]
    for machine, node in candidates:
        pool = policy.pool(machine.pool)
        if (
            machine.name in stays
            or machine.pool in free
            or (pool is not None and staying[pool.name] <= pool.min)
        ):
            continue
        if snapshot.now < machine.intended_at + policy.min_age or not usable(node):
            continue
        if machine.kept_at and snapshot.now < machine.kept_at + policy.cooldown:
            continue  # it was given up lately: nobody is disturbed again and again
        pods = [pod for pod in bound.get(machine.name, ()) if moves(pod)]
        moving = tuple(sorted(pod.identity for pod in pods if uses_gpus(snapshot, pod)))
        if not moving or objection(snapshot, machine, node, bound) is not None:
            continue
        if not _fit_anyhow(pods, [room for room in targets if room.name != machine.name]):
            continue
        sentence = (
            f"half empty; its {len(pods)} pod{'s' * (len(pods) != 1)} fit other nodes, which saves "
            f"{in_words(machine.price)} an hour (scale_down.consolidate)"
        )
        return Retire(machine=machine.name, reason=Reason.CONSOLIDATION, message=sentence, moving=moving)
    return None


def _fit_anyhow(pods: Sequence[Pod], rooms: Sequence[Room]) -> bool:
    """Whether each finds a place wherever the scheduler puts the others first: in a room that would hold them all."""
    each = asks(pods, frozenset())
    together = total(ask.needs for ask in each)
    return all(any(room.holds(replace(ask, needs=together)) for room in rooms) for ask in each)


def objection(
    snapshot: Snapshot, machine: Machine, node: Node, bound: Mapping[str, Sequence[Pod]]
) -> Explanation | None:
    """What about the machine or a pod on it forbids to empty it, wherever there is room."""
    policy, here = snapshot.policy, bound.get(machine.name, ())
    working = [pod for pod in here if uses_gpus(snapshot, pod)]
    if machine.price < policy.consolidate_saving:
        return _no(
            f"it costs less than scale_down.consolidate_saving ({in_words(policy.consolidate_saving)})"
        )
    if 2 * _gpus(working, policy.wanted_resources) > machine.gpus:
        return _no("more than half of its GPUs are used")
    for pod in here:
        if pod.finished or pod.shape.is_daemon or pod.shape.mirror:
            continue
        if pod.deleting_at is not None:
            return _no(f"pod {pod.key} is terminating")
        if not movable(pod) or membership(pod) is not None:
            return _no(f"pod {pod.key} is none that is moved")
        if snapshot.now < pod.created + policy.cooldown or pod.phase != "Running":
            return _no(f"pod {pod.key} has only just started")
        if not _is_plain(pod.shape) or _is_shunned(pod, bound):
            return _no(f"where pod {pod.key} fits depends on more than resources, selectors and taints")
    for budget in snapshot.budgets:
        covered = sum(1 for pod in here if moves(pod) and budget.covers(pod))
        if covered > max(0, budget.allowed):
            return Explanation(Reason.PDB, f"PodDisruptionBudget {budget.namespace}/{budget.name} keeps them")
    return blockers(snapshot, node, here, {pod.identity for pod in working})


def _no(words: str) -> Explanation:
    return Explanation(Reason.IN_USE, words)


def _gpus(pods: Sequence[Pod], declared: frozenset[str]) -> int:
    """What the pods use; a slice counts like a whole GPU, so that a machine cut in slices seems fuller than it is."""
    return sum(units for pod in pods for units in gpus_of(pod.shape.requests, declared).values())


def _is_plain(shape: PodShape) -> bool:
    if shape.affinity or shape.anti_affinity or shape.volumes or shape.host_ports:
        return False
    return not any(spread.hard for spread in shape.spreads)


def _is_shunned(pod: Pod, bound: Mapping[str, Sequence[Pod]]) -> bool:
    """Whether a pod elsewhere may refuse to be beside it. Namespaces are not asked: a doubt is a no."""
    return any(
        term.selector is not None and term.selector.matches(pod.shape.labels)
        for pods in bound.values()
        for other in pods
        if not other.finished
        for term in other.shape.anti_affinity
    )
