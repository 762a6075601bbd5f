"""The writing verbs: create, update, patch, delete, bind.

Quirks kept: `status` and the rest of an object are written through different doors; a patch that carries
a resourceVersion is refused when stale, one that does not never is; a create may generate its name.
"""

from __future__ import annotations

from typing import Any

from controller.sandbox.cluster import admission, errors, patches
from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.errors import bad_request
from controller.sandbox.cluster.resources import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCES,
    Obj,
    Resource,
    storage,
)
from controller.sandbox.cluster.shelf import Item, Key
from controller.sandbox.cluster.store import Store
from controller.sandbox.cluster.views import View, from_events_api, to_events_api
from controller.sandbox.wire import Request, Response

KEEPS_STATUS = ("Event", "Node", "PersistentVolume")
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def generated(store: Store, prefix: str) -> str:
    return prefix[:58] + "".join(store.rng.choices(LETTERS, k=5))


def new_object(store: Store, resource: Resource, obj: Obj, *, dry: bool = False) -> Obj:
    """Name, check, default and store; for the API and for controllers alike."""
    meta = obj.setdefault("metadata", {})
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generated(store, meta["generateName"])
    if not meta.get("name"):
        text = "Required value: name or generateName is required"
        raise errors.invalid(resource, "", ("metadata.name", "FieldValueRequired", text))
    if resource.namespaced:
        space = store.get(NAMESPACES, "", meta["namespace"])
        if space is None:
            raise errors.not_found(NAMESPACES, meta["namespace"])
        if space["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {meta['namespace']} because it is being terminated"
            raise errors.forbidden(resource, meta["name"], why)
    else:
        meta.pop("namespace", None)
    meta["uid"] = store.new_uid()
    admission.on_create(store, storage(resource), obj)
    return store.create(storage(resource), obj, dry=dry)


SCALED = ("deployments", "replicasets", "statefulsets")


def scale_of(obj: Obj) -> Obj:
    """The scale subresource: how many there should be, whatever the kind."""
    meta = {
        k: v
        for k, v in obj["metadata"].items()
        if k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    exact = (obj["spec"].get("selector") or {}).get("matchLabels") or {}
    status = {
        "replicas": (obj.get("status") or {}).get("replicas", 0),
        "selector": ",".join(f"{key}={value}" for key, value in sorted(exact.items())),
    }
    head = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta}
    return head | {"spec": {"replicas": obj["spec"].get("replicas", 1)}, "status": status}


def _dry(request: Request, body: Any = None) -> bool:
    return request.first("dryRun") == "All" or (isinstance(body, dict) and body.get("dryRun") == ["All"])


class Writer:
    def __init__(self, store: Store, agenda: Agenda) -> None:
        self.store = store
        self.agenda = agenda

    def create(self, resource: Resource, namespace: str, body: Any, request: Request) -> Response:
        obj = self._accept(resource, namespace, body)
        made = new_object(self.store, resource, obj, dry=_dry(request))
        return self._view(resource, request).object(201, made)

    def update(
        self, resource: Resource, namespace: str, name: str, sub: str, body: Any, request: Request
    ) -> Response:
        obj = self._accept(resource, namespace, body)
        if obj["metadata"].get("name") != name:
            raise bad_request(
                f"the name of the object ({obj['metadata'].get('name', '')}) does not match the name on the URL ({name})"
            )
        return self._write(resource, (namespace, name), sub, obj, request)

    def patch(
        self, resource: Resource, namespace: str, name: str, sub: str, body: Any, request: Request
    ) -> Response:
        old = self.store.get(resource, namespace, name)
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind == "application/apply-patch+yaml" and old is None:
            return self.create(resource, namespace, body, request)
        if old is None:
            raise errors.not_found(resource, name)
        if resource.stored_as:
            old = to_events_api(old)
        if sub == "scale":
            old = scale_of(old)
        if kind == "application/json-patch+json":
            obj = patches.json_patch(old, body)
        elif kind == "application/merge-patch+json":
            obj = patches.merge_patch(old, body)
        elif kind in ("application/strategic-merge-patch+json", "application/apply-patch+yaml"):
            obj = patches.strategic_patch(old, body)
        else:
            raise errors.unsupported(kind)
        if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
            raise bad_request("the patch leaves no object")
        if obj["metadata"].get("name") != name:
            text = "Invalid value: field is immutable"
            raise errors.invalid(resource, name, ("metadata.name", "FieldValueInvalid", text))
        return self._write(resource, (namespace, name), sub, self._accept(resource, namespace, obj), request)

    def _write(self, resource: Resource, key: Key, sub: str, obj: Obj, request: Request) -> Response:
        old = self.store.get(resource, *key)
        if old is None:
            raise errors.not_found(resource, key[1])
        if sub == "scale":
            return self._rescale(resource, old, obj, request)
        has_door = "status" in resource.subresources
        if sub == "status":
            obj["spec"] = old.get("spec", {})
            if "spec" not in old:
                del obj["spec"]
        elif has_door and "status" in old:
            obj["status"] = old["status"]
        elif has_door:
            obj.pop("status", None)
        admission.on_update(storage(resource), obj, old)
        made = self.store.update(storage(resource), obj, dry=_dry(request))
        return self._view(resource, request).object(200, made)

    def _rescale(self, resource: Resource, old: Obj, scale: Obj, request: Request) -> Response:
        old["spec"]["replicas"] = int((scale.get("spec") or {}).get("replicas") or 0)
        if version := scale["metadata"].get("resourceVersion"):
            old["metadata"]["resourceVersion"] = version
        made = self.store.update(resource, old, dry=_dry(request))
        return Response.of_json(200, scale_of(made))

    def delete(self, resource: Resource, namespace: str, name: str, body: Any, request: Request) -> Response:
        obj, gone = self._delete(resource, (namespace, name), body, request)
        if not gone or resource is PODS:
            return self._view(resource, request).object(200, obj)
        details = {"name": name, "kind": resource.plural, "uid": obj["metadata"]["uid"]}
        if resource.group:
            details["group"] = resource.group
        return Response.of_json(200, errors.success(details))

    def delete_many(self, resource: Resource, items: list[Item], body: Any, request: Request) -> Response:
        for item in items:
            self._delete(resource, item.key, body, request)
        return self._view(resource, request).many(items, {"resourceVersion": str(self.store.version)})

    def _delete(self, resource: Resource, key: Key, body: Any, request: Request) -> tuple[Obj, bool]:
        options: Obj = body if isinstance(body, dict) else {}
        required = options.get("preconditions") or {}
        grace = options.get("gracePeriodSeconds")
        if grace is None and request.first("gracePeriodSeconds"):
            grace = int(request.first("gracePeriodSeconds"))
        dry = _dry(request, options)
        if resource is NAMESPACES:
            return self._delete_namespace(key, dry)
        policy = options.get("propagationPolicy") or request.first("propagationPolicy")
        if options.get("orphanDependents"):
            policy = "Orphan"
        return self.store.delete(
            storage(resource),
            key,
            grace=grace,
            uid=required.get("uid") or "",
            version=required.get("resourceVersion") or "",
            propagation=policy,
            dry=dry,
        )

    def _delete_namespace(self, key: Key, dry: bool) -> tuple[Obj, bool]:
        """A namespace is emptied first and stays Terminating until then."""
        obj = self.store.get(NAMESPACES, *key)
        if obj is None:
            raise errors.not_found(NAMESPACES, key[1])
        if key[1] in ("default", "kube-system", "kube-public"):
            raise errors.forbidden(NAMESPACES, key[1], "this namespace may not be deleted")
        if dry:
            return obj, False
        obj, _ = self.store.delete(NAMESPACES, key) if obj["metadata"].get("finalizers") else (obj, False)
        obj["status"]["phase"] = "Terminating"
        obj["metadata"]["deletionTimestamp"] = self.store.now()
        made = self.store.commit(NAMESPACES, "MODIFIED", obj, self.store.item(NAMESPACES, *key), False)
        self.agenda.soon(("namespace", key[1]), lambda: self._empty(key))
        return made, False

    def _empty(self, key: Key) -> None:
        left = 0
        for resource in RESOURCES:
            if not resource.namespaced or resource.stored_as:
                continue
            for item in list(self.store.shelf(resource).span(key[1])):
                left += not self.store.delete(resource, item.key)[1]
        if left:
            self.agenda.after(0.2, lambda: self._empty(key))
        elif self.store.item(NAMESPACES, *key):
            self.store.delete(NAMESPACES, key)

    def bind(self, namespace: str, name: str, body: Obj) -> Obj:
        name = name or body.get("metadata", {}).get("name", "")
        node = (body.get("target") or {}).get("name", "")
        assign(self.store, (namespace, name), node)
        return errors.success()

    def _accept(self, resource: Resource, namespace: str, body: Any) -> Obj:
        """The object of a body, checked against the path it was sent to."""
        if not isinstance(body, dict):
            raise bad_request("the object provided is unrecognized: an object was expected")
        obj = dict(body)
        kind, version = obj.get("kind"), obj.get("apiVersion")
        if kind == "Scale":
            kind = version = None
        if kind not in (None, resource.kind) or version not in (None, resource.api_version):
            raise bad_request(
                f"{kind} in version {version!r} cannot be handled as a {resource.kind}: the API version in the "
                f"data ({version}) does not match the expected API version ({resource.api_version})"
            )
        if not isinstance(obj.setdefault("metadata", {}), dict):
            raise bad_request("metadata: an object was expected")
        meta = obj["metadata"] = dict(obj["metadata"])
        if resource.namespaced and meta.setdefault("namespace", namespace) != namespace:
            if namespace and meta["namespace"]:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            meta["namespace"] = namespace or meta["namespace"]
        for part in ("spec", "status"):
            if part in obj and obj[part] is None:
                del obj[part]
            if not isinstance(obj.get(part, {}), dict):
                raise bad_request(f"{part}: an object was expected")
        return from_events_api(obj) if storage(resource) is EVENTS and resource.stored_as else obj

    def _view(self, resource: Resource, request: Request) -> View:
        return View(resource, request, self.store.clock)


def assign(store: Store, key: Key, node: str) -> Obj:
    """Bind a pod to a node, which is possible once."""
    pod = store.get(PODS, *key)
    if pod is None:
        raise errors.not_found(PODS, key[1])
    if pod["spec"].get("nodeName"):
        why = f'pod {key[1]} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise errors.conflict(PODS, key[1], why)
    if pod["metadata"].get("deletionTimestamp"):
        raise errors.conflict(PODS, key[1], f"pod {key[1]} is being deleted, cannot be assigned to a host")
    if not node:
        raise errors.invalid(NODES, "", ("target.name", "FieldValueRequired", "Required value"))
    pod["spec"]["nodeName"] = node
    set_condition(pod["status"], store.now(), type="PodScheduled", status="True")
    return store.update(PODS, pod)


def set_condition(held_in: Obj, now: str, /, **condition: Any) -> None:
    """Put a condition in its place; the transition time moves only with its status."""
    held = held_in.setdefault("conditions", [])
    old = next((each for each in held if each["type"] == condition["type"]), None)
    same = old is not None and old["status"] == condition["status"]
    condition["lastTransitionTime"] = old["lastTransitionTime"] if old and same else now
    if old is None:
        held.append(condition)
    else:
        held[held.index(old)] = condition
