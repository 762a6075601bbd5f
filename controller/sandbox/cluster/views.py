"""How an object leaves the API: plain JSON, a table, or metadata alone, as the Accept header asks.

events.k8s.io shows the same objects as core events under other field names; both directions are here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from controller.sandbox.cluster import tables
from controller.sandbox.cluster.resources import Obj, Resource
from controller.sandbox.cluster.shelf import Item
from controller.sandbox.wire import Request, Response

_encode = msgspec.json.Encoder().encode
TABLE, METADATA, PLAIN = "Table", "PartialObjectMetadata", "json"
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
    return {names.get(key, key): value for key, value in event.items()}


def from_events_api(event: Obj) -> Obj:
    names = {new: old for old, new in _RENAMED}
    return {names.get(key, key): value for key, value in event.items()}


def form(request: Request) -> str:
    for part in request.headers.get("accept", "").split(","):
        words = {word.strip() for word in part.split(";")}
        if "as=Table" in words and "v=v1" in words:
            return TABLE
        if words & {"as=PartialObjectMetadata", "as=PartialObjectMetadataList"} and "v=v1" in words:
            return METADATA
        if words & {"application/json", "*/*"} and not any(word.startswith("as=") for word in words):
            return PLAIN
    return PLAIN


class View:
    def __init__(self, resource: Resource, request: Request, clock: Callable[[], float]) -> None:
        self.resource = resource
        self.form = form(request)
        self.include = request.first("includeObject", "Metadata")
        self.clock = clock
        self._headed = True  # a watch sends the columns once
        self._prefix = resource.prefix.encode()
        self._converts = resource.stored_as == "events"

    def decode(self, item: Item) -> Obj:
        obj = item.decode()
        return to_events_api(obj) if self._converts else obj

    def one(self, item: Item) -> bytes:
        if self.form == PLAIN and not self._converts:
            return self._prefix + item.raw[1:]
        obj = self.decode(item)
        if self.form == TABLE:
            rows = [tables.row(self.resource, item.decode(), self.clock(), self.include)]
            meta = {"resourceVersion": str(item.version)}
            made = tables.table(self.resource, rows, meta, headed=self._headed)
            self._headed = False
            return _encode(made)
        if self.form == METADATA:
            head = {"kind": METADATA, "apiVersion": "meta.k8s.io/v1"}
            return _encode(head | {"metadata": obj["metadata"]})
        return _encode({"kind": self.resource.kind, "apiVersion": self.resource.api_version, **obj})

    def many(self, items: Iterable[Item], meta: Obj) -> Response:
        if self.form == TABLE:
            rows = [tables.row(self.resource, item.decode(), self.clock(), self.include) for item in items]
            return Response.of_json(200, tables.table(self.resource, rows, meta))
        kind, version = f"{self.resource.kind}List", self.resource.api_version
        if self.form == METADATA:
            kind, version = f"{METADATA}List", "meta.k8s.io/v1"
            bodies: Iterable[bytes] = (_encode({"metadata": item.decode()["metadata"]}) for item in items)
        elif self._converts:
            bodies = (_encode(self.decode(item)) for item in items)
        else:
            bodies = (item.raw for item in items)
        head = _encode({"kind": kind, "apiVersion": version, "metadata": meta})
        raw = head[:-1] + b',"items":[' + b",".join(bodies) + b"]}"
        return Response(200, raw, {"Content-Type": "application/json"})

    def object(self, status: int, obj: Obj) -> Response:
        """An object that was just written, in plain JSON."""
        shown = to_events_api(obj) if self._converts else obj
        body = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, **shown}
        return Response(status, _encode(body), {"Content-Type": "application/json"})
