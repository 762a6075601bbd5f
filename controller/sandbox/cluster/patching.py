"""Patches and server-side apply: what an object becomes, and then it is written like any update.

Quirks kept: a patch that carries a resourceVersion is refused when stale, one that does not never is; what
a patch makes is checked as a whole, and refused as an invalid patch where it does not decode.
"""

from __future__ import annotations

import json

from controller.sandbox.cluster import admission, decoding, errors, patches, schema
from controller.sandbox.cluster.creating import place
from controller.sandbox.cluster.decoding import content_type
from controller.sandbox.cluster.errors import bad_request
from controller.sandbox.cluster.options import WriteOptions, write_options
from controller.sandbox.cluster.resources import Obj, Resource, storage
from controller.sandbox.cluster.shape import Notes, WrongType, shaped
from controller.sandbox.cluster.store import Store
from controller.sandbox.cluster.views import to_events_api
from controller.sandbox.cluster.writing import Writer
from controller.sandbox.wire import Request, Response

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
DIALECTS = (JSON_PATCH, MERGE, STRATEGIC, APPLY)


class Patcher:
    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer

    def patch(self, resource: Resource, namespace: str, name: str, door: str, request: Request) -> Response:
        kind = content_type(request)
        options = write_options(request, "PatchOptions", apply=kind == APPLY)
        view = self._writer.view(resource, request)
        held = self._store.get(storage(resource), namespace, name)
        if kind == APPLY:
            return self._apply(resource, namespace, name, door, request, held, options)
        if held is None:
            raise errors.not_found(resource, name)
        obj, warnings = self.patched(resource, self.shown(resource, held), request, options)
        if not obj["metadata"].get("name"):
            raise bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )
        self._writer.named(obj, name)
        place(resource, namespace, obj)
        made = self._writer.write(resource, (namespace, name), door, obj, options)
        return view.object(200, made, warnings + admission.warnings_of(resource, made))

    @staticmethod
    def shown(resource: Resource, held: Obj) -> Obj:
        """A stored object as the clients of its group know it, for a patch to change."""
        known = to_events_api(held) if resource.stored_as else held
        return {"kind": resource.kind, "apiVersion": resource.api_version, **known}

    @staticmethod
    def patched(
        resource: Resource,
        old: Obj,
        request: Request,
        options: WriteOptions,
        *,
        kind: str = "",
        message: str = "",
    ) -> tuple[Obj, list[str]]:
        """An object after a patch, in its canonical shape, and warnings."""
        dialect = content_type(request)
        try:
            body = decoding.go_json(request.body)
        except ValueError as problem:
            raise bad_request(f"error decoding patch: {problem}") from None
        if dialect != JSON_PATCH and not isinstance(body, dict):
            found = {list: "array", str: "string", bool: "bool", type(None): "null"}.get(type(body), "number")
            go = "map[string]interface {}"
            raise bad_request(
                f"error decoding patch: json: cannot unmarshal {found} into Go value of type {go}"
            )
        structure = schema.message(message) if message else schema.of_resource(resource)
        if dialect == JSON_PATCH:
            made = patches.json_patch(old, body)
        elif dialect == MERGE:
            made = patches.merge_patch(old, body)
        else:
            made = patches.strategic_patch(old, body, structure)
        notes = Notes()
        wanted = kind or resource.kind
        wrong_how = decoding.mismatch(resource, made, wanted)
        result: Obj = {}
        if not wrong_how:
            try:
                result = shaped(structure.name, made, notes)
            except WrongType as wrong:
                wrong_how = str(wrong)
        if not wrong_how and options.strict and (told := notes.warnings()):
            wrong_how = f"strict decoding error: {', '.join(told)}"
        if wrong_how:
            shown = json.dumps(made, separators=(",", ":"))
            raise errors.invalid_as("", "", "", errors.wrong("patch", shown, wrong_how))
        return decoding.without_ballast(result), notes.warnings() if options.warns else []

    def _apply(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        door: str,
        request: Request,
        held: Obj | None,
        options: WriteOptions,
    ) -> Response:
        """Server-side apply without owners of fields: what is said is merged, nothing is taken away."""
        notes = Notes()
        try:
            body = decoding.read_yaml(request.body)
        except ValueError as problem:
            raise bad_request(f"error decoding YAML: {problem}") from None
        if not isinstance(body, dict):
            raise bad_request("error decoding YAML: an object was expected")
        group, _, version = str(body.get("apiVersion") or "").rpartition("/")
        if body.get("kind") != resource.kind or body.get("apiVersion") != resource.api_version:
            raise bad_request(f"invalid object type: {group}/{version}, Kind={body.get('kind', '')}")
        meta = body.get("metadata") or {}
        if meta.get("name", name) != name:
            raise bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
            )
        try:
            shaped(schema.of_resource(resource).name, body, notes)
        except WrongType as wrong:
            raise bad_request(f"{resource.kind} cannot be handled: {wrong}") from None
        if notes.unknown:
            what = f"({meta.get('namespace', '')}/{name}; {group}/{version}, Kind={resource.kind})"
            found = f".{notes.unknown[0]}: field not declared in schema"
            raise errors.internal(f"failed to create typed patch object {what}: {found}")
        message = schema.of_resource(resource)
        merged = patches.strategic_patch(self.shown(resource, held) if held else {}, body, message)
        obj = decoding.without_ballast(shaped(message.name, merged))
        obj["metadata"]["name"] = name
        place(resource, namespace, obj)
        if held is None:
            return self._writer.view(resource, request).object(201, self._writer.new(resource, obj, options))
        made = self._writer.write(resource, (namespace, name), door, obj, options)
        return self._writer.view(resource, request).object(200, made)
