"""Which machines may go: idle means that nothing on them uses an accelerator; the largest goes first.

Pods that wait were placed before this is asked, so a machine that one of them would fit is kept. A
pod that nobody would create again, that belongs to a Job, or that would find no place on another node,
is never evicted: the machine stays.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from controller.domain import names
from controller.domain.kube import Node, Pod
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Action, Explanation, MarkIdle, Retire, Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import uses_accelerator
from controller.planning.choice import clock
from controller.planning.demand import duration
from controller.planning.elsewhere import Elsewhere, moves
from controller.planning.room import Room
from controller.planning.sites import node_of

LATEST = 4102444800.0  # the year 2100
_KEPT_BY_OWNER = ("ReplicaSet", "StatefulSet", "ReplicationController", "Deployment")


def parse_time(text: str) -> float | None:
    """Seconds since 1970; None for what is no time, and for times that no clock of ours shows."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds <= LATEST else None


def paused(snapshot: Snapshot, node: Node | None, direction: str, pool: str = "") -> bool:
    """Whether scale-up or scale-down is paused for the controller, the pool, or this machine's node."""
    known = snapshot.policy.pool(pool)
    marks = [snapshot.policy.pause, known.pause if known else ""]
    if node is not None:
        marks.append(node.annotations.get(names.PAUSE, ""))
    return any(mark in (direction, "all") for mark in marks)


def in_use(snapshot: Snapshot, pods: Sequence[Pod]) -> Explanation | None:
    """The pod that uses an accelerator of its node: as long as there is one, the machine is not idle."""
    declared = snapshot.policy.gpu_resources
    for pod in pods:
        shape = pod.shape
        if pod.finished or shape.is_daemon or shape.mirror:
            continue
        if uses_accelerator(shape.requests, declared) or shape.has_claims:
            return Explanation(Reason.IN_USE, f"pod {pod.key} uses its GPUs")
    return None


def blockers(snapshot: Snapshot, node: Node, pods: Sequence[Pod]) -> Explanation | None:
    """What on this node forbids taking it away, whatever the time."""
    if (busy := in_use(snapshot, pods)) is not None:
        return busy
    if protects(node.annotations.get(names.DO_NOT_DISRUPT, ""), node.created, snapshot.now):
        return Explanation(Reason.DO_NOT_DISRUPT, f"the node says {names.DO_NOT_DISRUPT}")
    if node.annotations.get(names.CA_SCALE_DOWN_DISABLED) == "true":
        return Explanation(Reason.DO_NOT_DISRUPT, f"the node says {names.CA_SCALE_DOWN_DISABLED}=true")
    for pod in pods:
        shape = pod.shape
        if not moves(pod):
            continue
        if why := protected(pod, snapshot.now):
            return Explanation(Reason.DO_NOT_DISRUPT, f"pod {pod.key} {why}")
        if shape.annotations.get(names.CA_SAFE_TO_EVICT) != "true" and shape.owner_kind not in _KEPT_BY_OWNER:
            what = f"belongs to a {shape.owner_kind}" if shape.owner_kind else "has no controller"
            return Explanation(Reason.IN_USE, f"pod {pod.key} {what} and would be lost")
        for budget in snapshot.budgets:
            if budget.covers(pod) and budget.allowed < 1:
                return Explanation(
                    Reason.PDB,
                    f"PodDisruptionBudget {budget.namespace}/{budget.name} does not let {pod.key} go",
                )
    return None


def protected(pod: Pod, now: float) -> str:
    """Why the pod's own annotations forbid to evict it, or ""."""
    for key in (names.DO_NOT_DISRUPT, names.KARPENTER_DO_NOT_DISRUPT):
        if protects(pod.shape.annotations.get(key, ""), pod.created, now):
            return f"says {key}"
    if pod.shape.annotations.get(names.CA_SAFE_TO_EVICT) == "false":
        return f"says {names.CA_SAFE_TO_EVICT}=false"
    return ""


def protects(text: str, since: float, now: float) -> bool:
    """`true` protects for ever, a duration for that long, anything unreadable protects to be safe."""
    if text in ("", "false"):
        return False
    seconds = duration(text)
    return True if seconds is None else now < since + seconds


