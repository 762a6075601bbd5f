"""What the API server adds to and refuses in objects before they are stored.

Only what a scheduler, `kubectl describe` or an autoscaler can notice is here; pods have `pod_rules`.
Quirks kept: a new Node that is not Ready gets the not-ready taint; a providerID can be set once; few
fields of a pod may change; a Job selects its pods by its own UID.
"""

from __future__ import annotations

import base64
import re

from controller.sandbox.cluster.errors import bad_request, invalid
from controller.sandbox.cluster.pod_rules import NOT_READY, Cause, default_pod_spec, new_pod, quantity_in
from controller.sandbox.cluster.resources import (
    BUDGETS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SECRETS,
    STATEFUL_SETS,
    Obj,
    Resource,
)
from controller.sandbox.cluster.store import Store

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


def ready(node: Obj) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def on_create(store: Store, resource: Resource, obj: Obj) -> None:
    """Default and check a new object, in place."""
    _check_metadata(resource, obj)
    if resource is PODS:
        new_pod(store, obj)
    elif resource is NODES:
        taints = obj.setdefault("spec", {}).get("taints") or []
        if not ready(obj) and not any(t["key"] == NOT_READY and t["effect"] == "NoSchedule" for t in taints):
            obj["spec"]["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
        obj.setdefault("status", {})
        _check_node_figures(obj)
        for each, value in tuple(obj["status"].items()):
            if each == "capacity":
                obj["status"].setdefault("allocatable", dict(value))
    elif resource is NAMESPACES:
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        obj["status"] = {"phase": "Active"}
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    elif resource is SECRETS:
        obj.setdefault("type", "Opaque")
        _fold_secret(obj)
    elif resource in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS):
        _new_workload(resource, obj)
    elif resource is BUDGETS:
        obj["status"] = {
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "disruptionsAllowed": 0,
            "expectedPods": 0,
        }
    elif resource is PRIORITY_CLASSES:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
    elif resource is EVENTS:
        obj.setdefault("type", "Normal")


def on_update(resource: Resource, obj: Obj, old: Obj) -> None:
    """Check a changed object against the one it replaces, in place."""
    _check_metadata(resource, obj)
    name = obj["metadata"]["name"]
    if resource is NODES:
        had = old.get("spec", {}).get("providerID")
        if had and obj.get("spec", {}).get("providerID") != had:
            raise invalid(
                resource,
                name,
                (
                    "spec.providerID",
                    "FieldValueForbidden",
                    'Forbidden: node updates may not change providerID except from "" to valid',
                ),
            )
        _check_node_figures(obj)
    elif resource is PODS:
        if _fixed(obj["spec"], old["spec"]) != _fixed(old["spec"], old["spec"]):
            raise invalid(
                resource,
                name,
                (
                    "spec",
                    "FieldValueForbidden",
                    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
                    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
                    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be "
                    "set to 1 if it was previously negative)",
                ),
            )
    elif resource is SECRETS:
        _fold_secret(obj)


def _fixed(spec: Obj, old: Obj) -> Obj:
    """The part of a pod's spec that may not change; gated pods may still change where they want to run."""
    free = {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"}
    if old.get("schedulingGates"):
        free |= {"nodeSelector", "affinity"}
    fixed = {key: value for key, value in spec.items() if key not in free}
    for group in ("containers", "initContainers"):
        if group in fixed:
            fixed[group] = [{k: v for k, v in each.items() if k != "image"} for each in fixed[group]]
    return fixed


def _check_metadata(resource: Resource, obj: Obj) -> None:
    meta = obj["metadata"]
    name = str(meta.get("name", ""))
    causes: list[Cause] = []
    strict = resource is NAMESPACES
    pattern = _LABEL if strict else _SUBDOMAIN
    if resource.group != "rbac.authorization.k8s.io" and (
        len(name) > (63 if strict else 253) or not re.fullmatch(pattern, name)
    ):
        text = _SUBDOMAIN_TEXT
        if strict:
            text = (
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
                "start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
                f"validation is '{_LABEL}')"
            )
        causes.append(("metadata.name", "FieldValueInvalid", f'Invalid value: "{name}": {text}'))
    for key, value in (meta.get("labels") or {}).items():
        if not isinstance(value, str):
            raise bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: json: '
                "cannot unmarshal a value into Go struct field ObjectMeta.metadata.labels of type string"
            )
        if len(value) > 63 or not _LABEL_VALUE.fullmatch(value):
            text = (
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
                "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
                "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            )
            causes.append(
                ("metadata.labels", "FieldValueInvalid", f'Invalid value: "{value}": {text} (key {key})')
            )
    if causes:
        raise invalid(resource, name, *causes)


def _fold_secret(secret: Obj) -> None:
    for key, value in (secret.pop("stringData", None) or {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()


def _check_node_figures(node: Obj) -> None:
    for figures in (node["status"].get("capacity"), node["status"].get("allocatable")):
        for value in (figures or {}).values():
            quantity_in(NODES, value)


def _select_own(job: Obj, template: Obj) -> None:
    """A Job selects its pods by its own UID."""
    meta, prefix = job["metadata"], "batch.kubernetes.io/"
    labels = {f"{prefix}controller-uid": meta["uid"], f"{prefix}job-name": meta["name"]}
    old_names = {"controller-uid": meta["uid"], "job-name": meta["name"]}
    held = template.get("metadata") or {}
    template["metadata"] = {**held, "labels": {**(held.get("labels") or {}), **labels, **old_names}}
    uid = {f"{prefix}controller-uid": meta["uid"]}
    job["spec"].setdefault("selector", {"matchLabels": uid})


def _new_workload(resource: Resource, obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    meta = obj["metadata"]
    template = spec.get("template")
    if not isinstance(template, dict) or not (template.get("spec") or {}).get("containers"):
        cause = ("spec.template.spec.containers", "FieldValueRequired", "Required value")
        raise invalid(resource, meta["name"], cause)
    default_pod_spec(template["spec"])
    obj["status"] = {}
    if resource is JOBS:
        if template["spec"]["restartPolicy"] == "Always":
            text = 'Unsupported value: "Always": supported values: "OnFailure", "Never"'
            cause = ("spec.template.spec.restartPolicy", "FieldValueNotSupported", text)
            raise invalid(resource, meta["name"], cause)
        spec.setdefault("completionMode", "NonIndexed")
        if spec.get("parallelism") is None:
            spec["parallelism"] = 1
            spec.setdefault("completions", 1)
        spec.setdefault("backoffLimit", 6)
        spec.setdefault("suspend", False)
        _select_own(obj, template)
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    exact = (spec.get("selector") or {}).get("matchLabels") or {}
    if not spec.get("selector") or any(labels.get(key) != value for key, value in exact.items()):
        cause = (
            "spec.template.metadata.labels",
            "FieldValueInvalid",
            "Invalid value: `selector` does not match template `labels`",
        )
        raise invalid(resource, meta["name"], cause)
    if resource is DAEMON_SETS:
        spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}})
        obj["status"] = dict.fromkeys(
            ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
        )
    else:
        spec.setdefault("replicas", 1)
        obj["status"] = {"replicas": 0}
