"""The patch dialects: JSON patch, merge patch, strategic merge patch.

Strategic merge asks the schema which lists are merged, and by which key; all others are replaced. Quirks
kept: what a patch adds to a merged list stands before what only the server has; `replace` of a key that a
map lacks adds it; a path without its leading slash loses its first part.
"""

from __future__ import annotations

import copy
from typing import Any

from controller.sandbox.cluster import schema
from controller.sandbox.cluster.errors import ApiError, bad_request, internal
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.schema import Field, Message

DIRECTIVES = ("$patch", "$retainKeys")
ORDER, DELETE_FROM = "$setElementOrder/", "$deleteFromPrimitiveList/"
REJECTED = "the server rejected our request due to an error in our request"


def json_patch(obj: Obj, operations: Any) -> Obj:
    if not isinstance(operations, list):
        kind = "object" if isinstance(operations, dict) else "string"
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type []handlers.jsonPatchOp"
        )
    result: Any = copy.deepcopy(obj)
    for each in operations:
        try:
            result = _operate(result, each)
        except (KeyError, IndexError, ValueError, TypeError):
            raise ApiError(422, "Invalid", REJECTED, {}) from None
    return result if isinstance(result, dict) else {}


def _operate(root: Any, operation: Obj) -> Any:
    kind, path = operation["op"], _pointer(operation["path"])
    if kind == "test":
        if _read(root, path) != operation["value"]:
            raise ValueError("test failed")
        return root
    if kind in ("move", "copy"):
        source = _pointer(operation["from"])
        value = copy.deepcopy(_read(root, source))
        if kind == "move":
            root = _remove(root, source)
        return _add(root, path, value)
    if kind == "add":
        return _add(root, path, operation["value"])
    if kind == "remove":
        return _remove(root, path)
    if kind == "replace":
        return _replace(root, path, operation["value"])
    raise ValueError(kind)


def _pointer(text: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _read(at: Any, path: list[str]) -> Any:
    for part in path:
        at = at[_index(at, part)] if isinstance(at, list) else at[part]
    return at


def _index(held: list[Any], part: str, *, adding: bool = False) -> int:
    if part == "-" and adding:
        return len(held)
    place = int(part)
    if place < 0 or place > len(held) - (0 if adding else 1):
        raise IndexError(part)
    return place


def _add(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _read(root, path[:-1])
    if isinstance(parent, list):
        parent.insert(_index(parent, path[-1], adding=True), value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise TypeError(path)
    return root


def _replace(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _read(root, path[:-1])
    parent[_index(parent, path[-1]) if isinstance(parent, list) else path[-1]] = value
    return root


def _remove(root: Any, path: list[str]) -> Any:
    parent = _read(root, path[:-1])
    if isinstance(parent, list):
        parent.pop(_index(parent, path[-1]))
    else:
        del parent[path[-1]]
    return root


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: maps merge, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def strategic_patch(target: Any, patch: Any, message: Message | None) -> Any:
    """`message` says what the fields are; None inside of plain maps."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key not in DIRECTIVES}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise internal(f"unknown patch type: {directive} in map: {go_map(patch)}")
    result = dict(target) if isinstance(target, dict) else {}
    if isinstance(kept := patch.get("$retainKeys"), list):
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if key in DIRECTIVES or key.startswith(ORDER):
            continue
        if key.startswith(DELETE_FROM):
            name = key.removeprefix(DELETE_FROM)
            result[name] = [each for each in result.get(name) or [] if each not in value]
            continue
        known = message.fields.get(key) if message else None
        if value is None:
            result.pop(key, None)
        elif isinstance(value, list):
            result[key] = _merge_list(known, result.get(key) or [], value, patch.get(f"{ORDER}{key}"))
        else:
            inner = schema.message(known.kind) if known and known.structure and not known.shape else None
            result[key] = strategic_patch(result.get(key), value, inner)
    for key, order in patch.items():
        name = key.removeprefix(ORDER)
        if key != name and name not in patch and isinstance(result.get(name), list):
            known = message.fields.get(name) if message else None
            result[name] = _ordered(result[name], result[name], order, known.merge_key if known else "")
    return result


def _merge_list(known: Field | None, old: list[Any], new: list[Any], order: list[Any] | None) -> list[Any]:
    if known is None or not known.merges:
        return [each for each in new if not (isinstance(each, dict) and "$patch" in each)]
    if not known.structure:
        both = list(dict.fromkeys([*old, *new]))
        return _ordered(both, old, order or new, "")
    key = known.merge_key
    if any(each.get("$patch") == "replace" for each in new if isinstance(each, dict)):
        return [each for each in new if "$patch" not in each]
    merged: dict[Any, Any] = {each.get(key): each for each in old}
    added: list[Any] = []
    for each in new:
        if key not in each:
            raise internal(f"map: {go_map(each)} does not contain declared merge key: {key}")
        if each.get("$patch") == "delete":
            merged.pop(each[key], None)
            continue
        merged[each[key]] = strategic_patch(merged.get(each[key]), each, schema.message(known.kind))
        added.append(each)
    return _ordered(list(merged.values()), old, order or added, key)


def _ordered(both: list[Any], server: list[Any], order: list[Any], key: str) -> list[Any]:
    """What the patch names, in its order, woven into what only the server has."""

    def name(each: Any) -> Any:
        return each.get(key) if key else each

    wanted = [name(each) for each in order]
    places = {name(each): at for at, each in enumerate(server)}
    named = sorted((each for each in both if name(each) in wanted), key=lambda each: wanted.index(name(each)))
    rest = [each for each in both if name(each) not in wanted]
    made: list[Any] = []
    while named or rest:
        if not named or not rest:
            made += named + rest
            break
        left, right = places.get(name(rest[0])), places.get(name(named[0]))
        first = rest if left is not None and right is not None and left < right else named
        made.append(first.pop(0))
    return made


def go_map(value: Any) -> str:
    """A value as Go prints it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_map(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(go_map(each) for each in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)
