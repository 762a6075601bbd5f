"""The writing verbs but for patches: create, update, delete.

Quirks kept: `status` and the rest of an object are written through different doors; some kinds may not be
replaced without a resourceVersion, and some are made by an update of what is not there, also by one that
carries the version of what is gone.
"""

from __future__ import annotations

from controller.sandbox.cluster import admission, decoding, errors
from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.creating import new_object, place, stored_form
from controller.sandbox.cluster.errors import bad_request
from controller.sandbox.cluster.namespaces import Namespaces
from controller.sandbox.cluster.options import DeleteOptions, WriteOptions, delete_options, write_options
from controller.sandbox.cluster.resources import NAMESPACES, NODES, Obj, Resource, storage
from controller.sandbox.cluster.shape import Notes
from controller.sandbox.cluster.shelf import Item, Key
from controller.sandbox.cluster.store import Store
from controller.sandbox.cluster.views import View, warning_header
from controller.sandbox.wire import Request, Response

ORPHANED = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
    "set propagationPolicy=Orphan to suppress this warning"
)


class Writer:
    def __init__(self, store: Store, agenda: Agenda) -> None:
        self.store = store
        self.namespaces = Namespaces(store, agenda)

    # ---- create and update

    def create(self, resource: Resource, namespace: str, request: Request) -> Response:
        options = write_options(request, "CreateOptions")
        view = self.view(resource, request)
        obj, warnings = decoding.object_of(request, resource, options)
        place(resource, namespace, obj)
        made = self.new(resource, obj, options)
        return view.object(201, made, warnings + admission.warnings_of(resource, made))

    def new(self, resource: Resource, obj: Obj, options: WriteOptions) -> Obj:
        held = stored_form(resource, obj)
        return new_object(
            self.store, storage(resource), held, dry=options.dry, through=resource, is_shaped=True
        )

    def update(self, resource: Resource, namespace: str, name: str, door: str, request: Request) -> Response:
        options = write_options(request, "UpdateOptions")
        view = self.view(resource, request)
        obj, warnings = decoding.object_of(request, resource, options)
        if not obj["metadata"].get("name"):
            raise bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )
        self.named(obj, name)
        place(resource, namespace, obj)
        held = self.store.item(storage(resource), namespace, name)
        if held is None:
            if not resource.made_by_put or door:
                raise errors.not_found(resource, name)
            return view.object(201, self._make(resource, namespace, obj, options), warnings)
        if resource.versioned and obj["metadata"].get("resourceVersion") in (None, "", "0"):
            raise errors.version_required(resource, name)
        if obj["metadata"].get("uid") not in (None, "", held.uid):
            why = _storage_problem(resource, namespace, name, obj["metadata"]["uid"], held.uid)
            raise errors.conflict(resource, name, why)
        made = self.write(resource, (namespace, name), door, obj, options)
        return view.object(200, made, warnings + admission.warnings_of(resource, made))

    def _make(self, resource: Resource, namespace: str, obj: Obj, options: WriteOptions) -> Obj:
        """By an update: a version of what is gone stops nobody, its identity does."""
        meta = obj["metadata"]
        if uid := meta.get("uid"):
            why = _storage_problem(resource, namespace, meta["name"], uid, "")
            raise errors.conflict(resource, meta["name"], why)
        meta.pop("resourceVersion", None)
        return self.new(resource, obj, options)

    @staticmethod
    def named(obj: Obj, name: str) -> None:
        found = obj["metadata"].get("name") or ""
        if found != name:
            raise bad_request(f"the name of the object ({found}) does not match the name on the URL ({name})")

    def write(self, resource: Resource, key: Key, door: str, obj: Obj, options: WriteOptions) -> Obj:
        kept = storage(resource)
        held = self.store.item(kept, *key)
        if held is None:
            raise errors.not_found(resource, key[1])
        self.store.check_version(resource, obj["metadata"], held)
        old, obj = held.decode(), stored_form(resource, obj)
        if door == "status":
            for part in [each for each in (*old, *obj) if each not in ("metadata", "status")]:
                obj.pop(part, None)
                if part in old:
                    obj[part] = old[part]
        elif door == "finalize":
            obj = held.decode() | {"spec": {**old["spec"], "finalizers": obj["spec"].get("finalizers") or []}}
        elif "status" in resource.subresources:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = old["status"]
        for part in ("uid", "creationTimestamp", "generation"):
            if part in old["metadata"] and (part != "uid" or not obj["metadata"].get("uid")):
                obj["metadata"][part] = old["metadata"][part]
        for part in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            if part in old["metadata"]:
                obj["metadata"][part] = old["metadata"][part]
        admission.on_update(kept, obj, old, door=door, through=resource)
        return self.store.update(kept, obj, dry=options.dry)

    # ---- delete

    def delete(self, resource: Resource, namespace: str, name: str, request: Request) -> Response:
        options = self._delete_options(request)
        view = self.view(resource, request)
        warnings = [ORPHANED] if resource.kind == "Job" and not options.propagation else []
        try:
            obj, gone = self._delete(resource, (namespace, name), options)
        except errors.ApiError as problem:
            problem.warnings = warnings
            raise
        if not gone or resource.shown_last:
            # Only who asked in the old way not to orphan is told that it is not done yet.
            accepted = not gone and options.told.get("orphanDependents") is False
            return view.object(202 if accepted else 200, obj, warnings)
        details = {"name": name} | ({"group": resource.group} if resource.group else {})
        details |= {"kind": resource.plural, "uid": obj["metadata"]["uid"]}
        return Response.of_json(200, errors.success(details), warning_header(warnings))

    def delete_many(self, resource: Resource, items: list[Item], request: Request) -> Response:
        options = self._delete_options(request)
        for item in items:
            self._delete(resource, item.key, options)
        return self.view(resource, request).many(items, {"resourceVersion": str(self.store.version)})

    def _delete_options(self, request: Request) -> DeleteOptions:
        if not request.body:
            return delete_options(request, None)
        try:
            return delete_options(request, decoding.read(request, Notes()))
        except ValueError as problem:
            raise bad_request(f"couldn't get version/kind; json parse error: {problem}") from None

    def _delete(self, resource: Resource, key: Key, options: DeleteOptions) -> tuple[Obj, bool]:
        if storage(resource) is NAMESPACES:
            return self.namespaces.delete(key, options)
        try:
            return self.store.delete(
                storage(resource),
                key,
                grace=options.grace,
                uid=options.uid,
                version=options.version,
                propagation=options.propagation,
                dry=options.dry,
            )
        except errors.ApiError as problem:
            if problem.code == 404:
                raise errors.not_found(resource, key[1]) from None
            raise

    def view(self, resource: Resource, request: Request) -> View:
        return View(resource, request, self.store.clock)


def _storage_problem(resource: Resource, namespace: str, name: str, asked: str, found: str) -> str:
    """A precondition that the store checks, in the words of its error."""
    plural = "minions" if resource is NODES else resource.plural
    key = "/".join(part for part in ("/registry", plural, namespace, name) if part)
    why = f"Precondition failed: UID in precondition: {asked}, UID in object meta: {found}"
    return f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
