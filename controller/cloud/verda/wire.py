"""What passes between the adapter and Verda's HTTP API: an answer, or trouble on the way to one.

Light on purpose (no SDK, no sockets), so that what decides about answers can be imported and tested
alone. The quirk dealt with here: prices come as decimal strings in one place and as JSON numbers in
another, so numbers are read as `Decimal` and never pass through binary floating point.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from controller.domain.reason import Reason

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def plain_id(text: str) -> str:
    """An id as it is compared: the same one may come in capitals here and in small letters there."""
    small = text.strip().lower()
    return small if UUID.fullmatch(small) else text


class Answer(msgspec.Struct, frozen=True):
    """Any answer with a status, good or bad. Header names are in lower case.

    An error may repeat the request that it is about. So whoever tells words of it tells what `hide` leaves of
    them, before they are cut; what is read is the text as it came, because a secret may be part of an id.
    """

    status: int
    headers: Mapping[str, str]
    text: str
    account: str = ""  # which one answered
    hide: Callable[[str], str] = str

    def header(self, name: str) -> str:
        return self.headers.get(name.lower(), "")

    def json(self) -> Any:
        """The body as JSON with exact numbers; ValueError if it is none."""
        return exact_json(self.text)


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Where the API is and who we are there. Its text never carries the secret."""

    client_id: str
    client_secret: str
    base_url: str

    @property
    def account(self) -> str:
        """Tells accounts apart, and nothing else. A secret that is replaced alone leaves the account the same; at
        another address an emulator may take any client."""
        return _mark(self.base_url, self.client_id)

    def __repr__(self) -> str:
        return f"Login(base_url={self.base_url!r})"


@lru_cache(maxsize=4)  # asked for at every call
def _mark(base_url: str, client_id: str) -> str:
    return hashlib.sha256(f"{_plain_url(base_url)}\0{client_id}".encode()).hexdigest()[:16]


def _plain_url(url: str) -> str:
    """One spelling for one address."""
    parts = urlsplit(url.strip())
    user, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=user + at + host.lower(), path=parts.path.rstrip("/")).geturl()


class Trouble(Exception):
    """No answer. `not_sent`: provably nothing left this process; `unknown`: it may have arrived.

    `shows`: whether it speaks of the API as a whole, of this call, or of nothing outside this process. The
    message is one line, safe to show: it never carries a token, a secret or a body.
    """

    def __init__(
        self,
        kind: Literal["not_sent", "unknown"],
        message: str,
        reason: Reason = Reason.UNAVAILABLE,
        retry_after: float | None = None,
        *,
        shows: Literal["away", "call", "nothing"] = "call",
    ) -> None:
        super().__init__(message)
        self.shows: Literal["away", "call", "nothing"] = shows
        self.kind: Literal["not_sent", "unknown"] = kind
        self.message = message
        self.reason = reason
        self.retry_after = retry_after


def exact_json(text: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_refuse)
    except (ArithmeticError, RecursionError) as error:  # 1e99999999999999999999, [[[[…
        raise ValueError("JSON that cannot be represented") from error


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
