"""Waiting for what must come, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(what: str, holds: Callable[[], object], within: float = 60.0) -> None:
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, f"not within {within:g} s: {what}"
        time.sleep(0.1)
