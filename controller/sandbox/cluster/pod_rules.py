"""What admission adds to pods and refuses in them, before they are looked at as a whole.

Quirks kept: every pod tolerates not-ready and unreachable for 300 s, also after an update that took the
tolerations away; a priority is computed, never believed; a runtime class brings its overhead along.
The volume with a token that real pods get is left out: nothing reads it here, and it would double a pod.
"""

from __future__ import annotations

from typing import Any

from controller.sandbox.cluster import label_keys
from controller.sandbox.cluster.errors import forbidden
from controller.sandbox.cluster.quantity import thousandths
from controller.sandbox.cluster.resources import (
    PODS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    Obj,
)
from controller.sandbox.cluster.store import Store

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
DEFAULT_ACCOUNT = "default"


def admit(store: Store, pod: Obj) -> None:
    """Complete a new pod, in place; it has its canonical shape and its defaults."""
    spec, meta = pod["spec"], pod["metadata"]
    _account(store, spec, meta)
    _priority(store, spec, meta["name"])
    add_tolerations(spec)
    _runtime_class(store, spec, meta["name"])
    label_keys.write_out(pod)


def first_status(store: Store, pod: Obj) -> Obj:
    spec = pod["spec"]
    status: Obj = {"phase": "Pending", "qosClass": qos(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": store.now(),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    return status


def _account(store: Store, spec: Obj, meta: Obj) -> None:
    name = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
    found = store.get(SERVICE_ACCOUNTS, meta["namespace"], name)
    if found is None and name != DEFAULT_ACCOUNT:
        space = meta["namespace"]
        why = f'error looking up service account {space}/{name}: serviceaccount "{name}" not found'
        raise forbidden(PODS, meta["name"], why)
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    if found and found.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = found["imagePullSecrets"]


def _priority(store: Store, spec: Obj, name: str) -> None:
    wanted = spec.get("priorityClassName")
    if wanted:
        found = store.get(PRIORITY_CLASSES, "", wanted)
        if found is None:
            raise forbidden(PODS, name, f"no PriorityClass with name {wanted} was found")
    else:
        found = next((each for each in store.every(PRIORITY_CLASSES) if each.get("globalDefault")), None)
        if found:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = found["value"] if found else 0
    if spec.get("priority") not in (None, value):
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise forbidden(PODS, name, why)
    spec["priority"] = value
    spec["preemptionPolicy"] = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")


def add_tolerations(spec: Obj) -> None:
    tolerations: list[Obj] = list(spec.get("tolerations") or ())
    for key in (NOT_READY, UNREACHABLE):
        # Also without a key: such a toleration already covers both.
        if not any(
            each.get("key", key) == key and each.get("effect", "NoExecute") == "NoExecute"
            for each in tolerations
        ):
            added: Obj = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(added)
    spec["tolerations"] = tolerations


def _runtime_class(store: Store, spec: Obj, name: str) -> None:
    wanted = spec.get("runtimeClassName")
    found = store.get(RUNTIME_CLASSES, "", wanted) if wanted else None
    if wanted and found is None:
        raise forbidden(PODS, name, f'pod rejected: RuntimeClass "{wanted}" not found')
    overhead = ((found or {}).get("overhead") or {}).get("podFixed")
    if spec.get("overhead") and spec["overhead"] != overhead:
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        if overhead:
            why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise forbidden(PODS, name, why)
    if overhead:
        spec["overhead"] = overhead
    placed = (found or {}).get("scheduling") or {}
    if placed.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **placed["nodeSelector"]}
    for each in placed.get("tolerations") or ():
        if each not in spec["tolerations"]:
            spec["tolerations"].append(each)


def qos(spec: Obj) -> str:
    """Zero is no request; requests of the whole pod count instead of those of its containers."""
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        every: list[Obj] = [{"resources": whole}]
    else:
        every = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    guaranteed, any_set = True, False
    for each in every:
        requests, limits = (_asked(each["resources"].get(kind)) for kind in ("requests", "limits"))
        any_set = any_set or bool(requests or limits)
        for name in ("cpu", "memory"):
            guaranteed = guaranteed and name in limits and requests.get(name) == limits[name]
    return "Guaranteed" if any_set and guaranteed else "Burstable" if any_set else "BestEffort"


def _asked(amounts: Any) -> Obj:
    held = amounts or {}
    return {name: held[name] for name in ("cpu", "memory") if name in held and thousandths(held[name])}
