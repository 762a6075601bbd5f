"""The circuit breaker: while the whole API is away, nobody knocks, but for one probe now and then. Pure.

Only what speaks of the whole API opens it: no connection, no access token, or several paths in trouble with
no answer in between. One path that answers 500 is that path's own trouble, and a 503 that says "no capacity"
is an API in good health. What it refuses was not sent, so a purchase refused here did certainly not happen;
and a purchase is never the probe, because its answer may get lost. Pauses grow and are jittered: many
controllers that lost the API together do not come back together.
"""

from __future__ import annotations

import random
from collections import Counter

from controller.domain.cloudhealth import BREAKER_STATES

ENOUGH = 5  # failures in a row
OF_ONE_PATH = 3  # of one path no more are counted: what it says, it has said
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 30.0
PROBE_LASTS_S = 90.0  # longer than any call; a probe that was lost must not hold the others for ever

CLOSED, OPEN, HALF_OPEN = BREAKER_STATES


class Breaker:
    """One for each base URL."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.state = CLOSED
        self.until = 0.0  # when the next probe may go
        self.why = ""
        self.opened = 0  # how often: calls sent before it last opened are no probe
        self._failures: Counter[str] = Counter()  # in a row, by path; "" for the API as a whole
        self._pause = FIRST_PAUSE_S

    def wait(self, now: float, *, may_probe: bool) -> float:
        """0: the call may be sent. Otherwise the seconds until it is worth asking again."""
        if self.state == CLOSED:
            return 0.0
        if now < self.until:
            # A probe is soon answered; only the pause before it is as long as it says.
            return FIRST_PAUSE_S if self.state == HALF_OPEN else self.until - now
        if not may_probe:
            return FIRST_PAUSE_S
        self.state = HALF_OPEN
        self.until = now + PROBE_LASTS_S
        return 0.0

    def worked(self) -> None:
        """The API answered, whatever it said."""
        self._failures.clear()
        self._pause = FIRST_PAUSE_S
        self.state = CLOSED

    def failed(self, now: float, place: str, why: str, sent: int) -> None:
        """No answer, or that of a server in trouble. `place` is the path, "" for the API as a whole.

        `sent` is what `opened` was when the call was sent.
        """
        self._failures[place] += 1
        if self.state == OPEN or (self.state == HALF_OPEN and sent < self.opened):
            return  # it was sent before, and is not the probe
        counted = sum(min(n, OF_ONE_PATH) if where else n for where, n in self._failures.items())
        if self.state == HALF_OPEN or counted >= ENOUGH:
            self.why = why
            self.until = now + self._pause * self._rng.uniform(0.5, 1.0)
            self._pause = min(LONGEST_PAUSE_S, 2 * self._pause)
            self.state = OPEN
            self.opened += 1

    def lost(self, now: float, sent: int) -> None:
        """A call ended without showing anything; if it was the probe, another one may go."""
        if self.state == HALF_OPEN and sent >= self.opened:
            self.until = now
