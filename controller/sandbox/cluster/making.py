"""What the controllers that make pods share: finding their own, making one, writing their status."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

from controller.sandbox.cluster.creating import LETTERS, new_object
from controller.sandbox.cluster.errors import ApiError
from controller.sandbox.cluster.nodeinfo import hash_of
from controller.sandbox.cluster.recorder import Recorder
from controller.sandbox.cluster.resources import PODS, Obj, Resource
from controller.sandbox.cluster.schema import of_resource
from controller.sandbox.cluster.shape import shaped
from controller.sandbox.cluster.shelf import Key
from controller.sandbox.cluster.store import Store

FINISHED = ("Succeeded", "Failed")


class PodMaker:
    def __init__(self, store: Store, recorder: Recorder) -> None:
        self.store = store
        self.recorder = recorder

    def mine(self, owner: Obj, resource: Resource = PODS) -> list[Obj]:
        held = self.store.dependents.get(owner["metadata"]["uid"], set())
        found = (
            self.store.get(each, *key) for each, key in sorted(held, key=lambda h: h[1]) if each is resource
        )
        return [obj for obj in found if obj is not None]

    def make(
        self, resource: Resource, owner: Obj, labels: dict[str, str], edit: Callable[[Obj], None]
    ) -> bool:
        meta = owner["metadata"]
        template = copy.deepcopy(owner["spec"]["template"])
        made = template.get("metadata") or {}
        pod: Obj = {
            "metadata": {
                "generateName": f"{meta['name']}-",
                "namespace": meta["namespace"],
                "labels": {**(made.get("labels") or {}), **labels},
                "ownerReferences": [reference(resource, owner)],
            },
            "spec": template["spec"],
        }
        if made.get("annotations"):
            pod["metadata"]["annotations"] = made["annotations"]
        edit(pod)
        try:
            stored = new_object(self.store, PODS, pod)
        except ApiError as problem:
            text = f"Error creating: {problem.message}"
            self.recorder.tell(
                resource, owner, "FailedCreate", text, f"{resource.kind.lower()}-controller", warning=True
            )
            return False
        text = f"Created pod: {stored['metadata']['name']}"
        self.recorder.tell(resource, owner, "SuccessfulCreate", text, f"{resource.kind.lower()}-controller")
        return True

    def write(self, resource: Resource, owner: Obj, status: Obj) -> None:
        meta, known = owner["metadata"], of_resource(resource).fields["status"].kind
        status["observedGeneration"] = meta.get("generation", 1)
        made = shaped(known, status)  # a Job's has no generation
        self.store.modify(resource, (meta["namespace"], meta["name"]), lambda obj: obj.update(status=made))


def key_of(obj: Obj) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def reference(resource: Resource, owner: Obj) -> Obj:
    meta = owner["metadata"]
    head = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": meta["name"],
        "uid": meta["uid"],
    }
    return head | {"controller": True, "blockOwnerDeletion": True}


def revision(owner: Obj) -> str:
    """A short name of the pod template, with the letters that the real one uses."""
    number, letters = hash_of(json.dumps(owner["spec"]["template"], sort_keys=True)), ""
    for _ in range(9):
        number, at = divmod(number, len(LETTERS))
        letters += LETTERS[at]
    return letters


def is_ready(pod: Obj) -> bool:
    held = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in held)
