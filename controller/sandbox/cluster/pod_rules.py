"""What the API server adds to and refuses in pods before they are stored.

Quirks kept: requests come from limits where missing; every pod tolerates not-ready and unreachable for
300 s; extended resources are whole numbers and want a limit that equals the request.
"""

from __future__ import annotations

from typing import Any

from controller.sandbox.cluster.errors import ApiError, forbidden, invalid
from controller.sandbox.cluster.quantity import PATTERN, thousandths
from controller.sandbox.cluster.resources import PODS, PRIORITY_CLASSES, Obj, Resource
from controller.sandbox.cluster.store import Store

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
Cause = tuple[str, str, str]


def new_pod(store: Store, pod: Obj) -> None:
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    _check_pod(pod)
    _set_priority(store, spec)
    tolerations: list[Obj] = spec.get("tolerations") or []
    for key in (NOT_READY, UNREACHABLE):
        # Also without a key: such a toleration already covers both.
        if not any(
            each.get("key", key) == key and each.get("effect", "NoExecute") == "NoExecute"
            for each in tolerations
        ):
            added: Obj = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(added)
    spec["tolerations"] = tolerations
    pod["status"] = {"phase": "Pending", "qosClass": _qos(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": store.now(),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def default_pod_spec(spec: Obj) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    spec.setdefault("enableServiceLinks", True)
    for each in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if not isinstance(each, dict):
            continue
        resources = each.setdefault("resources", {})
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
        each.setdefault("terminationMessagePath", "/dev/termination-log")
        each.setdefault("terminationMessagePolicy", "File")
        image = str(each.get("image", ""))
        latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
        each.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        for port in each.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _check_pod(pod: Obj) -> None:
    spec, name = pod["spec"], str(pod["metadata"]["name"])
    causes: list[Cause] = []
    if not spec.get("containers"):
        causes.append(("spec.containers", "FieldValueRequired", "Required value"))
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for at, each in enumerate(spec.get(group) or ()):
            place = f"spec.{group}[{at}]"
            if not each.get("name"):
                causes.append((f"{place}.name", "FieldValueRequired", "Required value"))
            elif each["name"] in seen:
                text = f'Duplicate value: "{each["name"]}"'
                causes.append((f"{place}.name", "FieldValueDuplicate", text))
            seen.add(each.get("name", ""))
            if not each.get("image"):
                causes.append((f"{place}.image", "FieldValueRequired", "Required value"))
            causes += _check_resources(f"{place}.resources", each["resources"])
    if spec["restartPolicy"] not in ("Always", "OnFailure", "Never"):
        text = (
            f'Unsupported value: "{spec["restartPolicy"]}": supported values: "Always", "OnFailure", "Never"'
        )
        causes.append(("spec.restartPolicy", "FieldValueNotSupported", text))
    if causes:
        raise invalid(PODS, name, *causes)


def _check_resources(place: str, resources: Obj) -> list[Cause]:
    causes: list[Cause] = []
    requests = {k: quantity_in(PODS, v) for k, v in (resources.get("requests") or {}).items()}
    limits = {k: quantity_in(PODS, v) for k, v in (resources.get("limits") or {}).items()}
    for name, asked in requests.items():
        said = resources["requests"][name]
        if asked < 0:
            causes.append(
                (
                    f"{place}.requests[{name}]",
                    "FieldValueInvalid",
                    f'Invalid value: "{said}": must be greater than or equal to 0',
                )
            )
        if _extended(name):
            if asked % 1000:
                causes.append(
                    (
                        f"{place}.requests[{name}]",
                        "FieldValueInvalid",
                        f'Invalid value: "{said}": must be an integer',
                    )
                )
            if name not in limits:
                causes.append(
                    (
                        f"{place}.limits",
                        "FieldValueRequired",
                        "Required value: Limit must be set for non overcommitable resources",
                    )
                )
                continue
            if asked != limits[name]:
                causes.append(
                    (
                        f"{place}.requests",
                        "FieldValueInvalid",
                        f'Invalid value: "{said}": must be equal to {name} limit of {resources["limits"][name]}',
                    )
                )
                continue
        if name in limits and asked > limits[name]:
            text = (
                f'Invalid value: "{said}": must be less than or equal to {name} limit of '
                f"{resources['limits'][name]}"
            )
            causes.append((f"{place}.requests", "FieldValueInvalid", text))
    return causes


def _extended(name: str) -> bool:
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")


def _set_priority(store: Store, spec: Obj) -> None:
    wanted = spec.get("priorityClassName")
    if not wanted:
        default = next((c for c in store.every(PRIORITY_CLASSES) if c.get("globalDefault")), None)
        spec["priority"] = default["value"] if default else 0
        spec["preemptionPolicy"] = (default or {}).get("preemptionPolicy", "PreemptLowerPriority")
        if default:
            spec["priorityClassName"] = default["metadata"]["name"]
        return
    found = store.get(PRIORITY_CLASSES, "", wanted)
    if found is None:
        if wanted in SYSTEM_PRIORITIES:
            spec["priority"] = SYSTEM_PRIORITIES[wanted]
            spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
            return
        raise forbidden(PODS, "", f"no PriorityClass with name {wanted} was found")
    spec["priority"] = found["value"]
    spec["preemptionPolicy"] = found.get("preemptionPolicy", "PreemptLowerPriority")


def _qos(spec: Obj) -> str:
    every = [*spec["containers"], *(spec.get("initContainers") or ())]
    guaranteed, any_set = True, False
    for each in every:
        requests, limits = each["resources"].get("requests") or {}, each["resources"].get("limits") or {}
        for name in ("cpu", "memory"):
            any_set = any_set or name in requests or name in limits
            guaranteed = guaranteed and name in limits and requests.get(name) == limits[name]
    return "Guaranteed" if any_set and guaranteed else "Burstable" if any_set else "BestEffort"


def quantity_in(resource: Resource, value: Any) -> int:
    try:
        return thousandths(value)
    except ValueError:
        raise ApiError(
            400,
            "BadRequest",
            f'{resource.kind} in version "v1" cannot be handled as a {resource.kind}: '
            f"quantities must match the regular expression '{PATTERN}'",
        ) from None
