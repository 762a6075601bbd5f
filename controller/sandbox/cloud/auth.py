"""Access tokens: both grants, rotation of refresh tokens, and the 401 for anything stale.

A token lives for real seconds whatever the speed of the machines, because a client keeps its own
clock. Errors are `{code, message}`, not what RFC 6749 says; bodies may be JSON or form encoded.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from controller.sandbox.cloud.answers import Refusal, json_object
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.wire import Request, Response

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
SCOPE = "cloud-api-v1"


class Tokens:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._access: dict[str, float] = {}  # token -> the moment it ends
        self._refresh: dict[str, float] = {}

    def issue(self, request: Request, settings: Settings, now: float) -> Response:
        fields = _fields(request)
        grant = fields.get("grant_type")
        if grant == "client_credentials":
            self._check_credentials(fields, settings)
        elif grant == "refresh_token":
            self._spend(fields.get("refresh_token"), now)
        else:
            raise Refusal(400, "unsupported grant type")
        return Response.of_json(200, self._new_pair(settings, now))

    def check(self, request: Request, now: float) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or self._access.get(token, 0.0) <= now:
            raise Refusal(401, "Access token is missing or invalid")

    def revoke_all(self) -> None:
        """What a rotation of credentials in the console does to everyone who holds a token."""
        self._access.clear()
        self._refresh.clear()

    def _check_credentials(self, fields: Mapping[str, Any], settings: Settings) -> None:
        client, secret = fields.get("client_id"), fields.get("client_secret")
        if not client or not secret:
            raise Refusal(400, "client_id and client_secret are required")
        if settings.credentials is not None and f"{client}:{secret}" != settings.credentials:
            raise Refusal(401, "Invalid client id or client secret")

    def _spend(self, token: Any, now: float) -> None:
        """A refresh token works once: the answer carries the next one."""
        if not token or self._refresh.pop(str(token), 0.0) <= now:
            raise Refusal(401, "Invalid refresh token")

    def _new_pair(self, settings: Settings, now: float) -> dict[str, Any]:
        self._access = {token: end for token, end in self._access.items() if end > now}
        self._refresh = {token: end for token, end in self._refresh.items() if end > now}
        access, refresh = self._text(120), self._text(64)
        self._access[access] = now + settings.token_ttl_s
        self._refresh[refresh] = now + settings.refresh_ttl_s
        return {
            "access_token": access,
            "refresh_token": refresh,
            "token_type": "Bearer",
            "expires_in": int(settings.token_ttl_s),
            "scope": SCOPE,
        }

    def _text(self, length: int) -> str:
        return "".join(self._rng.choices(ALPHABET, k=length))


def _fields(request: Request) -> Mapping[str, Any]:
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {key: values[0] for key, values in parse_qs(request.body.decode(errors="replace")).items()}
    return json_object(request)
