"""How long an answer asks to be left in peace: its Retry-After, as seconds from now. Pure.

It is a number, or a date by the clock of whoever answers. That clock stands in the answer too, and ours may
differ from it by more than the wait, so the one is measured by the other.
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

from controller.cloud.verda.wire import Answer

LONGEST_WAIT_S = 3600.0  # a longer one is an accident, and there are machines to buy and to remove


def retry_after(answer: Answer, now: float) -> float | None:
    """Seconds to wait, an hour at most. `now` is for an answer that does not say when it was given."""
    text = answer.header("Retry-After").strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", text):
        return min(LONGEST_WAIT_S, float(text))
    until = _epoch(text)
    if until is None:
        return None
    given = _epoch(answer.header("Date"))
    return min(LONGEST_WAIT_S, max(0.0, until - (now if given is None else given)))


def _epoch(text: str) -> float | None:
    """Of an HTTP date; None if it is none."""
    try:
        moment = parsedate_to_datetime(text.strip())
    except (ValueError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
