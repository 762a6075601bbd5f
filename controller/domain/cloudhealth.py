"""How the way to the cloud is, as far as it is known without asking anybody."""

from __future__ import annotations

import msgspec

# Closed: calls are sent. Open: the API is away and left alone for a while. Half open: one call tries it.
BREAKER_STATES = ("closed", "open", "half_open")


class CloudHealth(msgspec.Struct, frozen=True, kw_only=True):
    breaker: str = "closed"
    since: float = 0.0  # when it came into this state; 0: it was never in another
    message: str = ""  # why it is not closed
    waiting: int = 0  # calls that wait for their turn
    logins: int = 0  # how often the credentials became others
    calls_left: int | None = None  # of the project's limit, now; None: there is none, as far as is known
