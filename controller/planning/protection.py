"""What on a node forbids to take its machine away: work that uses it, annotations, budgets, pods that would be lost.

The planner asks this before it decides, and the fleet asks it again before the taint and before the delete.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from controller.domain import names
from controller.domain.kube import Node, Pod
from controller.domain.plan import Explanation, Snapshot
from controller.domain.policy import halts
from controller.domain.reason import Reason
from controller.domain.resources import uses_accelerator
from controller.planning.demand import duration
from controller.planning.device_claims import Claims
from controller.planning.elsewhere import moves

KEPT_BY_OWNER = ("ReplicaSet", "StatefulSet", "ReplicationController", "Deployment")


def uses_gpus(snapshot: Snapshot, pod: Pod) -> bool:
    """Whether the pod is work that needs the accelerators of its node."""
    shape = pod.shape
    if shape.owner_kind == "DaemonSet" or shape.mirror or pod.finished:
        return False
    if uses_accelerator(shape.requests, snapshot.policy.gpu_resources):
        return True
    if not shape.has_claims:
        return False
    return Claims(replace(snapshot, pods=(), nodes=(), machines=())).busy(pod)


def in_use(snapshot: Snapshot, pods: Sequence[Pod], moving: Collection[str] = ()) -> Explanation | None:
    """The pod that uses an accelerator of its node: as long as there is one, the machine is not idle.

    `moving` are the identities of those that a consolidation moves, as long as they still may be moved.
    """
    for pod in pods:
        if uses_gpus(snapshot, pod) and not (pod.identity in moving and movable(pod)):
            return Explanation(Reason.IN_USE, f"pod {pod.key} uses its GPUs")
    return None


def movable(pod: Pod) -> bool:
    """Whether somebody makes the pod again elsewhere: never a Job's, whatever its annotations say."""
    return pod.shape.owner_kind in KEPT_BY_OWNER and not pod.shape.has_claims


def blockers(
    snapshot: Snapshot, node: Node, pods: Sequence[Pod], moving: Collection[str] = ()
) -> Explanation | None:
    """What on this node forbids taking it away, whatever the time."""
    if (busy := in_use(snapshot, pods, moving)) is not None:
        return busy
    if said := node_forbids(node, snapshot.now):
        return Explanation(Reason.DO_NOT_DISRUPT, said)
    for pod in pods:
        shape = pod.shape
        if not moves(pod):
            continue
        if why := protected(pod, snapshot.now):
            return Explanation(Reason.DO_NOT_DISRUPT, f"pod {pod.key} {why}")
        if shape.annotations.get(names.CA_SAFE_TO_EVICT) != "true" and shape.owner_kind not in KEPT_BY_OWNER:
            what = f"belongs to a {shape.owner_kind}" if shape.owner_kind else "has no controller"
            return Explanation(Reason.IN_USE, f"pod {pod.key} {what} and would be lost")
        if (budget := forbidden_by_budget(snapshot, pod)) is not None:
            return budget
    return None


def forbidden_by_budget(snapshot: Snapshot, pod: Pod) -> Explanation | None:
    for budget in snapshot.budgets:
        if budget.covers(pod) and budget.allowed < 1:
            return Explanation(
                Reason.PDB,
                f"PodDisruptionBudget {budget.namespace}/{budget.name} does not let {pod.key} go",
            )
    return None


def owner_makes_another(pod: Pod) -> bool:
    """Whether an evicted pod comes again, a Job's from its beginning; or somebody said that it may be lost."""
    return bool(pod.shape.owner_kind) or pod.shape.annotations.get(names.CA_SAFE_TO_EVICT) == "true"


def paused(snapshot: Snapshot, node: Node | None, direction: str, pool: str = "") -> bool:
    """Whether scale-up or scale-down is paused for the controller, the pool, or this machine's node."""
    known = snapshot.policy.pool(pool)
    said = node.annotations.get(names.PAUSE, "") if node is not None else ""
    return halts(direction, snapshot.policy.pause, known.pause if known else "", said)


def node_forbids(node: Node, now: float) -> str:
    """Why the Node's own annotations forbid to take its machine away, or ""."""
    if protects(node.annotations.get(names.DO_NOT_DISRUPT, ""), node.created, now):
        return f"the node says {names.DO_NOT_DISRUPT}"
    if node.annotations.get(names.CA_SCALE_DOWN_DISABLED) == "true":
        return f"the node says {names.CA_SCALE_DOWN_DISABLED}=true"
    return ""


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
