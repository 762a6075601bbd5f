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

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


def duration(text: str) -> float | None:
    """Seconds of `10m`, `1h30m`, `90s`, `90`; None if it is no duration."""
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    found = _DURATION.fullmatch(text)
    if not text or found is None or not any(found.groups()):
        return None
    hours, minutes, seconds = found.groups()
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)


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
        if pod.node or pod.finished or pod.deleting_at is not None or shape.is_daemon or shape.mirror:
            continue
        if shape.has_claims and pod.unschedulable_since is not None:
            told[pod.key] = Explanation(
                Reason.DRA_UNSUPPORTED,
                "the pod holds resource claims (DRA), which are not planned for; request nvidia.com/gpu instead",
            )
            continue
        if not uses_accelerator(shape.requests, declared):
            continue
        if shape.annotations.get(names.POD_IGNORE) == "true":
            told[pod.key] = Explanation(Reason.NOT_DEMAND, f"the pod says {names.POD_IGNORE}=true")
        elif shape.scheduler not in policy.scheduler_names:
            told[pod.key] = Explanation(
                Reason.NOT_DEMAND,
                f"its scheduler is {shape.scheduler}; planning.scheduler_names allows "
                f"{', '.join(policy.scheduler_names)}",
            )
        elif pod.namespace in policy.ignore_namespaces:
            told[pod.key] = Explanation(
                Reason.NOT_DEMAND, f"planning.ignore_namespaces contains {pod.namespace}"
            )
        elif shape.priority < policy.priority_cutoff:
            told[pod.key] = Explanation(
                Reason.NOT_DEMAND,
                f"its priority {shape.priority} is below planning.priority_cutoff ({policy.priority_cutoff})",
            )
        elif pod.gated or pod.nominated or pod.unschedulable_since is None:
            continue  # the scheduler has not asked for anything (yet)
        elif (ready_at := pod.created + _min_age(shape.annotations)) > snapshot.now:
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
