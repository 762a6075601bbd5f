"""Answers held against the description of the API: every status and every field has to be in it.

The published shapes are open, as the API's promise of compatibility wants them. Here they are closed, so
that a field that nobody described is noticed.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from controller.sandbox.cloud.openapi import description
from controller.sandbox.wire import Response

HERE = "urn:description"
Seen = tuple[str, str, int]  # method, path as described, status


def closed(schema: Any) -> Any:
    """The same schema, in which no object has properties that it does not name."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if "properties" in schema and schema.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


@cache
def document(*, strict: bool) -> dict[str, Any]:
    whole = json.loads(json.dumps(description()).replace('"#/', f'"{HERE}#/'))
    if strict:
        whole["components"]["schemas"] = closed(whole["components"]["schemas"])
        whole["paths"] = closed(whole["paths"])
    return whole


@cache
def _registry(*, strict: bool) -> Registry[Any]:
    return Registry().with_resource(HERE, Resource(document(strict=strict), DRAFT202012))


@cache
def _validator(schema: str, *, strict: bool) -> Draft202012Validator:
    return Draft202012Validator(
        json.loads(schema),
        registry=_registry(strict=strict),
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )


def complaints(value: Any, schema: Any, *, strict: bool) -> list[str]:
    found = _validator(json.dumps(schema), strict=strict).iter_errors(value)
    return [f"{error.json_path}: {error.message[:300]}" for error in found]


def operation(method: str, path: str, *, strict: bool = True) -> tuple[str, dict[str, Any]] | None:
    """The described path that this one is an instance of; words go before parameters."""
    parts = path.strip("/").split("/")
    fitting = []
    for known, methods in document(strict=strict)["paths"].items():
        wanted = known.strip("/").split("/")
        if len(wanted) == len(parts) and all(
            want.startswith("{") or want == have for want, have in zip(wanted, parts, strict=True)
        ):
            fitting.append((known.count("{"), known, methods))
    for _, known, methods in sorted(fitting, key=lambda one: one[:2]):
        if method.lower() in methods:
            return known, methods[method.lower()]
    return None


def check_answer(method: str, path: str, response: Response, *, strict: bool = True) -> Seen:
    found = operation(method, path, strict=strict)
    if found is None:
        assert response.status in (400, 401, 403, 404, 429), (method, path, response.status)
        return method, "", response.status
    known, told = found
    where = f"{method} {known}: {response.status} {response.body[:300]!r}"
    answer = told["responses"].get(str(response.status))
    assert answer is not None, f"undescribed status: {where}"
    for name, header in answer.get("headers", {}).items():
        assert name in response.headers or not header.get("required"), f"{name} is missing: {where}"
    if not response.body:
        assert answer.get("x-empty-body"), f"undescribed empty body: {where}"
    elif response.body != answer.get("x-other-body", "").encode():
        kind = response.headers["Content-Type"].partition(";")[0]
        schema = answer.get("content", {}).get(kind)
        assert schema is not None, f"undescribed media type {kind}: {where}"
        value = response.json() if kind == "application/json" else response.body.decode()
        assert complaints(value, schema["schema"], strict=strict) == [], where
    return method, known, response.status


def check_request(method: str, path: str, body: Any) -> None:
    """A request that was taken is one that the description allows. It may say more."""
    found = operation(method, path, strict=False)
    if found is not None and "requestBody" in found[1] and not isinstance(body, bytes):
        schema = found[1]["requestBody"]["content"]["application/json"]["schema"]
        assert complaints(body, schema, strict=False) == [], f"{method} {path} {body}"
