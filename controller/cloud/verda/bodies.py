"""What a body holds, read by one who takes nothing for granted: an id, an error, an object. Pure.

The quirks: the id of a new thing is bare text that has been seen quoted, with a newline and inside JSON;
an error is `{code, message}` with a message that may be a list, or no JSON at all when a proxy answers.
"""

from __future__ import annotations

from typing import Any

from controller.cloud.verda.wire import UUID, exact_json


def error_of(body: str) -> tuple[str, str]:
    """Code and message of an error body; both empty if the body is not the API's own."""
    try:
        value = exact_json(body)
    except ValueError:
        return "", ""
    if not isinstance(value, dict):
        return "", ""
    return str(value.get("code") or ""), message_of(value)


def unwrapped(body: str) -> Any:
    """The JSON of a body, also where it came as a text of JSON; None if there is none."""
    value: Any = body
    for _ in range(2):
        try:
            value = exact_json(value) if isinstance(value, str) else value
        except ValueError:
            return None
    return value


def message_of(value: Any) -> str:
    message = value.get("message") if isinstance(value, dict) else value
    if isinstance(message, list):
        message = "; ".join(str(part) for part in message)
    return " ".join(str(message or "").split())


def parse_id(body: str) -> str:
    """The id in a body, however it is wrapped, or "" if there is none."""
    value: Any = body
    for _ in range(3):
        if isinstance(value, str):
            text: str = value.strip().lstrip("\ufeff").lower()
            if UUID.fullmatch(text):
                return text
            try:
                value = exact_json(text)
            except ValueError:
                return ""
        if isinstance(value, dict):
            value = value.get("id")
        elif isinstance(value, list) and len(value) == 1:
            value = value[0]
    return ""
