"""The side doors of objects that are no patch of a part: binding and scale. Eviction is in `disruption`."""

from __future__ import annotations

from controller.sandbox.cluster import decoding, errors
from controller.sandbox.cluster.binding import assign
from controller.sandbox.cluster.errors import bad_request
from controller.sandbox.cluster.options import WriteOptions, write_options
from controller.sandbox.cluster.patching import Patcher
from controller.sandbox.cluster.resources import PODS, Obj, Resource
from controller.sandbox.cluster.shape import Notes
from controller.sandbox.cluster.shelf import Key
from controller.sandbox.cluster.store import Store
from controller.sandbox.wire import Request, Response

SCALE = "autoscaling.Scale"


class Doors:
    def __init__(self, store: Store, patcher: Patcher) -> None:
        self.store = store
        self.patcher = patcher

    # ---- binding

    def bind(self, namespace: str, name: str, request: Request) -> Response:
        options = write_options(request, "CreateOptions")
        body = self._body(request, "Binding", "core.Binding", options)
        meta, target = body["metadata"], body["target"]
        if name and meta.get("name") != name:
            raise bad_request("name in URL does not match name in Binding object")
        if target.get("kind") not in (None, "", "Node"):
            cause = errors.unsupported_value("target.kind", target["kind"], "Node", "<empty>")
            raise errors.internal(f"{cause[0]}: {cause[2]}")
        if not target.get("name"):
            raise errors.internal("target.name: Required value")
        key = (namespace, meta.get("name") or "")
        assign(self.store, key, target["name"], meta, dry=options.dry)
        return Response.of_json(201, errors.success(code=201))

    @staticmethod
    def _body(request: Request, kind: str, message: str, options: WriteOptions) -> Obj:
        notes = Notes()
        try:
            value = decoding.read(request, notes) or {}
        except ValueError as problem:
            raise bad_request(
                f"the object provided is unrecognized (must be of type {kind}): {problem}"
            ) from None
        return decoding.as_kind(PODS, value, options, notes, kind=kind, message=message)[0]

    # ---- scale

    def get_scale(self, resource: Resource, obj: Obj) -> Response:
        return Response.of_json(200, scale_of(obj))

    def put_scale(self, resource: Resource, key: Key, request: Request) -> Response:
        options = write_options(request, "UpdateOptions")
        scale = self._body(request, "Scale", SCALE, options)
        name = scale["metadata"].get("name") or ""
        if name != key[1]:
            raise bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({key[1]})"
            )
        return self._rescale(resource, key, scale, options)

    def patch_scale(self, resource: Resource, key: Key, request: Request) -> Response:
        options = write_options(request, "PatchOptions")
        old = self.store.get(resource, *key)
        if old is None:
            raise errors.not_found(resource, key[1])
        scale, _ = self.patcher.patched(
            resource, scale_of(old), request, options, kind="Scale", message=SCALE
        )
        return self._rescale(resource, key, scale, options)

    def _rescale(self, resource: Resource, key: Key, scale: Obj, options: WriteOptions) -> Response:
        obj = self.store.get(resource, *key)
        if obj is None:
            raise errors.not_found(resource, key[1])
        count = scale["spec"].get("replicas", 0)
        if count < 0:
            cause = errors.wrong("spec.replicas", count, "must be greater than or equal to 0")
            raise errors.invalid_as("Scale", "autoscaling", key[1], cause)
        obj["spec"]["replicas"] = count
        obj["metadata"]["resourceVersion"] = scale["metadata"].get("resourceVersion") or "0"
        return Response.of_json(200, scale_of(self.store.update(resource, obj, dry=options.dry)))


def scale_of(obj: Obj) -> Obj:
    """How many there should be, whatever the kind; zero is left out of the spec."""
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    meta = {key: value for key, value in obj["metadata"].items() if key in kept}
    exact = (obj["spec"].get("selector") or {}).get("matchLabels") or {}
    count = obj["spec"].get("replicas", 1)
    status: Obj = {"replicas": (obj.get("status") or {}).get("replicas", 0)}
    if exact:
        status["selector"] = ",".join(f"{key}={value}" for key, value in sorted(exact.items()))
    head = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta}
    return head | {"spec": {"replicas": count} if count else {}, "status": status}
