"""A new object, for the API and for controllers alike: named, completed, checked and stored."""

from __future__ import annotations

from controller.sandbox.cluster import admission, errors, schema
from controller.sandbox.cluster.errors import bad_request
from controller.sandbox.cluster.resources import EVENTS, NAMESPACES, Obj, Resource, storage
from controller.sandbox.cluster.shape import shaped
from controller.sandbox.cluster.store import Store
from controller.sandbox.cluster.views import from_events_api

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
LONGEST_PREFIX = 58


def generated(store: Store, prefix: str) -> str:
    return prefix[:LONGEST_PREFIX] + "".join(store.rng.choices(LETTERS, k=5))


def new_object(
    store: Store,
    resource: Resource,
    obj: Obj,
    *,
    dry: bool = False,
    through: Resource | None = None,
    is_shaped: bool = False,
) -> Obj:
    """`through` is the resource it was asked for by; controllers hand over objects of any shape."""
    if not is_shaped:
        obj = shaped(schema.of_resource(resource).name, obj)
    meta = obj["metadata"]
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generated(store, meta["generateName"])
    if resource.namespaced:
        _check_namespace(store, through or resource, meta)
    meta["uid"] = store.new_uid()
    meta["creationTimestamp"] = store.now()
    admission.on_create(store, resource, obj, through=through)
    try:
        return store.create(resource, obj, dry=dry)
    except errors.ApiError as problem:
        if problem.reason == "AlreadyExists" and through is not None:
            leaving = problem.message.startswith("object is being deleted")
            raise errors.already_exists(through, meta["name"], leaving=leaving) from None
        raise


def _check_namespace(store: Store, resource: Resource, meta: Obj) -> None:
    space = store.get(NAMESPACES, "", meta.get("namespace", ""))
    if space is None:
        raise errors.not_found(NAMESPACES, meta.get("namespace", ""))
    if space["metadata"].get("deletionTimestamp"):
        name = meta["namespace"]
        why = f"unable to create new content in namespace {name} because it is being terminated"
        text = f"namespace {name} is being terminated"
        cause = {"reason": "NamespaceTerminating", "message": text, "field": "metadata.namespace"}
        raise errors.forbidden(resource, meta["name"], why, [cause])


def place(resource: Resource, namespace: str, obj: Obj) -> None:
    """The namespace of a path and that of an object must agree."""
    meta = obj["metadata"]
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    if meta.get("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta["namespace"] = namespace


def stored_form(resource: Resource, obj: Obj) -> Obj:
    """Events of the newer group are stored as those of the older."""
    if storage(resource) is EVENTS and resource.stored_as:
        return shaped("core.Event", from_events_api(obj))
    return obj
