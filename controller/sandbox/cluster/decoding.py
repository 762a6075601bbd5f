"""From the bytes of a body to an object of the kind that a path wants.

Bodies are JSON or YAML, or protobuf, which kubectl and Go clients send. Refusals carry the words of the
real decoder, because people search for them.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import yaml

from controller.sandbox.cluster import protobuf, schema
from controller.sandbox.cluster.errors import bad_request, unsupported_body
from controller.sandbox.cluster.options import WriteOptions
from controller.sandbox.cluster.resources import BY_KIND, RESOURCES, Obj, Resource
from controller.sandbox.cluster.shape import Notes, WrongType, shaped
from controller.sandbox.wire import Request

ENOUGH = 30  # bytes of a body that a refusal shows
SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
_VERSIONS = frozenset(each.api_version for each in RESOURCES)
OTHER_KINDS = ("DeleteOptions", "Status", "Binding", "Eviction", "Scale")


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip()


def go_json(body: bytes, notes: Notes | None = None) -> Any:
    """A JSON value; ValueError says what is wrong as Go's decoder would."""
    if (plain := _plain(body)) is not None:
        return plain
    doubled = notes.doubled if notes is not None else {}

    def pairs(found: list[tuple[str, Any]]) -> Obj:
        made = dict(found)
        if len(made) != len(found):
            keys = [key for key, _ in found]
            doubled[id(made)] = [key for at, key in enumerate(keys) if key in keys[:at]]
        return made

    try:
        return json.loads(body, object_pairs_hook=pairs)
    except json.JSONDecodeError as problem:
        raise ValueError(_go_words(problem)) from None
    except UnicodeDecodeError:
        raise ValueError("invalid character '\\u00ff' looking for beginning of value") from None


def _plain(body: bytes) -> Any:
    """The value where the text is written in the shortest way, as most programs do: then no key stands there twice."""
    try:
        found = msgspec.json.decode(body)
        return found if msgspec.json.encode(found) == body else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None  # told in Go's words


def _go_words(problem: json.JSONDecodeError) -> str:
    if problem.pos >= len(problem.doc.rstrip()):
        return "unexpected end of JSON input"
    found = f"invalid character '{problem.doc[problem.pos]}'"
    if problem.msg.startswith("Expecting property name"):
        return f"{found} looking for beginning of object key string"
    if problem.msg.startswith("Expecting ':'"):
        return f"{found} after object key"
    if problem.msg.startswith("Expecting ','"):
        return f"{found} after object key:value pair"
    if problem.msg.startswith("Extra data"):
        return f"{found} after top-level value"
    return f"{found} looking for beginning of value"


def read(request: Request, notes: Notes) -> Any:
    """The value in a body, whatever it is. ValueError where it is none."""
    kind = content_type(request)
    if "protobuf" in kind:
        return protobuf.decode(request.body)
    if kind.endswith("yaml"):
        return read_yaml(request.body)
    if kind not in ("", "application/json"):
        raise unsupported_body()
    return go_json(request.body, notes)


def read_yaml(body: bytes) -> Any:
    try:
        return yaml.safe_load(body)
    except yaml.YAMLError as problem:
        raise ValueError(f"yaml: {problem}") from None


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    cut, more = body[:ENOUGH], " ..." if len(body) > ENOUGH else ""
    return (cut.decode(errors="replace") if body[:1] == b"{" else cut.hex()) + more


def object_of(request: Request, resource: Resource, options: WriteOptions) -> tuple[Obj, list[str]]:
    """The object of a create or an update in its canonical shape, and warnings."""
    notes = Notes()
    start = f"the object provided is unrecognized (must be of type {resource.kind})"
    try:
        value = read(request, notes)
    except ValueError as problem:
        what = str(problem)
        if not content_type(request).endswith("yaml"):
            what = f"couldn't get version/kind; json parse error: {what}"
        raise bad_request(f"{start}: {what} ({_summary(request.body)})") from None
    if not isinstance(value, dict) and value is not None:
        kind = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
        go = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        what = f"json: cannot unmarshal {kind} into Go value of type {go}"
        raise bad_request(
            f"{start}: couldn't get version/kind; json parse error: {what} ({_summary(request.body)})"
        )
    return as_kind(resource, value or {}, options, notes)


def as_kind(
    resource: Resource, value: Obj, options: WriteOptions, notes: Notes, *, kind: str = "", message: str = ""
) -> tuple[Obj, list[str]]:
    """A decoded value as an object of a kind; refused where it is of another or does not decode."""
    wanted = kind or resource.kind
    problem = mismatch(resource, value, wanted)
    version = (value.get("apiVersion") or resource.api_version).rpartition("/")[2]
    if problem:
        raise bad_request(
            f'{value.get("kind") or wanted} in version "{version}" cannot be handled as a {wanted}: {problem}'
        )
    try:
        made = shaped(message or schema.of_resource(resource).name, value, notes)
    except WrongType as wrong:
        raise bad_request(
            f'{wanted} in version "{version}" cannot be handled as a {wanted}: {wrong}'
        ) from None
    return without_ballast(made), judged(wanted, version, options, notes)


def without_ballast(obj: Obj) -> Obj:
    """Who manages which field is not kept."""
    if isinstance(obj.get("metadata"), dict):
        obj["metadata"].pop("managedFields", None)
        obj["metadata"].pop("selfLink", None)
    return obj


def judged(kind: str, version: str, options: WriteOptions, notes: Notes) -> list[str]:
    """Warnings for what was dropped; a refusal where a client wants to be told strictly."""
    told = notes.warnings()
    if told and options.strict:
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {", ".join(told)}'
        )
    return told if options.warns else []


def mismatch(resource: Resource, value: Obj, wanted: str) -> str:
    """Why a value cannot be of the wanted kind; empty where it can."""
    kind = value.get("kind") or wanted
    api_version = value.get("apiVersion") or resource.api_version
    group = api_version.rpartition("/")[0]
    known = kind in OTHER_KINDS or (group, kind.removesuffix("List")) in BY_KIND
    if not known or api_version not in _VERSIONS:
        if kind == wanted and wanted in OTHER_KINDS:
            return ""
        return f'no kind "{kind}" is registered for version "{api_version}" {SCHEME}'
    if kind == wanted and (api_version == resource.api_version or wanted in OTHER_KINDS):
        return ""
    room, own = group.partition(".")[0] or "core", resource.group.partition(".")[0] or "core"
    return f"converting (v1.{kind}) to ({own}.{wanted}): unknown conversion" if room else ""
