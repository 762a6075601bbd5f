"""Which waiting pods are demand for GPUs, and why the others are not.

Only the scheduler's own "Unschedulable" makes demand: a pod that it has not judged yet, that is gated,
terminating, or nominated onto a node by preemption needs nothing from us. A Job whose pods are still
being created is waited for, so that its pods are planned together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from controller.domain import names
from controller.domain.kube import Pod
from controller.domain.plan import Explanation, Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import is_accelerator, uses_accelerator

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(d|h|ms|m|s)", re.ASCII)
# A century: what people write beyond it is no longer a duration, and would not fit a date.
_LONGEST = 100 * 365 * 86400.0


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


def gather(snapshot: Snapshot) -> tuple[list[Pod], dict[str, Explanation], float | None]:
    """Demand in planning order, explanations for GPU pods that are none yet, and when to look again."""
    policy = snapshot.policy
    declared = policy.gpu_resources
    demand: list[Pod] = []
    told: dict[str, Explanation] = {}
    wake: list[float] = []
    incomplete = _jobs_being_created(snapshot, wake)
    for pod in snapshot.pods:
        shape = pod.shape
        if pod.node or pod.finished or shape.is_daemon or shape.mirror:
            continue
        if not shape.has_claims and not uses_accelerator(shape.requests, declared):
            continue
        if (why := _no_demand(pod, snapshot)) is not None:
            told[pod.key] = why
        elif (age := _min_age(shape.annotations)) and (ready_at := pod.created + age) > snapshot.now:
            told[pod.key] = Explanation(
                Reason.TOO_YOUNG, f"the pod says {names.POD_MIN_AGE}; it waits for that age"
            )
            wake.append(ready_at)
        elif shape.owner_uid in incomplete:
            told[pod.key] = Explanation(
                Reason.WAITS_FOR_SIBLINGS, f"pods of Job {shape.owner_name} are still being created"
            )
        else:
            demand.append(pod)
    demand.sort(key=lambda pod: _order(pod, declared))
    return demand, told, min(wake, default=None)


def _no_demand(pod: Pod, snapshot: Snapshot) -> Explanation | None:
    """Why a waiting pod that asks for GPUs is none of our business, or not yet."""
    shape, policy = pod.shape, snapshot.policy
    if shape.annotations.get(names.POD_IGNORE) == "true":
        words = f"the pod says {names.POD_IGNORE}=true"
    elif shape.scheduler not in policy.scheduler_names:
        allowed = ", ".join(policy.scheduler_names)
        words = f"its scheduler is {shape.scheduler}; planning.scheduler_names allows {allowed}"
    elif pod.namespace in policy.ignore_namespaces:
        words = f"planning.ignore_namespaces contains {pod.namespace}"
    elif shape.priority < policy.priority_cutoff:
        words = f"its priority {shape.priority} is below planning.priority_cutoff ({policy.priority_cutoff})"
    elif pod.deleting_at is not None:
        words = "the pod is being deleted"
    elif pod.gated:
        words = "the pod is held back by its scheduling gates"
    elif pod.nominated:
        words = f"the scheduler makes place for it on node {pod.nominated} by preemption"
    elif pod.unschedulable_since is None:
        words = "the scheduler has not called it unschedulable"
    elif shape.has_claims:
        return Explanation(
            Reason.DRA_UNSUPPORTED,
            "the pod holds resource claims (DRA), which are not planned for; request nvidia.com/gpu instead",
        )
    else:
        return None
    return Explanation(Reason.NOT_DEMAND, words)


def _order(pod: Pod, declared: frozenset[str]) -> tuple[int, int, int, float, str]:
    """Priority, then GPUs, then CPU, descending; then age and name, so that the order is total."""
    requests = pod.shape.requests
    gpus = sum(units for name, units in requests.items() if is_accelerator(name, declared))
    return (-pod.shape.priority, -gpus, -requests.get("cpu", 0), pod.created, pod.key)


def _min_age(annotations: Mapping[str, str]) -> float:
    for key in (names.POD_MIN_AGE, names.CA_POD_DELAY):
        seconds = duration(annotations.get(key, ""))
        if seconds is not None:
            return seconds
    return 0.0


def _jobs_being_created(snapshot: Snapshot, wake: list[float]) -> set[str]:
    """UIDs of Jobs that have fewer pods than they want, and have not been waited for long enough."""
    seen: Counter[str] = Counter()
    first: dict[str, float] = {}
    for pod in snapshot.pods:
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
