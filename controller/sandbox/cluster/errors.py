"""Refusals as the API words them: every one is a Status object with a code, a reason and a message."""

from __future__ import annotations

import json
from typing import Any

from controller.sandbox.cluster.resources import Obj, Resource

Cause = tuple[str, str, str]  # field, reason, message without the field


class ApiError(Exception):
    """`details` of None is left out of the Status; refusals that name no object still show empty ones."""

    def __init__(self, code: int, reason: str, message: str, details: Obj | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.warnings: list[str] = []

    @property
    def status(self) -> Obj:
        body: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return body | {"code": self.code}


class NoSuchPath(ApiError):
    """A path of no group that is served: the answer is no Status but a line of text."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found\n")


def _details(resource: Resource, name: str, kind: str = "") -> Obj:
    found: Obj = {"name": name} if name else {}
    if resource.group:
        found["group"] = resource.group
    return found | {"kind": kind or resource.plural}


def not_found(resource: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def no_such_resource() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str, *, leaving: bool = False) -> ApiError:
    message = f'{resource.qualified} "{name}" already exists'
    if leaving:
        message = f"object is being deleted: {message}"
    return ApiError(409, "AlreadyExists", message, _details(resource, name))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: Resource, name: str, why: str = STALE, *, door: str = "") -> ApiError:
    what, kind = (
        (f"{resource.qualified}/{door}", f"{resource.plural}/{door}") if door else (resource.qualified, "")
    )
    message = f'Operation cannot be fulfilled on {what} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name, kind))


def precondition(resource: Resource, name: str, why: str) -> ApiError:
    """A precondition of a delete that does not hold; here the kind is named instead of the resource."""
    message = f'Operation cannot be fulfilled on {resource.qualified_kind} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name, resource.kind))


def invalid(resource: Resource, name: str, *causes: Cause) -> ApiError:
    """Causes are (field, reason, message), as `spec.containers`, `FieldValueRequired`, `Required value`."""
    return _invalid(resource.qualified_kind, name, _details(resource, name, resource.kind), causes)


def invalid_options(kind: str, *causes: Cause) -> ApiError:
    return _invalid(f"{kind}.meta.k8s.io", "", {"group": "meta.k8s.io", "kind": kind}, causes)


def invalid_as(kind: str, group: str, name: str, *causes: Cause) -> ApiError:
    details: Obj = ({"name": name} if name else {}) | ({"group": group} if group else {})
    if kind:
        details["kind"] = kind
    return _invalid(f"{kind}.{group}" if group else kind, name, details, causes)


def _invalid(kind: str, name: str, details: Obj, causes: tuple[Cause, ...]) -> ApiError:
    told = list(dict.fromkeys(f"{field}: {message}" for field, _, message in causes))
    text = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    found = [{"reason": reason, "message": text, "field": field} for field, reason, text in causes]
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details | {"causes": found})


def version_required(resource: Resource, name: str) -> ApiError:
    """Of kinds that may not be replaced blindly, a Lease among them."""
    why = "Invalid value: 0: must be specified for an update"
    cause = {"reason": "FieldValueInvalid", "message": why, "field": "metadata.resourceVersion"}
    message = f'{resource.qualified} "{name}" is invalid: metadata.resourceVersion: {why}'
    return ApiError(422, "Invalid", message, _details(resource, name) | {"causes": [cause]})


# ---- causes


def required(field: str, why: str = "") -> Cause:
    return field, "FieldValueRequired", f"Required value: {why}" if why else "Required value"


def wrong(field: str, value: Any, why: str) -> Cause:
    return field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {why}"


def unsupported_value(field: str, value: Any, *allowed: str) -> Cause:
    listed = ", ".join(f'"{each}"' for each in allowed)
    return field, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}"


def doubled(field: str, value: Any, why: str = "") -> Cause:
    text = f"Duplicate value: {shown(value)}"
    return field, "FieldValueDuplicate", f"{text}: {why}" if why else text


def not_allowed_there(field: str, why: str) -> Cause:
    return field, "FieldValueForbidden", f"Forbidden: {why}"


def shown(value: Any) -> str:
    """A value inside a message."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return json.dumps(value, separators=(",", ":"))


# ---- others


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def internal(message: str) -> ApiError:
    """What the server did not foresee: no reason, code 500."""
    return ApiError(500, "", message)


def forbidden(resource: Resource, name: str, why: str, causes: list[Obj] | None = None) -> ApiError:
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    details = _details(resource, name) | ({"causes": causes} if causes else {})
    return ApiError(403, "Forbidden", message, details)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def gone(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def not_allowed() -> ApiError:
    return ApiError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
    )


def not_acceptable(message: str) -> ApiError:
    return ApiError(406, "NotAcceptable", message)


ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


def unsupported_body() -> ApiError:
    text = f"the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
    return ApiError(415, "UnsupportedMediaType", text)


def unsupported_patch() -> ApiError:
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def too_many(message: str, details: Obj | None = None) -> ApiError:
    return ApiError(429, "TooManyRequests", message, details)


def too_large_version(asked: str, newest: int) -> ApiError:
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiError(
        504, "Timeout", f"Timeout: Too large resource version: {asked}, current: {newest}", details
    )


def success(details: Any = None, *, code: int = 0) -> Obj:
    body: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        body["details"] = details
    return body | ({"code": code} if code else {})
