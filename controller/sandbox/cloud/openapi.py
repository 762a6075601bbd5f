"""The OpenAPI 3.1 description of what the sandbox cloud serves, made from the tables it serves by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from controller.sandbox.cloud.api import PROTECTED, PUBLIC
from controller.sandbox.cloud.control import CONTROLS
from controller.sandbox.cloud.given import GIVEN
from controller.sandbox.cloud.limits import TEXT_BODY
from controller.sandbox.cloud.own_schemas import OWN
from controller.sandbox.cloud.routes import ERROR, JSON, PLAIN, Content, Route
from controller.sandbox.cloud.schemas import COMPONENTS, TEXT, ref

WORDS: Mapping[int, str] = {
    200: "What was asked for",
    201: "Made",
    202: "Accepted",
    204: "It was so already, or there is nothing to tell",
    207: "Some were refused",
    400: "Something in the request is not right, a quota is used up, or the resource does not allow it",
    401: "The token is missing, stale or wrong; or the credentials are",
    402: "Too little money",
    403: "Not allowed in this state, or to this token",
    404: "There is no such thing",
    409: "It is so already",
    429: f"Too many requests; the body may be no JSON but {len(TEXT_BODY)} bytes of text",
    503: "Nothing like that is free there now",
}
LIMITS: Mapping[str, Any] = {"RateLimit": {"schema": TEXT}, "RateLimit-Policy": {"schema": TEXT}}
PAGES: Mapping[str, Any] = {name: {"schema": TEXT} for name in ("X-Page", "X-Page-Size", "X-Total-Count")}


def description() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {"/oauth2/token": {"post": _token()}}
    for route in (*PUBLIC, *PROTECTED):
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    for name, control in CONTROLS.items():
        method, path = name.split(" ")
        told: dict[str, Any] = {"operationId": _id(method, f"sandbox/{path}"), "summary": control.summary}
        if method in ("PUT", "POST"):
            told["requestBody"] = {"content": {JSON: {"schema": {}}}}
        kind = PLAIN if control.answer == "Id" else JSON
        good: Content = {kind: ref(control.answer)} if control.answer else {}
        answers = {control.status: good, **dict.fromkeys(control.refusals, ERROR)}
        told |= {"tags": ["sandbox"], "security": [], "responses": _responses(answers, limited=False)}
        paths.setdefault(f"/_sandbox/{path}", {})[method.lower()] = told
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sandbox cloud",
            "version": "v1",
            "summary": "What the emulator of Verda's API serves, in every state of its knobs",
            "description": "Fields and values may be added at any time; clients ignore what they do not know.",
        },
        "servers": [{"url": "/v1"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {**COMPONENTS, **GIVEN, **OWN},
        },
    }


def _token() -> dict[str, Any]:
    return {
        "operationId": "post_oauth2_token",
        "summary": "An access token, for credentials or for a refresh token",
        "tags": ["oauth2"],
        "security": [],
        "requestBody": {
            "required": True,
            "content": {
                kind: {"schema": ref("TokenRequest")} for kind in (JSON, "application/x-www-form-urlencoded")
            },
        },
        "responses": _responses(
            {200: {JSON: ref("Token")}, 400: ERROR, 401: ERROR, 429: ERROR}, limited=True
        ),
    }


def _operation(route: Route) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", route.path)
    told: dict[str, Any] = {
        "operationId": _id(route.method, route.path),
        "summary": route.summary,
        "tags": [route.parts[0]],
        "parameters": [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in names]
        + [{"name": name, "in": "query", "schema": schema} for name, schema in route.query.items()],
        "responses": _responses(route.answers, limited=True, paged="page" in route.query),
    }
    if route.public:
        told["security"] = []
    if route.body is not None:
        told["requestBody"] = {"required": True, "content": {JSON: {"schema": route.body}}}
    return told


def _responses(answers: Mapping[int, Content], *, limited: bool, paged: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, content in answers.items():
        told: dict[str, Any] = {"description": WORDS[status]}
        bodies = {kind: {"schema": schema} for kind, schema in content.items() if kind}
        if bodies:
            told["content"] = bodies
        if not bodies or "" in content:
            told["x-empty-body"] = True
        if limited:
            told["headers"] = {**LIMITS, **(PAGES if paged and status == 200 else {})}
        if status == 429:
            told["headers"] = {**LIMITS, "Retry-After": {"required": True, "schema": TEXT}}
            told["x-other-body"] = TEXT_BODY.decode()
        found[str(status)] = told
    return found


def _id(method: str, path: str) -> str:
    return f"{method.lower()}_" + "_".join(re.findall(r"\w+", path)).replace("-", "_")
