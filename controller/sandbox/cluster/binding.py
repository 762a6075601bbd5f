"""Binding a pod to a node, for the API and for the scheduler alike."""

from __future__ import annotations

from typing import Any

from controller.sandbox.cluster import errors
from controller.sandbox.cluster.conditions import set_condition
from controller.sandbox.cluster.resources import PODS, Obj
from controller.sandbox.cluster.shelf import Key
from controller.sandbox.cluster.store import Store


def assign(store: Store, key: Key, node: str, meta: Any = None, *, dry: bool = False) -> Obj:
    """Bind a pod to a node, which is possible once. It is no change of the spec that is counted."""
    pod = store.get(PODS, *key)
    said: Obj = meta or {}
    if pod is None:
        raise errors.not_found(PODS, key[1])
    name, own = key[1], pod["metadata"]
    if said.get("uid") not in (None, "", own["uid"]):
        found = f"UID in precondition: {said['uid']}, UID in object meta: {own['uid']}"
        where = f"Key: /registry/pods/{key[0]}/{name}, ResourceVersion: 0"
        why = f"StorageError: invalid object, Code: 4, {where}, AdditionalErrorMsg: Precondition failed: {found}"
        raise errors.conflict(PODS, name, why)
    if own.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise errors.conflict(PODS, name, why, door="binding")
    if pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise errors.conflict(PODS, name, why, door="binding")
    if pod["spec"].get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
        raise errors.conflict(PODS, name, why, door="binding")
    pod["spec"]["nodeName"] = node
    for part in ("labels", "annotations"):
        if said.get(part):
            own[part] = {**(own.get(part) or {}), **said[part]}
    set_condition(pod["status"], store.now(), type="PodScheduled", status="True", lastProbeTime=None)
    return store.update(PODS, pod, dry=dry, counts=False)
