"""What may change in a pod once it is there: little, and gated pods a bit more."""

from __future__ import annotations

from controller.sandbox.cluster.errors import Cause, not_allowed_there, wrong
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.rules.pods import spec_causes

MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
FREE = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}


def change_causes(pod: Obj, old: Obj) -> list[Cause]:
    spec, was = pod["spec"], old["spec"]
    causes = spec_causes(spec)
    for group in ("containers", "initContainers"):
        if len(spec.get(group) or ()) != len(was.get(group) or ()):
            return [
                *causes,
                not_allowed_there(f"spec.{group}", "pod updates may not add or remove containers"),
            ]
    new_deadline, old_deadline = spec.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds")
    if new_deadline is None and old_deadline is not None:
        text = "must not update from a positive integer to nil value"
        causes.append(wrong("spec.activeDeadlineSeconds", None, text))
    elif new_deadline is not None and old_deadline is not None and new_deadline > old_deadline:
        text = "must be less than or equal to previous value"
        return [*causes, wrong("spec.activeDeadlineSeconds", new_deadline, text)]
    if any(
        _kept(each) not in [_kept(held) for held in spec.get("tolerations") or ()]
        for each in was.get("tolerations") or ()
    ):
        text = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(not_allowed_there("spec.tolerations", text))
    causes += _gates(spec, was)
    if spec == was:
        return causes
    free = set(FREE)
    if was.get("schedulingGates"):
        causes += _selector(spec, was)
        free.add("nodeSelector")
        if _without_node_affinity(spec) == _without_node_affinity(was):
            free.add("affinity")
    if _fixed(spec, free) != _fixed(was, free):
        causes.append(not_allowed_there("spec", MAY_CHANGE))
    return causes


def _kept(toleration: Obj) -> Obj:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _gates(spec: Obj, was: Obj) -> list[Cause]:
    held = [each["name"] for each in was.get("schedulingGates") or ()]
    return [
        not_allowed_there(
            f"spec.schedulingGates[{at}].name",
            f"only deletion is allowed, but found new scheduling gate '{each['name']}'",
        )
        for at, each in enumerate(spec.get("schedulingGates") or ())
        if each["name"] not in held
    ]


def _selector(spec: Obj, was: Obj) -> list[Cause]:
    """Gated pods may be narrowed, never widened."""
    new, old = spec.get("nodeSelector") or {}, was.get("nodeSelector") or {}
    if any(new.get(key) != value for key, value in old.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        return [wrong("spec.nodeSelector", new, text)]
    return []


def _without_node_affinity(spec: Obj) -> Obj:
    held = spec.get("affinity") or {}
    return {key: value for key, value in held.items() if key != "nodeAffinity"}


def _fixed(spec: Obj, free: set[str]) -> Obj:
    fixed = {key: value for key, value in spec.items() if key not in free}
    for group in ("containers", "initContainers"):
        if group in fixed:
            fixed[group] = [{k: v for k, v in each.items() if k != "image"} for each in fixed[group]]
    return fixed
