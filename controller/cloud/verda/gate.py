"""What every call passes before it is sent, and tells afterwards: its turn, and whether the API is there.

A call that is held back here was not sent, and says so: `rate_limited` with the time until its turn when
that comes too late, `unavailable` while the breaker is open.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable

import msgspec

from controller.cloud.verda.bodies import error_of
from controller.cloud.verda.breaker import CLOSED, OPEN, Breaker
from controller.cloud.verda.pacing import Pace, Ticket, Urgency
from controller.cloud.verda.waits import retry_after
from controller.cloud.verda.wire import Answer, Trouble
from controller.domain.cloudhealth import CloudHealth
from controller.domain.reason import Reason

log = logging.getLogger("gpu_autoscaler.cloud")

_LONGEST_NAP = 1.0  # the line moves faster than foreseen when somebody ahead gives up
_SHORTEST_NAP = 0.001


class Passed(msgspec.Struct, frozen=True):
    """A call that may be sent now. `place` is its path without ids: what a trouble is told of."""

    pace: Pace
    ticket: Ticket
    place: str
    sent: int  # `Breaker.opened` at that time


class Gate:
    def __init__(
        self,
        where: str,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
    ) -> None:
        self.where = where
        self._clock = clock
        self._monotonic = monotonic
        self._sleep = sleep
        self._rng = rng
        self._pace = Pace()
        self._breaker = Breaker(rng)
        self._since = 0.0  # when the breaker's state changed last, on the wall clock

    def move(self, where: str) -> None:
        """The base URL is another one: nothing is known about that API."""
        self.where = where
        self._pace = Pace()
        self._breaker = Breaker(self._rng)

    def health(self) -> CloudHealth:
        breaker = self._breaker
        return CloudHealth(
            breaker=breaker.state,
            since=self._since,
            message=breaker.why if breaker.state != CLOSED else "",
            waiting=self._pace.waiting,
            calls_left=self._pace.left(self._monotonic()),
        )

    async def enter(self, method: str, path: str, place: str, urgency: Urgency, until: float) -> Passed:
        """Wait for its turn, at most until this (monotonic) moment. Raises Trouble that says "not sent"."""
        pace = self._pace
        ticket = pace.join(method, path, urgency)
        try:
            while (pause := pace.wait(ticket, self._monotonic())) > 0:
                if self._monotonic() + pause > until:
                    message = (
                        f"{method} {place}: Verda takes so many calls and no more; its turn comes too late"
                    )
                    raise Trouble("not_sent", message, Reason.RATE_LIMITED, pause)
                await self._sleep(min(_LONGEST_NAP, max(_SHORTEST_NAP, pause)))
            self._knock(method, place, urgency)
        except BaseException:
            pace.leave(ticket)
            raise
        pace.begin(ticket, self._monotonic())
        return Passed(pace, ticket, f"{method} {place}", self._breaker.opened)

    def _knock(self, method: str, place: str, urgency: Urgency) -> None:
        before = self._breaker.state
        wait = self._breaker.wait(self._monotonic(), may_probe=urgency is not Urgency.CREATE)
        self._tell(before)
        if wait > 0:
            message = f"{method} {place}: not sent, because the API is away ({self._breaker.why})"
            raise Trouble("not_sent", message, Reason.UNAVAILABLE, wait)

    def answered(self, passed: Passed, answer: Answer) -> None:
        now = self._monotonic()
        ticket, pace = passed.ticket, passed.pace
        pace.learn(ticket, answer.status, answer.headers, now)
        if answer.status == 429:
            wait = retry_after(answer, self._clock())
            pace.shut(ticket, wait, answer.headers, now)
        pace.end(ticket, now)
        before = self._breaker.state
        if answer.status >= 500 and not _is_no_capacity(passed, answer):
            self._breaker.failed(now, passed.place, f"{passed.place} answered {answer.status}", passed.sent)
        else:
            self._breaker.worked()
        self._tell(before)

    def failed(self, passed: Passed, trouble: Trouble | None) -> None:
        """No answer; without a trouble nothing is known, not even whether anybody was asked."""
        now = self._monotonic()
        passed.pace.end(passed.ticket, now)
        before = self._breaker.state
        if trouble is None or trouble.shows == "nothing":
            self._breaker.lost(now, passed.sent)
        elif trouble.reason is Reason.UNAVAILABLE:
            where = "" if trouble.shows == "away" else passed.place
            self._breaker.failed(now, where, trouble.message, passed.sent)
        else:
            self._breaker.worked()  # it refused to give a token, so it is there
            if trouble.reason is Reason.RATE_LIMITED:
                passed.pace.shut(passed.ticket, trouble.retry_after, {}, now)
        self._tell(before)

    def _tell(self, before: str) -> None:
        breaker = self._breaker
        if breaker.state == before:
            return
        self._since = self._clock()
        if breaker.state == OPEN:
            pause = breaker.until - self._monotonic()
            log.warning(
                "the cloud is away and is left alone for a while",
                extra={"url": self.where, "seconds": f"{pause:.1f}", "why": breaker.why},
            )
        elif breaker.state == CLOSED:
            log.info("the cloud answers again", extra={"url": self.where})
        else:
            log.info("the cloud is tried again", extra={"url": self.where})


def _is_no_capacity(passed: Passed, answer: Answer) -> bool:
    return passed.place == "POST /instances" and error_of(answer.text)[0] == "service_unavailable"
