"""How an object leaves the API: as it is, as a table, or its metadata alone; as JSON or as YAML.

events.k8s.io shows the same objects as core events under other field names; both directions are here.
Answers in protobuf are not given: clients that take JSON as well get JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import yaml

from controller.sandbox.cluster import tables
from controller.sandbox.cluster.errors import bad_request, not_acceptable
from controller.sandbox.cluster.resources import Obj, Resource
from controller.sandbox.cluster.shape import shaped
from controller.sandbox.cluster.shelf import Item
from controller.sandbox.wire import Request, Response

_encode = msgspec.json.Encoder().encode
TABLE, METADATA, METADATA_LIST = "Table", "PartialObjectMetadata", "PartialObjectMetadataList"
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
OFFERED = (JSON, YAML, PROTOBUF)
STREAMED = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
INCLUDES = ("", "Metadata", "Object", "None")
_RENAMED = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)


def to_events_api(event: Obj) -> Obj:
    names = dict(_RENAMED)
    return shaped("events.Event", {names.get(key, key): value for key, value in event.items()})


def from_events_api(event: Obj) -> Obj:
    names = {new: old for old, new in _RENAMED}
    return {names.get(key, key): value for key, value in event.items()}


@dataclass(frozen=True)
class Form:
    """What a client wants: `kind` is empty for the object itself."""

    kind: str = ""
    version: str = "v1"
    media: str = JSON

    @property
    def api_version(self) -> str:
        return f"meta.k8s.io/{self.version}"


def form(request: Request, *, listing: bool = False) -> Form:
    """The first form of the Accept header that can be given; refused where none can."""
    return _form(request.headers.get("accept", "").strip(), listing)


@lru_cache(maxsize=256)
def _form(header: str, listing: bool) -> Form:
    if not header:
        return Form()
    clauses = [_clause(part) for part in header.split(",")]
    known = [clause for clause in clauses if clause[0] in (*OFFERED, "*/*", "application/*")]
    if not known:
        offered = (*OFFERED, *STREAMED) if listing else OFFERED
        text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(offered)}"
        problem = not_acceptable(text)
        problem.details = {}
        raise problem
    for media, told in known:
        kind, group, version = told.get("as", ""), told.get("g", ""), told.get("v", "")
        if kind and (group != "meta.k8s.io" or kind not in (TABLE, METADATA, METADATA_LIST)):
            continue
        if kind and version not in ("v1", "v1beta1"):
            continue
        return Form(kind, version or "v1", YAML if media == YAML else JSON)
    raise not_acceptable(f"only the following media types are accepted: {', '.join(OFFERED)}")


def _clause(part: str) -> tuple[str, dict[str, str]]:
    media, *words = (word.strip() for word in part.split(";"))
    return media, dict(word.split("=", 1) for word in words if "=" in word)


class View:
    def __init__(
        self, resource: Resource, request: Request, clock: Callable[[], float], *, listing: bool = False
    ) -> None:
        self.resource = resource
        self.form = form(request, listing=listing)
        self.include = request.first("includeObject") or "Metadata"
        if self.form.kind == TABLE and self.include not in INCLUDES:
            raise bad_request(
                "Unable to convert to Table as requested: includeObject: Invalid value: "
                f"\"{self.include}\": must be 'Metadata', 'Object', 'None', or empty"
            )
        self.clock = clock
        self._headed = True  # a watch sends the columns once
        self._prefix = resource.prefix.encode()
        self._converts = resource.stored_as == "events"
        package = resource.group.partition(".")[0] or "core"
        self._go_type = f"*{package}.{resource.kind}"

    def decode(self, item: Item) -> Obj:
        obj = item.decode()
        return to_events_api(obj) if self._converts else obj

    def one(self, item: Item) -> bytes:
        """An object as JSON, in the form that was asked for."""
        if not self.form.kind and not self._converts:
            return self._prefix + item.raw[1:]
        return _encode(self._shown(item.decode(), str(item.version)))

    def single(self, item: Item) -> Response:
        """The answer to a get."""
        if self.form.kind == METADATA_LIST:
            text = f"you requested {METADATA_LIST}, but the requested object is not a list ({self._go_type})"
            raise not_acceptable(text)
        return self._respond(200, self.one(item))

    def _shown(self, obj: Obj, version: str) -> Obj:
        if self.form.kind == TABLE:
            rows = [self._row(obj)]
            made = tables.table(self.resource, rows, {"resourceVersion": version}, headed=self._headed)
            self._headed = False
            return made | {"apiVersion": self.form.api_version}
        if self.form.kind:
            head = {"kind": METADATA, "apiVersion": self.form.api_version}
            return head | {"metadata": obj["metadata"]}
        shown = to_events_api(obj) if self._converts else obj
        return {"kind": self.resource.kind, "apiVersion": self.resource.api_version, **shown}

    def _row(self, obj: Obj) -> Obj:
        made = tables.row(self.resource, obj, self.clock(), self.include)
        if made["object"] and self.include == "Metadata":
            made["object"]["apiVersion"] = self.form.api_version
        return made

    def many(self, items: Iterable[Item], meta: Obj) -> Response:
        """The answer to a list."""
        if self.form.kind == METADATA:
            text = f"you requested {METADATA}, but the requested object is a list ({self._go_type}List)"
            raise not_acceptable(text)
        if self.form.kind == TABLE:
            rows = [self._row(item.decode()) for item in items]
            made = tables.table(self.resource, rows, meta) | {"apiVersion": self.form.api_version}
            return self._respond(200, _encode(made))
        kind, version = f"{self.resource.kind}List", self.resource.api_version
        if self.form.kind:
            kind, version = METADATA_LIST, self.form.api_version
            head = {"kind": METADATA, "apiVersion": version}
            bodies: list[bytes] = [_encode(head | {"metadata": item.decode()["metadata"]}) for item in items]
        elif self._converts:
            bodies = [_encode(self.decode(item)) for item in items]
        else:
            bodies = [item.raw for item in items]
        opening = _encode({"kind": kind, "apiVersion": version, "metadata": meta})
        listed = b"[" + b",".join(bodies) + b"]"
        if self.form.kind and not bodies:
            listed = b"null"
        return self._respond(200, opening[:-1] + b',"items":' + listed + b"}")

    def object(self, status: int, obj: Obj, warnings: list[str] | None = None) -> Response:
        """An object that was just written."""
        version = obj["metadata"].get("resourceVersion", "")
        return self._respond(status, _encode(self._shown(obj, version)), warnings)

    def _respond(self, status: int, raw: bytes, warnings: list[str] | None = None) -> Response:
        headers = {"Content-Type": self.form.media} | warning_header(warnings)
        if self.form.media == YAML:
            raw = yaml.safe_dump(msgspec.json.decode(raw)).encode()
        return Response(status, raw, headers)


def warning_header(warnings: list[str] | None) -> dict[str, str]:
    """Several warnings in one header, as RFC 7234 lets them stand."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings or ())
    text = ", ".join(f'299 - "{each}"' for each in quoted)
    return {"Warning": text} if text else {}
