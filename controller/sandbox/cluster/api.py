"""The API server's door: from a request to a verb on a resource.

In the order in which the real one asks: who is it, may they, is there such a path and method, can the
answer be given as they want it; and only then what is there. Refusals are Status objects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from controller.sandbox.cluster import access, decoding, discovery, errors, reviews
from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.decoding import content_type
from controller.sandbox.cluster.doors import Doors
from controller.sandbox.cluster.errors import ApiError, NoSuchPath
from controller.sandbox.cluster.options import write_options
from controller.sandbox.cluster.patching import DIALECTS, Patcher
from controller.sandbox.cluster.paths import Asked, asked_of, resource_of
from controller.sandbox.cluster.reading import Reader
from controller.sandbox.cluster.resources import Resource, storage
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.store import Store
from controller.sandbox.cluster.views import form, warning_header
from controller.sandbox.cluster.writing import Writer
from controller.sandbox.wire import Request, Response

log = logging.getLogger(__name__)
Evict = Callable[[str, str, Request], Response]
REVIEWING = ("authorization.k8s.io", "authentication.k8s.io")


class Api:
    def __init__(self, store: Store, agenda: Agenda, settings: Settings, evict: Evict) -> None:
        self.store = store
        self.settings = settings
        self.evict = evict
        self.reader = Reader(store, agenda, settings)
        self.writer = Writer(store, agenda)
        self.patcher = Patcher(store, self.writer)
        self.doors = Doors(store, self.patcher)

    def handle(self, request: Request) -> Response:
        try:
            return self._answer(request)
        except NoSuchPath as problem:
            return Response(404, problem.message.encode(), {"Content-Type": "text/plain; charset=utf-8"})
        except ApiError as problem:
            body = problem.status
            if problem.code == 410 and "continue" in (problem.details or {}):
                body["metadata"] = body.pop("details")
            # Go clients silently retry a 429 that names a time; a refused eviction names none.
            wait = (problem.details or {}).get("retryAfterSeconds")
            headers = ({"Retry-After": str(wait)} if wait else {}) | warning_header(problem.warnings)
            return Response.of_json(problem.code, body, headers)
        except (KeyError, TypeError, AttributeError, ValueError) as problem:
            # Nothing that a client sends may end the sandbox.
            log.warning("a request could not be handled", exc_info=True)
            return Response.of_json(
                500, errors.internal(f"the request cannot be handled: {problem!r}").status
            )

    def _answer(self, request: Request) -> Response:
        user = access.user_of(access.token_of(request), self.settings.tokens, self.settings.require_token)
        asked = asked_of(request)
        access.check(user, asked)
        if asked.group is None and (told := discovery.answer(request)) is not None:
            return told
        resource = resource_of(asked, request.method)
        if request.method == "PATCH" and content_type(request) not in DIALECTS:
            raise errors.unsupported_patch()
        form(request, listing=not asked.name)
        if resource.group in REVIEWING:
            return self._review(user, resource, request)
        if asked.subresource in ("eviction", "binding", "scale") or asked.plural == "bindings":
            return self._side_door(asked, resource, request)
        return self._do(asked, resource, request)

    def _do(self, asked: Asked, resource: Resource, request: Request) -> Response:
        namespace = "" if asked.plural == "namespaces" else asked.namespace
        name = asked.name
        if asked.verb == "get":
            return self.reader.get(resource, namespace, name, request)
        if asked.verb == "list":
            return self.reader.list_(resource, namespace, request)
        if asked.verb == "watch":
            return self.reader.watch(resource, namespace, name, request)
        if asked.verb == "create":
            return self.writer.create(resource, namespace, request)
        if asked.verb == "update":
            return self.writer.update(resource, namespace, name, asked.subresource, request)
        if asked.verb == "patch":
            return self.patcher.patch(resource, namespace, name, asked.subresource, request)
        if asked.verb == "delete":
            return self.writer.delete(resource, namespace, name, request)
        items = self.reader.select(resource, namespace, request)
        return self.writer.delete_many(resource, items, request)

    def _side_door(self, asked: Asked, resource: Resource, request: Request) -> Response:
        key = (asked.namespace, asked.name)
        if asked.subresource == "eviction":
            return self.evict(asked.namespace, asked.name, request)
        if asked.subresource == "binding" or asked.plural == "bindings":
            return self.doors.bind(asked.namespace, asked.name, request)
        if asked.verb == "get":
            return self.doors.get_scale(resource, self.reader.need(resource, *key))
        if asked.verb == "update":
            return self.doors.put_scale(resource, key, request)
        return self.doors.patch_scale(resource, key, request)

    def _review(self, user: access.User, resource: Resource, request: Request) -> Response:
        options = write_options(request, "CreateOptions")
        body, _ = decoding.object_of(request, storage(resource), options)
        head = {"kind": resource.kind, "apiVersion": resource.api_version}
        return Response.of_json(201, head | reviews.answered(resource, user, body, self.settings.tokens))
