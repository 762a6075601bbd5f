"""The patch dialects: JSON patch, merge patch, strategic merge patch.

Strategic merge needs to know which lists are merged by which key. Only lists that carry such a key in
the real types are here: node taints, tolerations and arguments are atomic there, so they are replaced.
"""

from __future__ import annotations

import copy
from typing import Any

from controller.sandbox.cluster.errors import ApiError, bad_request
from controller.sandbox.cluster.resources import Obj

MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "ports": ("containerPort", "port"),
    "addresses": ("type",),
    "ownerReferences": ("uid",),
    "schedulingGates": ("name",),
    "resourceClaims": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
}
PRIMITIVE_SETS = ("finalizers", "podCIDRs")
DIRECTIVES = ("$patch", "$retainKeys")


def json_patch(obj: Obj, operations: Any) -> Obj:
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    result: Any = copy.deepcopy(obj)
    for each in operations:
        try:
            result = _operate(result, each)
        except (KeyError, IndexError, ValueError, TypeError):
            # What the real server says to a failed test or a missing path.
            raise ApiError(
                422, "Invalid", "the server rejected our request due to an error in our request"
            ) from None
    if not isinstance(result, dict):
        raise bad_request("the patch leaves no object")
    return result


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
        _read(root, path)
        return _add(_remove(root, path) if path else root, path, operation["value"])
    raise ValueError(kind)


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(text)
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


def strategic_patch(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key not in DIRECTIVES}
    if directive == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    if isinstance(kept := patch.get("$retainKeys"), list):
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if key in DIRECTIVES or key.startswith("$setElementOrder/"):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [each for each in result.get(name) or [] if each not in value]
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, list):
            result[key] = _merge_list(key, result.get(key) or [], value)
        else:
            result[key] = strategic_patch(result.get(key), value)
    return result


def _merge_list(name: str, old: list[Any], new: list[Any]) -> list[Any]:
    if name in PRIMITIVE_SETS:
        return old + [each for each in new if each not in old]
    if any(isinstance(each, dict) and each.get("$patch") == "replace" for each in new):
        return [each for each in new if "$patch" not in each]
    objects = [each for each in (*old, *new) if isinstance(each, dict)]
    key = next((k for k in MERGE_KEYS.get(name, ()) if all(k in each for each in objects)), None)
    if key is None or len(objects) != len(old) + len(new):
        return new
    merged: dict[Any, Any] = {each[key]: each for each in old}
    for each in new:
        if each.get("$patch") == "delete":
            merged.pop(each[key], None)
        else:
            merged[each[key]] = strategic_patch(merged.get(each[key]), each)
    return list(merged.values())
