"""The cells of what makes or keeps pods: Jobs, Deployments and their kin, disruption budgets."""

from __future__ import annotations

from controller.sandbox.cluster.cells import NONE, Cells, age, short_time
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.stamps import seconds_of


def job(job: Obj, now: float) -> Cells:
    spec, status = job["spec"], job.get("status") or {}
    kinds = {c["type"] for c in status.get("conditions") or [] if c["status"] == "True"}
    shown = next((k for k in ("Complete", "Failed", "Suspended") if k in kinds), "Running")
    wanted = spec.get("completions")
    done = f"{status.get('succeeded', 0)}/" + (
        str(wanted) if wanted is not None else f"1 of {spec['parallelism']}"
    )
    took = ""
    if status.get("startTime"):
        end = seconds_of(status["completionTime"]) if status.get("completionTime") else now
        took = short_time(end - seconds_of(status["startTime"]))
    return [job["metadata"]["name"], shown, done, took, age(job, now), *_made_of(job, selected=True)]


def daemon_set(obj: Obj, now: float) -> Cells:
    status = obj.get("status") or {}
    names = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    counts = [status.get(name, 0) for name in (*names, "numberAvailable")]
    chosen = (obj["spec"]["template"]["spec"].get("nodeSelector") or {}).items()
    where = ",".join(f"{k}={v}" for k, v in chosen) or NONE
    return [obj["metadata"]["name"], *counts, where, age(obj, now), *_made_of(obj, selected=True)]


def deployment(obj: Obj, now: float) -> Cells:
    status, wanted = obj.get("status") or {}, obj["spec"].get("replicas", 1)
    ready = f"{status.get('readyReplicas', 0)}/{wanted}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    return [obj["metadata"]["name"], ready, *counts, age(obj, now), *_made_of(obj, selected=True)]


def replica_set(obj: Obj, now: float) -> Cells:
    status = obj.get("status") or {}
    counts = [obj["spec"].get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [obj["metadata"]["name"], *counts, age(obj, now), *_made_of(obj, selected=True)]


def stateful_set(obj: Obj, now: float) -> Cells:
    status, wanted = obj.get("status") or {}, obj["spec"].get("replicas", 1)
    ready = f"{status.get('readyReplicas', 0)}/{wanted}"
    return [obj["metadata"]["name"], ready, age(obj, now), *_made_of(obj)]


def cron_job(obj: Obj, now: float) -> Cells:
    spec, status = obj["spec"], obj.get("status") or {}
    last = status.get("lastScheduleTime")
    inner = {"spec": spec["jobTemplate"]["spec"]}
    head = [
        obj["metadata"]["name"],
        spec["schedule"],
        spec.get("timeZone") or NONE,
        spec.get("suspend", False),
    ]
    seen = short_time(now - seconds_of(last)) if last else NONE
    return [*head, len(status.get("active") or []), seen, age(obj, now), *_made_of(inner, selected=True)]


def budget(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    low, high = spec.get("minAvailable", "N/A"), spec.get("maxUnavailable", "N/A")
    allowed = (obj.get("status") or {}).get("disruptionsAllowed", 0)
    return [obj["metadata"]["name"], str(low), str(high), allowed, age(obj, now)]


def _made_of(owner: Obj, *, selected: bool = False) -> Cells:
    """Containers, images and selector of what makes pods."""
    held = owner["spec"]["template"]["spec"].get("containers") or []
    shown: Cells = [",".join(each["name"] for each in held), ",".join(each.get("image", "") for each in held)]
    if not selected:
        return shown
    selector = owner["spec"].get("selector") or {}
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        selector = {"matchLabels": selector}  # a ReplicationController's is a plain map
    exact, more = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    parts = [f"{key}={value}" for key, value in sorted(exact.items())]
    for each in more:
        values = ",".join(sorted(each.get("values") or ()))
        words = {"Exists": each["key"], "DoesNotExist": f"!{each['key']}"}
        parts.append(words.get(each["operator"], f"{each['key']} {each['operator'].lower()} ({values})"))
    return [*shown, ",".join(parts) or NONE]
