"""The API server's door: from a path and a method to a verb on a resource.

Answers Status objects for everything it refuses. Bodies may be JSON or YAML, protobuf too
(kubectl and Go clients send it); CBOR is refused with 415, which clients take as a hint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from controller.sandbox.cluster import access, discovery, errors, protobuf
from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.errors import ApiError
from controller.sandbox.cluster.reading import Reader, flag
from controller.sandbox.cluster.resources import BY_NAME, NAMESPACES, PODS, Obj, Resource
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.store import Store
from controller.sandbox.cluster.writing import Writer, scale_of
from controller.sandbox.wire import Request, Response

log = logging.getLogger(__name__)
Evict = Callable[[str, str, Obj], Obj]


@dataclass(frozen=True)
class Target:
    """What a path names."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str) -> Target:
    parts = [part for part in path.split("/") if part]
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise errors.no_such_path()
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in NAMESPACES.subresources:
        namespace, rest = rest[1], rest[2:]
    resource = BY_NAME.get((group, rest[0])) if rest else None
    if group == "" and rest[:1] == ["bindings"] and namespace:
        return Target(PODS, namespace, "", "binding")
    if resource is None or resource.version != version or len(rest) > 3:
        raise errors.no_such_path()
    if len(rest) == 3 and rest[2] not in resource.subresources:
        raise errors.no_such_path()
    if resource.namespaced != bool(namespace) and (len(rest) > 1 or namespace):
        raise errors.no_such_path()
    return Target(resource, namespace, *rest[1:3])


def body_of(request: Request) -> Any:
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if "cbor" in kind:
        raise errors.unsupported(kind)
    if not request.body:
        return None
    if "protobuf" in kind:
        return protobuf.decode(request.body)
    try:
        if kind.endswith("yaml"):
            return yaml.safe_load(request.body)
        return msgspec.json.decode(request.body)
    except (yaml.YAMLError, msgspec.DecodeError) as problem:
        raise errors.bad_request(f"the object provided is unrecognized: {problem}") from None


class Api:
    def __init__(self, store: Store, agenda: Agenda, settings: Settings, evict: Evict) -> None:
        self.store = store
        self.settings = settings
        self.evict = evict
        self.reader = Reader(store, agenda, settings)
        self.writer = Writer(store, agenda)

    def handle(self, request: Request) -> Response:
        try:
            return self._answer(request)
        except (KeyError, TypeError, AttributeError, ValueError) as problem:
            # An object that is not shaped as its kind: the real server fails to decode it.
            log.debug("a request could not be handled", exc_info=True)
            told = errors.bad_request(f"the object provided cannot be handled: {problem!r}")
            return Response.of_json(400, told.status)
        except ApiError as problem:
            body = problem.status
            if problem.code == 410 and "continue" in problem.details:
                body["metadata"] = body.pop("details")
            # Go clients silently retry a 429 that names a time; a refused eviction names none.
            wait = problem.details.get("retryAfterSeconds")
            headers = {"Retry-After": str(wait)} if wait else {}
            return Response.of_json(problem.code, body, headers)

    def _answer(self, request: Request) -> Response:
        user = access.user_of(request, self.settings.tokens, self.settings.require_token)
        if (told := discovery.answer(request)) is not None:
            return told
        target = target_of(request.path)
        resource = target.resource
        if resource.group == "authorization.k8s.io":
            return self._review(user, resource, request)
        verb = self._verb(request, target)
        access.check(
            user,
            verb,
            resource.group,
            resource.plural,
            subresource=target.subresource,
            namespace=target.namespace,
            name=target.name,
        )
        return self._do(verb, target, request)

    @staticmethod
    def _verb(request: Request, target: Target) -> str:
        if request.method == "GET":
            if flag(request, "watch"):
                return "watch"
            return "get" if target.name else "list"
        named = {"PUT": "update", "PATCH": "patch", "DELETE": "delete"}
        if request.method == "POST" and (not target.name or target.subresource in ("eviction", "binding")):
            return "create"
        if request.method == "DELETE" and not target.name:
            return "deletecollection"
        if request.method in named and target.name and target.subresource not in ("eviction", "binding"):
            return named[request.method]
        raise errors.not_allowed()

    def _do(self, verb: str, target: Target, request: Request) -> Response:
        resource, namespace, name = target.resource, target.namespace, target.name
        if verb == "get" and target.subresource == "scale":
            return Response.of_json(200, scale_of(self.reader.need(resource, namespace, name)))
        if verb == "get":
            return self.reader.get(resource, namespace, name, request)
        if verb == "list":
            return self.reader.list_(resource, namespace, request)
        if verb == "watch":
            return self.reader.watch(resource, namespace, name, request)
        body = body_of(request)
        if verb == "create" and target.subresource == "eviction":
            if request.first("dryRun") == "All" or (body or {}).get("deleteOptions", {}).get("dryRun"):
                return Response.of_json(201, errors.success())
            return Response.of_json(201, self.evict(namespace, name, body or {}))
        if verb == "create" and target.subresource == "binding":
            return Response.of_json(201, self.writer.bind(namespace, name, body or {}))
        if verb == "create":
            return self.writer.create(resource, namespace, body, request)
        if verb == "update":
            return self.writer.update(resource, namespace, name, target.subresource, body, request)
        if verb == "patch":
            return self.writer.patch(resource, namespace, name, target.subresource, body, request)
        if verb == "delete":
            return self.writer.delete(resource, namespace, name, body, request)
        items = self.reader.select(resource, namespace, request)
        return self.writer.delete_many(resource, items, body, request)

    @staticmethod
    def _review(user: access.User, resource: Resource, request: Request) -> Response:
        if request.method != "POST":
            raise errors.not_allowed()
        body = body_of(request) or {}
        head = {"kind": resource.kind, "apiVersion": resource.api_version}
        asked = access.review if resource.kind == "SelfSubjectAccessReview" else access.rules_review
        return Response.of_json(201, head | asked(user, body))