def decide(
    snapshot: Snapshot,
    needed: Mapping[str, str],
    demand: Sequence[Pod] = (),
    rooms: Sequence[Room] = (),
    kept: Mapping[str, Explanation] | None = None,
) -> tuple[list[Action], dict[str, Explanation], float | None]:
    """Idle marks and removals. `needed` names the machines that waiting pods fit, and one such pod.

    `rooms` are the Ready nodes with what is left on them; `kept` are machines that hold what is to be free.
    """
    nodes = {node.name: node for node in snapshot.nodes}
    bound: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.node:
            bound.setdefault(pod.node, []).append(pod)
    expected = _expected(snapshot, demand)
    actions: list[Action] = []
    told: dict[str, Explanation] = {}
    wake: list[float] = []
    ripe: list[tuple[Machine, float]] = []
    for machine in snapshot.machines:
        node = node_of(machine, nodes)
        if machine.phase is not Phase.READY or node is None:
            continue
        pods = bound.get(machine.name, [])
        if (busy := in_use(snapshot, pods)) is not None:
            told[machine.name] = busy
            if names.NODE_IDLE_SINCE in node.annotations:
                actions.append(MarkIdle(machine=machine.name, since=None))
            continue
        since = parse_time(node.annotations.get(names.NODE_IDLE_SINCE, ""))
        if since is None or since > snapshot.now:
            since = snapshot.now
            actions.append(MarkIdle(machine=machine.name, since=since))
        since = min(
            snapshot.now, max(since, machine.ready_at)
        )  # it cannot be idle for longer than it is ready
        end = since + snapshot.policy.cooldown
        waiting = next((key for key in (machine.name, *machine.pods) if key in expected), None)
        if machine.name in needed:
            told[machine.name] = Explanation(Reason.NEEDED, f"pod {needed[machine.name]} fits it")
        elif waiting is not None:
            told[machine.name] = Explanation(Reason.PROMISED, f"it is kept for pod {expected[waiting]}")
        elif (blocked := blockers(snapshot, node, pods)) is not None:
            told[machine.name] = blocked
        elif kept and machine.name in kept:
            told[machine.name] = kept[machine.name]
        elif snapshot.now < end and not machine.surplus:
            told[machine.name] = Explanation(
                Reason.COOLDOWN, f"idle since {clock(since)}; goes after {clock(end)} (scale_down.cooldown)"
            )
            wake.append(end)
        elif paused(snapshot, node, "scale-down", machine.pool):
            told[machine.name] = Explanation(Reason.PAUSED, "scale-down is paused")
        else:
            ripe.append((machine, since))
    if ripe:
        actions += _take_largest(snapshot, ripe, told, Elsewhere(rooms, snapshot.machines, bound))
    return actions, told, min(wake, default=None)


def _expected(snapshot: Snapshot, demand: Sequence[Pod]) -> dict[str, str]:
    """Waiting pods that are no demand at the moment, by their own key and by the node they are promised.

    One that is demand and did not fit the machine bought for it does not keep that machine.
    """
    asking = {pod.key for pod in demand}
    declared = snapshot.policy.gpu_resources
    found: dict[str, str] = {}
    for pod in snapshot.pods:
        if pod.node or pod.finished or pod.deleting_at is not None or pod.key in asking:
            continue
        if uses_accelerator(pod.shape.requests, declared):
            found[pod.key] = pod.key
            if pod.nominated:
                found.setdefault(pod.nominated, pod.key)
    return found


def allowed_at_once(budget: str, machines: int) -> int:
    """Machines that may be on their way out together; a share is rounded up, so that one always may."""
    if budget.endswith("%"):
        return math.ceil(machines * float(budget[:-1]) / 100)
    return int(budget)


def _take_largest(
    snapshot: Snapshot,
    ripe: list[tuple[Machine, float]],
    told: dict[str, Explanation],
    elsewhere: Elsewhere,
) -> list[Action]:
    sign = -1 if snapshot.policy.order == "largest" else 1
    ripe.sort(key=lambda r: (sign * r[0].gpus, sign * r[0].price, r[1], r[0].name))
    alive = [m for m in snapshot.machines if m.phase is not Phase.TOMBSTONE and not m.gone_at]
    # A machine that still boots may fail, so it does not stand in for one of the minimum.
    staying = Counter(m.pool for m in alive if m.phase is Phase.READY)
    leaving = sum(1 for m in alive if m.phase.leaving and not m.failed)
    budget = allowed_at_once(snapshot.policy.disruption_budget, len(alive)) - leaving
    actions: list[Action] = []
    for machine, since in ripe:
        pool = snapshot.policy.pool(machine.pool)
        if pool is not None and staying[pool.name] <= pool.min:
            told[machine.name] = Explanation(Reason.MIN_SIZE, f"pool {pool.name} keeps min: {pool.min}")
        elif budget < 1:
            told[machine.name] = Explanation(
                Reason.BUDGET,
                f"idle; waits because disruption.budget ({snapshot.policy.disruption_budget}) lets no more go at once",
            )
        elif (stranded := elsewhere.leave(machine.name)) is not None:
            told[machine.name] = Explanation(
                Reason.IN_USE, f"idle; pod {stranded.key} on it would find no place on another node"
            )
        else:
            budget -= 1
            staying[machine.pool] -= 1
            sentence = (
                f"idle since {clock(since)}, longer than scale_down.cooldown ({snapshot.policy.cooldown:g} s)"
            )
            told[machine.name] = Explanation(Reason.IDLE, sentence)
            actions.append(Retire(machine=machine.name, reason=Reason.IDLE, message=sentence))
    return actions
