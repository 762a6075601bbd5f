"""How the sandbox cloud answers: refusals with `{code, message}`, ids as bare text, lists and pages.

The quirks: an error is not in the OAuth shape even on the token endpoint, the id of a new thing is a
body of exactly 36 characters and no JSON, and paging lives in headers only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.sandbox.cloud.settings import Settings
from controller.sandbox.wire import Request, Response

CODES: Mapping[int, str] = {
    400: "invalid_request",
    401: "unauthorized_request",
    402: "insufficient_funds",
    403: "forbidden_action",
    404: "not_found",
    409: "conflict",
    429: "rate_limit_exceeded",
    500: "server_error",
    503: "service_unavailable",
}
LARGEST_PAGE = 100
ID_BODIES: Mapping[str, str] = {
    "plain": "{id}",
    "quoted": '"{id}"',
    "newline": "{id}\n",
    "spaces": "  {id} \r\n",
    "object": '{{"id":"{id}"}}',
    "empty": "",
}


class Refusal(Exception):
    """An answer of the API that is a no; not a fault of the program."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})

    def response(self, *, as_list: bool = False) -> Response:
        message: Any = [self.message] if as_list and self.status == 400 else self.message
        return Response.of_json(self.status, {"code": CODES[self.status], "message": message}, self.headers)


def invalid(message: str) -> Refusal:
    return Refusal(400, message)


def unknown_path(settings: Settings) -> Refusal:
    """What an API token meets off the documented paths."""
    if settings.unknown_path_status == 403:
        return Refusal(403, "Insufficient scope")
    return Refusal(404, "Resource not found")


def id_answer(status: int, new_id: str, settings: Settings) -> Response:
    """A new id: plain text as observed, or in the ways that clients stumble over."""
    body = ID_BODIES[settings.id_body].format(id=new_id)
    json_like = settings.id_body in ("quoted", "object")
    kind = "application/json" if json_like else f"{settings.id_content_type}; charset=utf-8"
    return Response(status, body.encode(), {"Content-Type": kind})


def json_object(request: Request) -> dict[str, Any]:
    """The body, which must be a JSON object; an empty one is an empty object."""
    try:
        value = request.json()
    except (ValueError, RecursionError):
        raise invalid("Request body is not valid JSON") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid("Request body must be an object")
    return value


def list_answer(rows: Sequence[Any], settings: Settings) -> Response:
    """A list that is not paged; a careful client refuses one that says it is not whole."""
    extra = settings.list_total_extra
    return Response.of_json(200, rows, {} if extra is None else {"X-Total-Count": str(len(rows) + extra)})


def page_answer(request: Request, rows: Sequence[Any], settings: Settings, *, smallest: int = 1) -> Response:
    """One page as a bare array; how many there are in all stands in the headers."""
    page = _positive(request, "page", 1)
    size = min(_positive(request, "pageSize", 10), LARGEST_PAGE)
    if size < smallest:
        raise invalid(f"pageSize must be between {smallest} and {LARGEST_PAGE}")
    total = len(rows) + (settings.list_total_extra or 0)
    headers = {"X-Page": str(page), "X-Page-Size": str(size), "X-Total-Count": str(total)}
    return Response.of_json(200, list(rows[(page - 1) * size : page * size]), headers)


def _positive(request: Request, name: str, default: int) -> int:
    text = request.first(name)
    if not text:
        return default
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise invalid(f"{name} must be a positive integer")
    return int(text)


def id_list(value: Any, name: str) -> list[str]:
    """One id or several, as the API takes them in many places."""
    if isinstance(value, str) and value:
        return [value]
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return list(dict.fromkeys(value))
    raise invalid(f"{name} must be an id or an array of ids")


def money_number(amount: Any) -> float:
    return round(float(amount), 4)
