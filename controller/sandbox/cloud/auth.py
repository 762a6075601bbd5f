"""Access tokens: both grants, rotation of refresh tokens, and the 401 for anything stale.

Credentials belong to a project, and so does every token. A token lives for real seconds whatever the
speed of the machines, because a client keeps its own clock. Errors are `{code, message}`, not what RFC
6749 says; bodies may be JSON or form encoded.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from controller.sandbox.cloud.answers import Refusal, json_object
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.state import FIRST_PROJECT
from controller.sandbox.wire import Request, Response

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
SCOPE = "cloud-api-v1"


class Tokens:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._access: dict[str, tuple[float, str]] = {}  # token -> when it ends, whose it is
        self._refresh: dict[str, tuple[float, str]] = {}

    def issue(self, request: Request, settings: Settings, now: float) -> Response:
        fields = _fields(request)
        grant = fields.get("grant_type")
        if grant == "client_credentials":
            project = _project_of(fields, settings)
        elif grant == "refresh_token":
            project = self._spend(fields.get("refresh_token"), settings, now)
        else:
            raise Refusal(400, "unsupported grant type")
        return Response.of_json(200, self._new_pair(project, settings, now))

    def check(self, request: Request, now: float) -> str:
        """The project of the token that a request carries."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        end, project = self._access.get(token, (0.0, ""))
        if scheme.lower() != "bearer" or end <= now:
            raise Refusal(401, "Access token is missing or invalid")
        return project

    def revoke_all(self) -> None:
        """What a rotation of credentials in the console does to everyone who holds a token."""
        self._access.clear()
        self._refresh.clear()

    def _spend(self, token: Any, settings: Settings, now: float) -> str:
        """A refresh token works once: the answer carries the next one."""
        end, project = self._refresh.pop(str(token), (0.0, ""))
        if not token or end <= now:
            raise Refusal(settings.refresh_refused_status, "Invalid refresh token")
        return project

    def _new_pair(self, project: str, settings: Settings, now: float) -> dict[str, Any]:
        if len(self._access) % 100 == 99:  # the stale ones are forgotten now and then
            self._access = {token: held for token, held in self._access.items() if held[0] > now}
            self._refresh = {token: held for token, held in self._refresh.items() if held[0] > now}
        access, refresh = self._text(120), self._text(64)
        self._access[access] = (now + settings.token_ttl_s, project)
        self._refresh[refresh] = (now + settings.refresh_ttl_s, project)
        return {
            "access_token": access,
            "refresh_token": refresh,
            "token_type": "Bearer",
            "expires_in": int(settings.token_ttl_s),
            "scope": SCOPE,
        }

    def _text(self, length: int) -> str:
        return "".join(self._rng.choices(ALPHABET, k=length))


def _project_of(fields: Mapping[str, Any], settings: Settings) -> str:
    client, secret = fields.get("client_id"), fields.get("client_secret")
    if not client or not secret:
        raise Refusal(400, "client_id and client_secret are required")
    pair = f"{client}:{secret}"
    for project, credentials in settings.projects.items():
        if credentials == pair:
            return project
        if credentials.partition(":")[0] == client:
            raise Refusal(401, "Invalid client id or client secret")
    if settings.credentials not in (None, pair):
        raise Refusal(401, "Invalid client id or client secret")
    return str(client) if settings.project_per_client and settings.credentials is None else FIRST_PROJECT


def _fields(request: Request) -> Mapping[str, Any]:
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {key: values[0] for key, values in parse_qs(request.body.decode(errors="replace")).items()}
    return json_object(request)
