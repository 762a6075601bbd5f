"""The calls that switch machines, as values: what is sent, and what an answer means. Nothing here opens a socket.

A status of 2xx acknowledges; no body is looked at, because every power server writes its own. A 4xx had no effect.
Whatever else comes may have had one: a 5xx that was sent after the relay had closed, a redirect after the deed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping

import msgspec

from controller.domain.outcome import Happened, Outcome, Refused, Unknown
from controller.domain.reason import Reason

_PLACEHOLDER = re.compile(r"\$\{([a-z]+)\}")
# 4xx that may come after the deed: the answer was late, or a call with the same key is still at work.
_MAYBE = (408, 409, 425)
_BETWEEN = (408, 502, 503, 504)  # of a proxy: nobody behind it has answered
_UNAUTHORISED = (401, 403, 407)
_LONGEST_PAUSE = 300.0


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How endpoints are called; credentials are not in here."""

    method: str = "POST"
    headers: Mapping[str, str] = {}
    body: str = "{}"
    content_type: str = "application/json"
    success: tuple[tuple[int, int], ...] = ((200, 299),)
    idempotency_header: str = "Idempotency-Key"
    timeout: float = 10.0
    username: str = ""  # of basic authentication
    key_header: str = ""  # that carries a key of its own
    signature_header: str = "X-Signature-256"
    algorithm: str = "sha256"
    timestamp_header: str = ""
    server_name: str = ""
    field: str = ""  # of the status answer
    means_on: tuple[str, ...] = ()
    means_off: tuple[str, ...] = ()


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One machine's endpoints."""

    name: str
    gpus: int
    on: str
    off: str
    status: str = ""
    way: Way = Way()


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials, as read right before the call. Never shown."""

    bearer: str = ""
    password: str = ""
    key: str = ""
    signing: str = ""

    def __repr__(self) -> str:
        return "Keys(***)"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"Request({self.method} ***)"


def to_switch(target: Target, on: bool, key: str, keys: Keys, now: float) -> Request:
    way = target.way
    values = {
        "machine": target.name,
        "action": "on" if on else "off",
        "gpus": str(target.gpus),
        "id": key,
    }
    body = _filled(way.body, values).encode() if way.method != "GET" else b""
    headers = {name: _filled(text, values) for name, text in way.headers.items()}
    if body:
        headers["Content-Type"] = way.content_type
    headers[way.idempotency_header] = key
    return Request(
        method=way.method,
        url=target.on if on else target.off,
        headers=headers | _proofs(way, keys, body, now),
        body=body,
    )


def to_ask(target: Target, keys: Keys, now: float) -> Request:
    return Request(
        method="GET",
        url=target.status,
        # Without the second one the library offers to unpack what it is not to unpack, and servers pack their answers.
        headers={"Accept": "application/json, text/plain", "Accept-Encoding": "identity"}
        | _proofs(target.way, keys, b"", now),
        body=b"",
    )


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def _proofs(way: Way, keys: Keys, body: bytes, now: float) -> dict[str, str]:
    found = {}
    if keys.bearer:
        found["Authorization"] = f"Bearer {keys.bearer}"
    elif way.username:
        pair = f"{way.username}:{keys.password}".encode()
        found["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    if way.key_header:
        found[way.key_header] = keys.key
    if keys.signing:
        signed = body
        if way.timestamp_header:
            stamp = str(int(now))
            found[way.timestamp_header] = stamp
            signed = f"{stamp}.".encode() + body
        digest = hmac.new(keys.signing.encode(), signed, getattr(hashlib, way.algorithm)).hexdigest()
        found[way.signature_header] = f"{way.algorithm}={digest}"
    return found


def outcome_of(way: Way, status: int, where: str, retry_after: str = "") -> Outcome:
    """What the answer to a switching call says; `where` is the host, and no more of the address."""
    if any(low <= status <= high for low, high in way.success):
        return Happened()
    words = f"{where} answered {status}"
    if status == 429:
        return Refused(Reason.RATE_LIMITED, words, seconds(retry_after))
    if 400 <= status < 500 and status not in _MAYBE:
        reason = Reason.UNAUTHORISED if status in _UNAUTHORISED else Reason.BAD_REQUEST
        return Refused(reason, words)
    # What is no error is none of the machine's either: a redirection leads to a page that asks who one is.
    return Unknown(words, answered=status >= 400 and status not in _BETWEEN)


def seconds(text: str) -> float | None:
    return min(float(text), _LONGEST_PAUSE) if text.isascii() and text.isdigit() and len(text) < 9 else None


def power_of(way: Way, body: bytes) -> str:
    """on | off, or "" for what is in neither list."""
    text = body.decode("utf-8-sig", "replace").strip()
    value: object = text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if way.field:
            return ""
    for part in way.field.split(".") if way.field else ():
        if not isinstance(value, dict) or part not in value:
            return ""
        value = value[part]
    if isinstance(value, bool):
        value = str(value).lower()
    if not isinstance(value, str | int):
        return ""
    word = _plain(str(value))
    if word in {_plain(one) for one in way.means_on}:
        return "on"
    return "off" if word in {_plain(one) for one in way.means_off} else ""


def _plain(word: str) -> str:
    return re.sub(r"[\s_-]", "", word).lower()
