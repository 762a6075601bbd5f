"""Bodies in Kubernetes' protobuf, which kubectl sends for `create job`, `create namespace` and the like.

Only decoding: answers are JSON, which the same clients accept. The field numbers are those of `schema`.
Quirks kept out of the objects: fields that are no pointers in Go are on the wire even when empty, so
empty ones are dropped; embedded Go structs are inlined in JSON.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

from controller.sandbox.cluster import schema
from controller.sandbox.cluster.errors import bad_request
from controller.sandbox.cluster.resources import GROUP_VERSIONS, Obj
from controller.sandbox.cluster.stamps import micro_stamp, stamp

MAGIC = b"k8s\0"
YEAR_ONE = -62135596800  # the zero time of Go


def decode(body: bytes) -> Obj:
    """The object of an enveloped body."""
    if not body.startswith(MAGIC):
        raise bad_request("the object provided is unrecognized: protobuf without its prefix")
    try:
        api_version = kind = ""
        raw = b""
        for number, value in _wire(body[4:]):
            if number == 1:
                for inner, text in _wire(value):
                    api_version, kind = (text.decode(), kind) if inner == 1 else (api_version, text.decode())
            elif number == 2:
                raw = value
        message = _message_name(api_version, kind)
        return {"apiVersion": api_version, "kind": kind, **_message(message, raw)}
    except (IndexError, KeyError, ValueError, struct.error, AttributeError) as problem:
        raise bad_request(f"the object provided is unrecognized: {problem!r}") from None


def _message_name(api_version: str, kind: str) -> str:
    if kind == "DeleteOptions":
        return "meta.DeleteOptions"
    group = api_version.rpartition("/")[0]
    if group != "autoscaling" and group not in {known for known, _ in GROUP_VERSIONS}:
        raise ValueError(api_version)
    return schema.name_of(group, kind)


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _wire(raw: bytes) -> list[tuple[int, Any]]:
    """Field numbers and values: integers, or bytes."""
    found: list[tuple[int, Any]] = []
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(raw, at)
            found.append((tag >> 3, value - (1 << 64) if value >> 63 else value))
        elif kind == 2:
            size, at = _varint(raw, at)
            if at + size > len(raw):
                raise ValueError("cut short")
            found.append((tag >> 3, raw[at : at + size]))
            at += size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            found.append((tag >> 3, struct.unpack_from("<d" if kind == 1 else "<f", raw, at)[0]))
            at += size
        else:
            raise ValueError(f"wire type {kind}")
    return found


def _message(name: str, raw: bytes) -> Obj:
    held, made = schema.message(name), dict[str, Any]()
    for number, value in _wire(raw):
        known = held.by_number.get(number)
        if known is None:
            continue
        key, kind = known.name, known.kind
        if known.shape == "{}":
            parts = dict(_wire(value))
            made.setdefault(key, {})[parts.get(1, b"").decode()] = _value(kind, parts.get(2, b""))
        elif known.shape == "[]":
            made.setdefault(key, []).append(_value(kind, value))
        elif number in held.inlined:
            made |= _value(kind, value) or {}
        else:
            read = _value(kind, value)
            zero = isinstance(read, (int, float)) and not read and kind != "intstr.IntOrString"
            if read is None or ((read == "" or zero) and not known.pointer):
                continue
            made[key] = read
    return made


def _value(kind: str, value: Any) -> Any:
    if kind == "string":
        return value.decode()
    if kind == "strings":
        return [text.decode() for _, text in _wire(value)]
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind == "bool":
        return bool(value)
    if kind in ("int32", "int64", "double", "uint32", "uint64", "float"):
        return value
    if kind in ("meta.Time", "meta.MicroTime"):
        parts = dict(_wire(value))
        seconds = parts.get(1, 0)
        if not parts or seconds == YEAR_ONE:
            return None
        return stamp(seconds) if kind == "meta.Time" else micro_stamp(seconds + parts.get(2, 0) / 1e9)
    if kind == "resource.Quantity":
        return dict(_wire(value)).get(1, b"0").decode()
    if kind == "intstr.IntOrString":
        parts = dict(_wire(value))
        return parts.get(3, b"").decode() if parts.get(1) else parts.get(2, 0)
    if kind in ("runtime.RawExtension", "meta.FieldsV1"):
        return json.loads(dict(_wire(value)).get(1, b"null") or b"null")
    if kind == "meta.Duration":
        return f"{dict(_wire(value)).get(1, 0) / 1e9:g}s"
    return _message(kind, value)
