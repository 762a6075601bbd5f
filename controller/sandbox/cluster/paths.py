"""What a request asks for, read off its method and path before anything is looked up.

Rights are checked on this, so it is also read where nothing is served. Quirks kept: a list of one name
counts as that name; the old `/api/v1/watch/…` paths watch; `watch` with a name in the path is a plain get.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from controller.sandbox.cluster.errors import ApiError, NoSuchPath, no_such_resource, not_allowed
from controller.sandbox.cluster.resources import BY_NAME, GROUP_VERSIONS, PODS, Resource
from controller.sandbox.wire import Request

VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
GROUPS = frozenset(group for group, _ in GROUP_VERSIONS)
DOORS = ("status", "finalize")
OF_DOOR = {"eviction": ("create",), "binding": ("create",), "finalize": ("update",)}


@dataclass(frozen=True)
class Asked:
    """`group` is None for what is no resource at all."""

    path: str
    verb: str
    group: str | None = None
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""
    rest: int = 0  # parts of the path behind the resource
    chosen: str = ""  # a single name in the field selector of a list


def flag(request: Request, name: str) -> bool:
    """As Go reads a boolean of a query: anything but a no is a yes; the Python clients write `True`."""
    value = request.first(name)
    return value.lower() not in ("false", "0") if value or name in request.query else False


def asked_of(request: Request) -> Asked:
    return _asked(request.path, request.method, flag(request, "watch"), request.first("fieldSelector"))


@lru_cache(maxsize=1024)
def _asked(path: str, method: str, watch: bool, selector: str) -> Asked:
    parts = [part for part in path.split("/") if part]
    verb = VERBS.get(method, "")
    if len(parts) < 3 or parts[0] not in ("api", "apis") or (parts[0] == "apis" and len(parts) < 4):
        return Asked(path, method.lower())
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    if rest[0] == "watch" and len(rest) > 1:
        verb, rest = "watch", rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in DOORS:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    chosen = ""
    if not name:
        if verb == "get":
            verb = "watch" if watch else "list"
        elif verb == "delete":
            verb = "deletecollection"
        if verb in ("list", "watch", "deletecollection"):
            chosen = _chosen(selector)
    sub = rest[2] if len(rest) > 2 else ""
    return Asked(path, verb, group, version, namespace, rest[0], name, sub, len(rest) - 1, chosen)


def _chosen(selector: str) -> str:
    for part in selector.split(","):
        name, found, value = part.partition("=")
        if name == "metadata.name" and found and not value.startswith("!"):
            return value.removeprefix("=")
    return ""


@lru_cache(maxsize=1024)
def resource_of(asked: Asked, method: str) -> Resource:
    """The resource that a path names; refused where the path or the method leads nowhere."""
    if asked.group is None:
        parts = asked.path.strip("/").split("/")
        known = parts[0] == "api" or (parts[0] == "apis" and len(parts) > 1 and parts[1] in GROUPS)
        raise no_such_resource() if known else NoSuchPath()
    if asked.group not in GROUPS:
        raise NoSuchPath
    resource = BY_NAME.get((asked.group, asked.plural))
    if asked.group == "" and asked.plural == "bindings" and asked.namespace:
        if method != "POST" or asked.name:
            raise not_allowed() if not asked.name else no_such_resource()
        return PODS
    if resource is None or resource.version != asked.version or asked.rest > 2:
        raise no_such_resource()
    if asked.subresource and asked.subresource not in resource.subresources:
        raise no_such_resource()
    spaced = bool(asked.namespace) and asked.plural != "namespaces"
    if resource.namespaced != spaced and (asked.name or spaced):
        raise no_such_resource()
    _check_method(resource, asked, method, spaced=spaced)
    return resource


def _check_method(resource: Resource, asked: Asked, method: str, *, spaced: bool) -> None:
    refused: ApiError = not_allowed()
    if asked.verb not in ("create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"):
        raise refused
    if asked.verb == "watch" and method != "GET":
        raise refused
    if asked.subresource:
        allowed = OF_DOOR.get(asked.subresource, ("get", "update", "patch"))
        if asked.verb not in allowed:
            raise refused
        return
    if asked.name:
        if (
            asked.verb not in (*resource.verbs, "get")
            or asked.verb == "create"
            or "get" not in resource.verbs
        ):
            raise refused
        return
    if asked.verb not in resource.verbs or asked.verb in ("update", "patch"):
        raise refused
    if resource.namespaced and not spaced and asked.verb not in ("list", "watch"):
        raise refused
