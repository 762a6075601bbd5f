"""Refusals as the API words them: every one is a Status object with a code, a reason and a message."""

from __future__ import annotations

from typing import Any

from controller.sandbox.cluster.resources import Obj, Resource


class ApiError(Exception):
    def __init__(self, code: int, reason: str, message: str, details: Obj | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    @property
    def status(self) -> Obj:
        body: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body |= {"message": self.message, "reason": self.reason}
        if self.details:
            body["details"] = self.details
        return body | {"code": self.code}


def _details(resource: Resource, name: str, kind: str = "") -> Obj:
    found: Obj = {"name": name} if name else {}
    if resource.group:
        found["group"] = resource.group
    return found | {"kind": kind or resource.plural}


def not_found(resource: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: Resource, name: str) -> ApiError:
    return ApiError(
        409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', _details(resource, name)
    )


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: Resource, name: str, why: str = STALE) -> ApiError:
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name))


def invalid(resource: Resource, name: str, *causes: tuple[str, str, str]) -> ApiError:
    """Causes are (field, reason, message), as `spec.containers`, `FieldValueRequired`, `Required value`."""
    told = [f"{field}: {message}" for field, _, message in causes]
    text = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    details = _details(resource, name, resource.kind)
    details["causes"] = [
        {"reason": reason, "message": text, "field": field} for field, reason, text in causes
    ]
    return ApiError(422, "Invalid", f'{resource.kind} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _details(resource, name))


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def gone(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def not_allowed() -> ApiError:
    return ApiError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def unsupported(found: str) -> ApiError:
    return ApiError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml (got {found})",
    )


def too_many(message: str, details: Obj | None = None) -> ApiError:
    return ApiError(429, "TooManyRequests", message, details)


def success(details: Any = None) -> Obj:
    body: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return body | ({"details": details} if details else {})
