"""What is refused in what makes pods: selectors that miss their own pods, restarts, negative counts."""

from __future__ import annotations

from controller.sandbox.cluster.errors import Cause, required, unsupported_value, wrong
from controller.sandbox.cluster.resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Obj,
    Resource,
)
from controller.sandbox.cluster.rules.figures import NEGATIVE
from controller.sandbox.cluster.rules.metadata import IMMUTABLE, labels
from controller.sandbox.cluster.rules.pods import spec_causes
from controller.sandbox.cluster.selectors import matches

MISSED = "`selector` does not match template `labels`"
EMPTY = {STATEFUL_SETS: "statefulset", DAEMON_SETS: "daemonset"}
SELECTING = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS)
COUNTS = (
    "replicas",
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
)


def workload_causes(resource: Resource, obj: Obj, old: Obj | None = None) -> list[Cause]:
    if resource not in (JOBS, CRON_JOBS, *SELECTING):
        return []
    spec = obj["spec"]
    if resource in (JOBS, CRON_JOBS):
        held = spec if resource is JOBS else spec["jobTemplate"]["spec"]
        place = "spec" if resource is JOBS else "spec.jobTemplate.spec"
        causes = _negative(held, place) + _job_template(held, place)
        return causes + _fixed(resource, obj, old)
    causes = _negative(spec, "spec") if resource is not DAEMON_SETS else []
    selector, template = spec.get("selector"), spec["template"]
    empty = selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions"))
    if resource is not DAEMON_SETS:
        causes += _selector(resource, selector, empty=empty)
    elif selector is None:
        causes.append(required("spec.selector"))
    held = (template.get("metadata") or {}).get("labels")
    if not empty and not matches(held or {}, selector):
        causes.append(wrong("spec.template.metadata.labels", held, MISSED))
    if resource is DAEMON_SETS and empty:
        causes += _selector(resource, selector, empty=empty)
    causes += labels(held, "spec.template.labels")
    causes += spec_causes(template["spec"], "spec.template.spec")
    if template["spec"]["restartPolicy"] != "Always" and template["spec"]["restartPolicy"] in (
        "OnFailure",
        "Never",
    ):
        policy = template["spec"]["restartPolicy"]
        causes.append(unsupported_value("spec.template.spec.restartPolicy", policy, "Always"))
    return causes + _fixed(resource, obj, old)


def _negative(spec: Obj, place: str) -> list[Cause]:
    return [wrong(f"{place}.{key}", spec[key], NEGATIVE) for key in COUNTS if (spec.get(key) or 0) < 0]


def _selector(resource: Resource, selector: Obj | None, *, empty: bool) -> list[Cause]:
    if selector is None:
        return [required("spec.selector")]
    if empty:
        return [
            wrong("spec.selector", {}, f"empty selector is invalid for {EMPTY.get(resource, 'deployment')}")
        ]
    return []


def _job_template(spec: Obj, place: str) -> list[Cause]:
    held = spec["template"]
    field = f"{place}.template"
    causes = labels((held.get("metadata") or {}).get("labels"), f"{field}.labels")
    causes += spec_causes(held["spec"], f"{field}.spec")
    if held["spec"]["restartPolicy"] == "Always":
        causes.append(required(f"{field}.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    return causes


def _fixed(resource: Resource, obj: Obj, old: Obj | None) -> list[Cause]:
    """Selectors never change; a Job's pods neither, once it has started."""
    if old is None:
        return []
    keys = ["selector"] if resource in (*SELECTING, JOBS) else []
    if resource is JOBS:
        keys += ["completionMode"] + ([] if old["spec"].get("suspend") else ["template"])
    return [
        wrong(f"spec.{key}", obj["spec"].get(key), IMMUTABLE)
        for key in keys
        if obj["spec"].get(key) != old["spec"].get(key)
    ]
