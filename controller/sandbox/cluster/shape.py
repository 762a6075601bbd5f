"""The one shape in which an object of a kind is stored and shown.

As a typed server would decode and encode it: unknown fields are dropped and remembered, values of a wrong
type are refused in its words, empty things that mean nothing are left out, what is always written is
there, quantities and times have one form, and defaults that hang on a structure alone are filled in.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from controller.sandbox.cluster import schema
from controller.sandbox.cluster.defaults import STATIC
from controller.sandbox.cluster.quantity import PATTERN, canonical
from controller.sandbox.cluster.schema import Field, Message
from controller.sandbox.cluster.stamps import micro_stamp_of, stamp_of

Obj = dict[str, Any]
_INDEX = re.compile(r"\[\d+\]")
INT32 = 1 << 31


class WrongType(ValueError):
    """A value that does not decode; the text is that of the server's decoder."""


@dataclass
class Notes:
    """What decoding noticed but let pass."""

    unknown: list[str] = field(default_factory=list)
    doubled: dict[int, list[str]] = field(default_factory=dict)  # id of a map -> its doubled keys
    doubles: list[str] = field(default_factory=list)

    def warnings(self) -> list[str]:
        return [f'duplicate field "{each}"' for each in self.doubles] + [
            f'unknown field "{each}"' for each in self.unknown
        ]


def shaped(name: str, value: Any, notes: Notes | None = None, path: str = "") -> Obj:
    """The value of a structure in its canonical shape. WrongType where it does not decode."""
    if not isinstance(value, dict):
        raise WrongType(f"json: cannot unmarshal {_json_type(value)} into Go value of type {name}")
    held = schema.message(name)
    fields, made = held.fields, dict[str, Any]()
    if notes is not None and notes.doubled:
        _note_doubles(value, path, notes)
    for key, given in value.items():
        known = fields.get(key)
        if known is None:
            if notes is not None and not (not path and key in ("kind", "apiVersion")):
                notes.unknown.append(_under(path, key))
            continue
        if given is None:
            continue
        if type(given) is known.plain:
            if given or known.pointer or known.written:
                made[key] = given
            continue
        read = _read(held, known, given, notes, path)
        if read is not _ABSENT:
            made[key] = read
    for key, zero in _always(name):
        if key not in made:
            made[key] = _copied(zero)
    if name in STATIC:
        for key, default in STATIC[name].items():
            if key not in made:
                made[key] = _copied(default)
    return made


def _copied(value: Any) -> Any:
    """Of plain JSON, a copy of its own; ten times as fast as what copies anything."""
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


_ABSENT = object()


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _read(owner: Message, known: Field, given: Any, notes: Notes | None, path: str) -> Any:
    if known.shape == "[]":
        if not isinstance(given, list):
            raise _wrong(owner, known, given, path, known.go_type)
        if not given:
            return _ABSENT
        where = _under(path, known.name)
        if known.structure:
            return [
                shaped(known.kind, _struct(owner, known, each, path), notes, f"{where}[{at}]")
                for at, each in enumerate(given)
            ]
        return [_scalar(owner, known, each, path, known.element_type) for each in given]
    if known.shape == "{}":
        if not isinstance(given, dict):
            raise _wrong(owner, known, given, path, known.go_type)
        if not given:
            return _ABSENT
        if notes is not None and notes.doubled:
            _note_doubles(given, _under(path, known.name), notes)
        if known.structure:
            where = _under(path, known.name)
            return {
                key: shaped(known.kind, _struct(owner, known, each, path), notes, f"{where}[{key}]")
                for key, each in given.items()
            }
        return {key: _scalar(owner, known, each, path, known.kind) for key, each in given.items()}
    if known.structure:
        made = shaped(
            known.kind, _struct(owner, known, given, path, known.go_type), notes, _under(path, known.name)
        )
        return made if made or known.pointer or known.written else _ABSENT
    read = _scalar(owner, known, given, path, known.go_type)
    if known.pointer or known.written or read or known.kind == "intstr.IntOrString":
        return read
    return _ABSENT


def _struct(owner: Message, known: Field, given: Any, path: str, go_type: str = "") -> Any:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise _wrong(owner, known, given, path, go_type or known.element_type)
    return given


def _scalar(owner: Message, known: Field, given: Any, path: str, go_type: str) -> Any:
    kind = known.kind
    if kind == "string":
        if type(given) is str:
            return given
        if given is None:
            return ""
    elif kind == "bool":
        if type(given) is bool:
            return given
    elif kind in ("int32", "int64"):
        if type(given) is int:
            if kind == "int32" and not -INT32 <= given < INT32:
                raise _wrong(owner, known, given, path, go_type, f"number {given}")
            return given
        if type(given) is float:
            raise _wrong(owner, known, given, path, go_type, f"number {given}")
    elif kind == "double":
        if isinstance(given, (int, float)) and type(given) is not bool:
            return given
    elif kind == "bytes":
        if isinstance(given, str):
            return _bytes(given)
    elif kind == "resource.Quantity":
        try:
            return canonical(given)
        except (ValueError, TypeError):
            raise WrongType(f"quantities must match the regular expression '{PATTERN}'") from None
    elif kind == "meta.Time":
        if isinstance(given, str):
            return _time(stamp_of, given)
    elif kind == "meta.MicroTime":
        if isinstance(given, str):
            return _time(micro_stamp_of, given)
    elif kind == "intstr.IntOrString":
        if type(given) in (int, str):
            return given
    else:
        return given
    raise _wrong(owner, known, given, path, go_type)


def _time(read: Callable[[str], str], text: str) -> str:
    try:
        return read(text)
    except ValueError as problem:
        raise WrongType(str(problem)) from None


def _bytes(text: str) -> str:
    plain = text.replace("\n", "").replace("\r", "")
    try:
        base64.b64decode(plain, validate=True)
    except (binascii.Error, ValueError):
        alphabet = re.match(r"[A-Za-z0-9+/]*", plain)
        at = alphabet.end() if alphabet else 0
        raise WrongType(f"illegal base64 data at input byte {at}") from None
    return plain


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    for kinds, name in (((int, float), "number"), (str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, kinds):
            return name
    return "null"


def _wrong(owner: Message, known: Field, given: Any, path: str, go_type: str, what: str = "") -> WrongType:
    where = _INDEX.sub("", _under(path, known.name))
    text = what or _json_type(given)
    return WrongType(
        f"json: cannot unmarshal {text} into Go struct field {owner.go_name}.{where} of type {go_type}"
    )


def _note_doubles(value: Obj, path: str, notes: Notes) -> None:
    for key in notes.doubled.get(id(value), ()):
        notes.doubles.append(_under(path, key))


@cache
def _always(name: str) -> tuple[tuple[str, Any], ...]:
    """What a structure shows even when it is empty."""
    found: list[tuple[str, Any]] = []
    for key, known in schema.message(name).fields.items():
        if not known.written:
            continue
        zero: Any = None
        if not known.shape and not known.pointer:
            if known.structure:
                zero = shaped(known.kind, {})
            else:
                zero = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0}.get(known.kind)
                zero = "0" if known.kind == "resource.Quantity" else zero
                zero = 0 if known.kind == "intstr.IntOrString" else zero
        found.append((key, zero))
    return tuple(found)
