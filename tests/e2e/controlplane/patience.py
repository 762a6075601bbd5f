"""Waiting for what must come, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable

OFTEN, FOR, SELDOM = 0.1, 2.0, 0.2  # seconds; each look costs the API server some work


def until(what: str, holds: Callable[[], object], within: float = 60.0) -> None:
    began = time.monotonic()
    while not holds():
        waited = time.monotonic() - began
        assert waited < within, f"not within {within:g} s: {what}"
        time.sleep(OFTEN if waited < FOR else SELDOM)
