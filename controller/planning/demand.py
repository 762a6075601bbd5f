"""Which waiting pods are demand for GPUs, and why the others are not.

Only the scheduler's own "Unschedulable" makes demand: a pod that it has not judged yet, that is gated,
terminating, or nominated onto a node by the scheduler needs nothing from us. A Job whose pods are still
being created is waited for, so that its pods are planned together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from controller.domain import names
from controller.domain.kube import Pod, PodShape
from controller.domain.plan import Explanation, Snapshot
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.domain.resources import gpus_of, uses_accelerator
from controller.planning import fractions, gangs, together
from controller.planning.device_claims import Claims
from controller.planning.gangs import Gang
from controller.planning.quota import Quota

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(d|h|ms|m|s)", re.ASCII)
# A century: what people write beyond it is no longer a duration, and would not fit a date.
_LONGEST = 100 * 365 * 86400.0
# A pod that the scheduler has not looked at after so long may never be looked at: nothing is kept for it any longer.
LOOKED_AT_WITHIN = 60.0


def duration(text: str) -> float | None:
    """Seconds of `10m`, `1h30m`, `1.5h`, `90s`, `90`; None if it is no duration."""
    text = text.strip()
    if len(text) > 40:
        return None
    if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text):
        seconds = float(text)
    elif text and not _PART.sub("", text):
        seconds = sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
    else:
        return None
    return seconds if seconds <= _LONGEST else None


class Demand(msgspec.Struct):
    """Demand in planning order, and why the other waiting GPU pods are none (yet)."""

    pods: list[Pod] = []
    told: dict[str, Explanation] = {}
    wake: float | None = None  # when time alone makes demand
    gangs: dict[str, Gang] = {}  # by the key of each pod of demand that belongs to one
    along: dict[str, list[str]] = {}  # pods that share the GPU which the one with this key asks for
    early: list[Pod] = []  # none yet, and nothing but time keeps them from it


def gather(snapshot: Snapshot, claims: Claims) -> Demand:
    declared = snapshot.policy.wanted_resources
    found = Demand()
    wakes: list[float] = []
    members = gangs.find(snapshot)
    gang_of = {pod.key: gang for gang in members.values() for pod in gang.pods}
    called = {key for key, gang in members.items() if gang.pending}
    incomplete = jobs_being_created(snapshot, wakes)
    kai, sharing, early = snapshot.policy.fractions == "kai", list[Pod](), list[Pod]()
    quota = Quota(snapshot.policy.quota_messages)
    age = snapshot.policy.min_pod_age
    barred: dict[tuple[int, str], str] = {}  # by shape and namespace: why it never is demand
    asking: dict[int, bool] = {}  # by shape: whether it asks for what could be bought
    for pod in snapshot.pods:
        if pod.node or pod.finished:
            continue
        shape = pod.shape
        whole = asking.get(id(shape))
        if whole is None:
            whole = asking[id(shape)] = uses_accelerator(shape.requests, declared)
        shared = kai and fractions.asks_for_share(pod)
        if not whole and (shape.is_daemon or shape.mirror or not (shape.has_claims or shared)):
            continue
        if kai and fractions.stands_for_another(pod):
            found.told[pod.key] = Explanation(
                Reason.NOT_DEMAND, "it asks in the name of a pod whose share of a GPU counts itself"
            )
            continue
        gang = gang_of.get(pod.key) if gang_of else None
        says = (id(shape), pod.namespace)
        if says not in barred:
            barred[says] = _never_demand(shape, pod.namespace, snapshot.policy)
        words = barred[says] or _not_yet_demand(pod, gang is not None and gang.key in called)
        if words:
            found.told[pod.key] = Explanation(Reason.NOT_DEMAND, words)
            if not barred[says] and _to_be_looked_at(pod, snapshot.now):
                early.append(pod)
        elif (age or shape.annotations) and (young := _too_young(pod, snapshot)) is not None:
            wakes.append(young[0])
            found.told[pod.key] = Explanation(Reason.TOO_YOUNG, young[1])
            if quota.blocks(pod) is None:
                early.append(pod)
        elif pod.message and (why := quota.blocks(pod)) is not None:
            found.told[pod.key] = why
        elif gang is None and shape.owner_uid in incomplete:
            found.told[pod.key] = Explanation(
                Reason.WAITS_FOR_SIBLINGS, f"pods of Job {shape.owner_name} are still being created"
            )
            early.append(pod)
        elif shared and not whole:
            sharing.append(pod)
        elif not shape.has_claims:
            found.pods.append(claims.by_name(pod) if claims.pools else pod)
        elif isinstance(asked := claims.as_gpus(pod), Explanation):
            found.told[pod.key] = asked
        else:
            found.pods.append(asked)
    if sharing:
        shares = fractions.whole_gpus(snapshot, sharing, gang_of)
        found.pods += [claims.by_name(pod) for pod in shares.pods] if claims.pools else shares.pods
        found.told |= shares.told
        found.along = shares.along
    together.assemble(snapshot, members, found.pods, found.told, found.gangs, wakes)
    if early:
        early = [
            pod for pod in early if (gang := gang_of.get(pod.key)) is None or not (gang.problem or gang.quota)
        ]
        found.early = _as_planned(snapshot, early, claims, gang_of)
    if found.told:
        found.early += [
            pod
            for pod in found.pods
            if pod.key in found.told and found.told[pod.key].code is Reason.WAITS_FOR_SIBLINGS
        ]
        found.pods = [pod for pod in found.pods if pod.key not in found.told]
    found.pods = in_line(found.pods, found.gangs, declared)
    found.early = in_line(found.early, {}, declared)
    found.wake = min(wakes, default=None)
    return found


def _never_demand(shape: PodShape, namespace: str, policy: Policy) -> str:
    """Why waiting pods of this shape that ask for GPUs are none of our business, if they are not."""
    if shape.is_daemon or shape.mirror:
        of = f"DaemonSet {shape.owner_name}" if shape.is_daemon else "its node's own kubelet"
        return f"{of} made the pod for a node that is there; another one would not help it"
    if shape.annotations.get(names.POD_IGNORE) == "true":
        return f"the pod says {names.POD_IGNORE}=true"
    if shape.scheduler not in policy.scheduler_names:
        allowed = ", ".join(policy.scheduler_names)
        return f"its scheduler is {shape.scheduler}; planning.scheduler_names allows {allowed}"
    if namespace in policy.ignore_namespaces:
        return f"planning.ignore_namespaces contains {namespace}"
    if shape.priority < policy.priority_cutoff:
        return f"its priority {shape.priority} is below planning.priority_cutoff ({policy.priority_cutoff})"
    return ""


def _not_yet_demand(pod: Pod, sibling_waits: bool) -> str:
    if pod.deleting_at is not None:
        return "the pod is being deleted"
    if pod.gated:
        return "the pod is held back by its scheduling gates"
    if pod.nominated:
        return f"the scheduler has chosen node {pod.nominated} for it, and holds a place for it there"
    if pod.unschedulable_since is None and not sibling_waits:
        return "the scheduler has not called it unschedulable"
    return ""


def _to_be_looked_at(pod: Pod, now: float) -> bool:
    """Whether it is only just there, and the scheduler is about to look at it."""
    held = pod.deleting_at is not None or pod.gated or pod.nominated or pod.unschedulable_since is not None
    return not held and now < pod.created + LOOKED_AT_WITHIN


def _as_planned(
    snapshot: Snapshot, pods: Sequence[Pod], claims: Claims, gang_of: Mapping[str, object]
) -> list[Pod]:
    """The same pods asking for the GPUs that they will be planned with; without those that never will be."""
    declared = snapshot.policy.wanted_resources
    found, sharing = list[Pod](), list[Pod]()
    for pod in pods:
        if not pod.shape.has_claims:
            whole = uses_accelerator(pod.shape.requests, declared)
            (found if whole else sharing).append(pod)
        elif not isinstance(asked := claims.as_gpus(pod), Explanation):
            found.append(asked)
    if sharing:
        found += fractions.whole_gpus(snapshot, sharing, gang_of).pods
    return [pod if pod.shape.has_claims else claims.by_name(pod) for pod in found] if claims.pools else found


def in_line(pods: Sequence[Pod], gang_of: Mapping[str, Gang], declared: frozenset[str]) -> list[Pod]:
    """By priority, then gangs (whole, largest first), then GPUs and CPU descending; then age and name."""
    gpus = {
        id(shape): _gpus(shape, declared) for shape in {id(pod.shape): pod.shape for pod in pods}.values()
    }
    together: dict[str, tuple[int, int, float]] = {}
    for pod in pods if gang_of else ():
        gang = gang_of.get(pod.key)
        if gang is not None:
            priority, all_gpus, first = together.get(gang.key, (pod.shape.priority, 0, pod.created))
            together[gang.key] = (
                max(priority, pod.shape.priority),
                all_gpus + gpus[id(pod.shape)],
                min(first, pod.created),
            )

    def place(pod: Pod) -> tuple[int, int, int, float, str, int, int, float, str]:
        shape, key = pod.shape, pod.key
        gang = gang_of.get(key) if gang_of else None
        alone = (-gpus[id(shape)], -shape.requests.get("cpu", 0), pod.created, key)
        if gang is None:
            return (-shape.priority, 1, 0, 0.0, "", *alone)
        priority, all_gpus, first = together[gang.key]
        return (-priority, 0, -all_gpus, first, gang.key, *alone)

    return sorted(pods, key=place)


def _gpus(shape: PodShape, declared: frozenset[str]) -> int:
    return sum(gpus_of(shape.requests, declared).values())


def _too_young(pod: Pod, snapshot: Snapshot) -> tuple[float, str] | None:
    """When it is old enough, and who says so; the pod's own word goes before the setting."""
    age, words = snapshot.policy.min_pod_age, "planning.min_pod_age asks that pods wait for a while first"
    for key in (names.POD_MIN_AGE, names.CA_POD_DELAY) if pod.shape.annotations else ():
        seconds = duration(pod.shape.annotations.get(key, ""))
        if seconds is not None:
            age, words = seconds, f"the pod says {key}; it waits for that age"
            break
    ready_at = pod.created + age
    return (ready_at, words) if age and ready_at > snapshot.now else None


def jobs_being_created(snapshot: Snapshot, wake: list[float]) -> set[str]:
    """UIDs of Jobs that have fewer pods than they want, and have not been waited for long enough."""
    seen: Counter[str] = Counter()
    first: dict[str, float] = {}
    for pod in snapshot.pods if snapshot.jobs else ():
        if pod.shape.owner_kind == "Job" and not pod.finished:
            uid = pod.shape.owner_uid
            seen[uid] += 1
            first[uid] = min(first.get(uid, pod.created), pod.created)
    waiting = set()
    for job in snapshot.jobs:
        if 0 < seen[job.uid] < job.wanted:
            until = first[job.uid] + snapshot.policy.deadlines.job_wait
            if snapshot.now < until:
                waiting.add(job.uid)
                wake.append(until)
    return waiting
