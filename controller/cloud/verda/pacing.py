"""Turns: every call waits for its own before it is sent, so that the API never has to say 429. Pure.

The contract's numbers are where the buckets begin; the headers of each answer and every 429 correct them.
An API that limits says so in each authenticated answer; one that never does has no limits (a test server,
an older version), and is believed until its first 429. Where several wait, removals go before purchases,
and purchases before reads, the one call that sees all machines before those that see one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum

import msgspec

from controller.cloud.verda.buckets import Bucket
from controller.cloud.verda.limits import standings
from controller.cloud.verda.waits import LONGEST_WAIT_S

PROJECT_LIMIT, ENDPOINT_LIMIT, LIST_LIMIT = 500, 60, 120
LISTS = (("GET", "/instances"), ("GET", "/volumes"))
# Taken without a token, so its answers say nothing about limits.
PUBLIC = (("GET", "/instance-types"),)
UNTOLD_WAIT_S = 10.0  # after a 429 that does not say how long
_MOST_ENDPOINTS = 500  # paths with ids in them come and go

Endpoint = tuple[str, str]  # method and full path, without the query


class Urgency(IntEnum):
    REMOVE = 0
    CREATE = 1
    LIST = 2
    LOOK = 3  # one thing, by its id

    @property
    def reads(self) -> bool:
        return self >= Urgency.LIST


class Ticket(msgspec.Struct, eq=False, frozen=True):
    """A call in the line."""

    endpoint: Endpoint
    urgency: Urgency
    number: int

    @property
    def rank(self) -> tuple[int, int]:
        return (self.urgency, self.number)


class Pace:
    def __init__(self) -> None:
        self.project = Bucket(PROJECT_LIMIT)
        self._endpoints: dict[Endpoint, Bucket] = {}
        self._line: list[Ticket] = []
        self._count = 0
        self._limits = True  # whether the API has any, as far as it is known
        self._proven = False

    @property
    def waiting(self) -> int:
        return len(self._line)

    def left(self, now: float) -> int | None:
        """Calls that the project has left now; None: there is no limit."""
        return max(0, self.project.free(now)) if self._limits else None

    def join(self, method: str, path: str, urgency: Urgency) -> Ticket:
        self._count += 1
        ticket = Ticket((method, path), urgency, self._count)
        self._line.append(ticket)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        self._line.remove(ticket)

    def wait(self, ticket: Ticket, now: float) -> float:
        """Seconds until it may be sent, 0: now. Ask again after that time: headers may have said more."""
        bucket = self._bucket(ticket.endpoint, now)
        if not self._limits:
            return max(0.0, bucket.shut_until - now, self.project.shut_until - now)
        ahead = [other for other in self._line if other.rank < ticket.rank]
        place, in_all = self._places(ahead, ticket, now)
        if not ticket.urgency.reads:
            return max(bucket.wait(now, place), self.project.wait(now, in_all))
        reads, all_reads = self._places([other for other in ahead if other.urgency.reads], ticket, now)
        return max(
            bucket.wait_for_read(now, place, reads), self.project.wait_for_read(now, in_all, all_reads)
        )

    def _places(self, ahead: list[Ticket], ticket: Ticket, now: float) -> tuple[int, int]:
        """The place in the line of its own path, and in that of the project.

        Whoever waits for a token of another path does not stand in the way of ours.
        """
        counts = Counter(other.endpoint for other in ahead)
        able = (min(count, max(0, self._bucket(e, now).free(now))) for e, count in counts.items())
        return 1 + counts[ticket.endpoint], 1 + sum(able)

    def begin(self, ticket: Ticket, now: float) -> None:
        """It is sent now."""
        self._line.remove(ticket)
        for bucket in (self.project, self._bucket(ticket.endpoint, now)):
            bucket.take(now, reads=ticket.urgency.reads)

    def end(self, ticket: Ticket, now: float) -> None:
        """It was answered, or given up."""
        for bucket in (self.project, self._bucket(ticket.endpoint, now)):
            bucket.give_back(now)

    def learn(self, ticket: Ticket, status: int, headers: Mapping[str, str], now: float) -> None:
        """What an answer says about the limits, beside what it was asked for."""
        found = standings(headers)
        if found or status == 429:
            self._limits = self._proven = True
        elif not self._proven and 200 <= status < 300 and ticket.endpoint not in PUBLIC:
            self._limits = False
        for name, bucket in (("project", self.project), ("endpoint", self._bucket(ticket.endpoint, now))):
            if name in found:
                bucket.correct(found[name], now)

    def shut(self, ticket: Ticket, wait: float | None, headers: Mapping[str, str], now: float) -> None:
        """A 429: nothing more is sent to the window that is used up, or, if it is not named, to any."""
        until = now + min(LONGEST_WAIT_S, UNTOLD_WAIT_S if wait is None else wait)
        used_up = [name for name, standing in standings(headers).items() if standing.left == 0]
        bucket = self._bucket(ticket.endpoint, now) if used_up == ["endpoint"] else self.project
        bucket.shut_until = max(bucket.shut_until, until)

    def _bucket(self, endpoint: Endpoint, now: float) -> Bucket:
        bucket = self._endpoints.get(endpoint)
        if bucket is None:
            if len(self._endpoints) >= _MOST_ENDPOINTS:
                self._endpoints = {e: b for e, b in self._endpoints.items() if not b.unused(now)}
            bucket = Bucket(LIST_LIMIT if endpoint in LISTS else ENDPOINT_LIMIT)
            self._endpoints[endpoint] = bucket
        return bucket
