"""What an unsuccessful answer, or none, means: one line that says what to do, never a token or a body.

The API server explains itself in a `Status`; a proxy in front of it answers in HTML, which nobody wants
in a log. A 429 with a disruption budget in it is no overload, so the words are kept for `evict`.
"""

from __future__ import annotations

import msgspec

from controller.cluster.protocol import ClusterError

LONGEST_WORDS = 400
_KINDS = {401: "unauthorised", 403: "forbidden", 404: "not_found", 409: "conflict", 429: "unreachable"}
_ADVICE = {
    "unauthorised": "renew the credentials (kubeconfig or service account token)",
    "forbidden": "grant this right in the controller's role; `config check --cluster` lists all that are missing",
    "unreachable": "it is tried again; if it stays so, look at the API server's health",
}


class _Cause(msgspec.Struct):
    reason: str | None = None
    message: str | None = None


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None
    retryAfterSeconds: float | None = None


class Status(msgspec.Struct):
    """The API server's own account of what went wrong."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None

    @property
    def words(self) -> str:
        parts = [self.message or self.reason or ""]
        if self.details and self.details.causes:
            parts += [
                cause.message
                for cause in self.details.causes
                if cause.message and cause.message not in parts[0]
            ]
        return one_line("; ".join(part for part in parts if part))


def one_line(text: str, limit: int = LONGEST_WORDS) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def kind_of(status: int) -> str:
    """409 and the like by name; 5xx, 408 and 429 pass by themselves."""
    if status in _KINDS:
        return _KINDS[status]
    return "unreachable" if status >= 500 or status == 408 else "other"


def refused(asked: str, status: int, body: bytes, retry_after: str = "") -> ClusterError:
    """The error for an answer that is not 2xx. `asked` is the method and the path."""
    try:
        told = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        told = Status()
    kind = kind_of(status)
    words = told.words or f"HTTP status {status}"
    advice = _ADVICE.get(kind)
    seconds = told.details.retryAfterSeconds if told.details else None
    if seconds is None and retry_after.isdigit():
        seconds = float(retry_after)
    message = f"{asked}: {words}" + (f"; {advice}" if advice else "")
    return ClusterError(kind, message, status=status, words=words, retry_after=seconds)


def unreachable(asked: str, host: str, why: str) -> ClusterError:
    return ClusterError(
        "unreachable",
        f"{asked}: no answer from {host} ({one_line(why, 200)}); check the address, the network and the API server",
    )
