"""The one module that imports the `verda` SDK: a session that turns any call into an `Answer`.

The SDK knows the API's paths, headers and token protocol, and its path check keeps an id from walking
to another endpoint. What it does not do is added by overriding three of its (partly private) members,
for which its minor version is pinned: its constructor and its two token calls go to the network without
a time-out or a lock, every request opens a new connection, statuses and headers are dropped, a body
that is no JSON becomes a decoding error, and a 401 is final although tokens end early.
Import it late: it is only needed for the first call.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace
from verda._version import __version__ as sdk_version
from verda.authentication import AuthenticationService
from verda.authentication._authentication import CLIENT_CREDENTIALS, REFRESH_TOKEN, TOKEN_ENDPOINT
from verda.http_client import HTTPClient

from controller.cloud.verda.connections import Connections
from controller.cloud.verda.waits import retry_after
from controller.cloud.verda.wire import Answer, Trouble
from controller.domain.reason import Reason

MARGIN_S = 60.0  # a token is replaced this long before it ends
_FORMER = 8  # tokens that were good before are not told either
LONGEST_BY_CHANCE = 3  # characters of a secret that is taken out only where it stands alone
WHERE_CREDENTIALS_ARE = (
    "check VERDA_CLIENT_ID and VERDA_CLIENT_SECRET, or create new ones in the Verda console"
    " (project, Keys, Cloud API Credentials)"
)


class Session:
    """Calls of one Verda project. Thread-safe; nothing goes to the network before the first call."""

    def __init__(
        self,
        *,
        client_id: str,
        client_secret: str,
        base_url: str,
        connect_timeout: float = 5,
        read_timeout: float = 30,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        base = base_url.strip().rstrip("/")
        self._connections = Connections(connect_timeout, read_timeout, monotonic=monotonic)
        self._tokens = _Tokens(client_id, client_secret, base, self._connections, monotonic)
        self._http = _Http(self._tokens, base, self._connections)

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        path_params: Mapping[str, str] | None = None,
        not_after: float | None = None,
    ) -> Answer:
        """Whatever the API answered; `Trouble` if nothing did. After `not_after` (monotonic) nothing is sent."""
        try:
            answer: Answer = self._http._request(
                method, path, json=json, params=params, path_params=path_params, not_after=not_after
            )
        except Trouble as trouble:
            raise _again(trouble, f"{method} {path}: {trouble.message}") from None
        return answer

    def close(self) -> None:
        self._connections.close()


def _masked(secret: str) -> str:
    """A pattern for it. One of a letter or three is in many a word by chance, where a mask would spell it."""
    if len(secret) > LONGEST_BY_CHANCE:
        return re.escape(secret)
    return rf"(?<![a-zA-Z0-9]){re.escape(secret)}(?![a-zA-Z0-9])"


def _again(trouble: Trouble, message: str) -> Trouble:
    return Trouble(trouble.kind, message, trouble.reason, trouble.retry_after, shows=trouble.shows)


class _Http(HTTPClient):  # type: ignore[misc]
    def __init__(self, tokens: _Tokens, base_url: str, connections: Connections) -> None:
        # Not the SDK's own: that one authenticates over the network.
        self._version = sdk_version
        self._base_url = base_url
        self._auth_service = tokens
        self._connections = connections

    def _request(
        self,
        method: str,
        url: str,
        json: Any = None,
        params: Mapping[str, str] | None = None,
        path_params: Mapping[str, str] | None = None,
        not_after: float | None = None,
    ) -> Answer:
        try:
            target = self._add_base_url(self._build_path(url, dict(path_params or {})))
        except ValueError as error:  # a value that could walk to another endpoint
            raise Trouble("not_sent", str(error), Reason.BAD_REQUEST) from None
        token = self._auth_service.current()
        answer = self._send(method, target, token, json, params, not_after)
        if answer.status != 401:
            return answer
        # Refused, so nothing happened: safe to repeat, once, even for what costs money.
        return self._send(method, target, self._auth_service.replace(token), json, params, not_after)

    def _send(
        self,
        method: str,
        target: str,
        token: str,
        json: Any,
        params: Mapping[str, str] | None,
        not_after: float | None,
    ) -> Answer:
        headers = {
            "Authorization": f"Bearer {token}",
            "User-Agent": self._generate_user_agent(),
            "Content-Type": "application/json",
        }
        answer = self._connections.send(
            method, target, headers=headers, params=params, json=json, not_after=not_after
        )
        return replace(answer, hide=self._auth_service.without_secrets(token))


class _Tokens(AuthenticationService):  # type: ignore[misc]
    """The access token, renewed by one thread while the others wait for what it gets."""

    def __init__(
        self,
        client_id: str,
        client_secret: str,
        base_url: str,
        connections: Connections,
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(client_id, client_secret, base_url)
        self._connections = connections
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._held = ("", 0.0)  # token and the moment from which it is no longer used
        self._refresh_token = ""
        self._former: deque[str] = deque(maxlen=_FORMER)
        self._rounds = 0
        self._trouble: Trouble | None = None

    def current(self) -> str:
        """A token that is good for a while."""
        token, until = self._held
        return token if token and self._monotonic() < until else self._renew(token, self.refresh)

    def replace(self, refused: str) -> str:
        """Another token than this one, which the API no longer takes."""
        return self._renew(refused, self.authenticate)

    def without_secrets(self, token: str) -> Callable[[str], str]:
        """For words that are shown to people: what was sent with this token, taken out."""
        secrets = {token, self._refresh_token, self._client_secret, *self._former} - {""}

        def hide(words: str) -> str:
            # The longest first: one that begins like another must not leave its tail behind.
            found = "|".join(_masked(secret) for secret in sorted(secrets, key=len, reverse=True))
            return re.sub(found, "***", words)

        return hide

    def is_expired(self) -> bool:
        return self._monotonic() >= self._held[1]

    def _renew(self, stale: str, renew: Callable[[], dict[str, Any]]) -> str:
        seen = self._rounds
        with self._lock:
            if self._rounds != seen and self._trouble is not None:
                # The one before us failed just now; all the others would only queue up.
                raise _again(self._trouble, self._trouble.message)
            if self._held[0] == stale or self.is_expired():
                try:
                    renew()
                    self._trouble = None
                except Trouble as trouble:
                    self._trouble = trouble
                    raise
                finally:
                    self._rounds += 1
            return self._held[0]

    def authenticate(self) -> dict[str, Any]:
        if not self._client_id or not self._client_secret:
            raise Trouble("not_sent", f"no Verda credentials: {WHERE_CREDENTIALS_ARE}", Reason.UNAUTHORISED)
        answer = self._ask(
            grant_type=CLIENT_CREDENTIALS, client_id=self._client_id, client_secret=self._client_secret
        )
        if answer.status in (400, 401, 403):
            message = f"Verda refused the credentials ({answer.status}): {WHERE_CREDENTIALS_ARE}"
            raise Trouble("not_sent", message, Reason.UNAUTHORISED)
        if answer.status != 200:
            limited = answer.status == 429
            raise Trouble(
                "not_sent",
                f"no access token: the token call was answered with {answer.status}",
                Reason.RATE_LIMITED if limited else Reason.UNAVAILABLE,
                retry_after(answer, time.time()),
                shows="call" if limited else "away",
            )
        return self._keep(answer)

    def refresh(self) -> dict[str, Any]:
        if not self._refresh_token:
            return self.authenticate()
        answer = self._ask(grant_type=REFRESH_TOKEN, refresh_token=self._refresh_token)
        # How long a refresh token lives is not published; any refusal means to begin anew.
        return self._keep(answer) if answer.status == 200 else self.authenticate()

    def _ask(self, **payload: str) -> Answer:
        try:
            return self._connections.send(
                "POST", self._base_url + TOKEN_ENDPOINT, headers=self._generate_headers(), json=payload
            )
        except Trouble as trouble:
            raise Trouble("not_sent", f"no access token: {trouble.message}", shows="away") from None

    def _keep(self, answer: Answer) -> dict[str, Any]:
        try:
            data = answer.json()
            token, lasts = str(data["access_token"]), float(data["expires_in"])
            if not math.isfinite(lasts):  # "nan" would be over at every moment
                raise ValueError("expires_in is no number of seconds")
        except (ValueError, KeyError, TypeError, OverflowError):
            raise Trouble(
                "not_sent", "no access token: the answer of the token call cannot be read", shows="away"
            ) from None
        self._former.extend((self._held[0], self._refresh_token))
        self._refresh_token = str(data.get("refresh_token") or "")
        self._held = (token, self._monotonic() + lasts - min(MARGIN_S, lasts / 2))
        return dict(data)
