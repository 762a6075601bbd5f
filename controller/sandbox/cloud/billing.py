"""The meters of one project: what every machine and disk has cost, and when the money will be used up.

Time is machine time in whole microseconds, money is `Decimal`: nothing is rounded until it is shown.
Three schemes (`billing`): by the second; by increments that are paid when they begin, with the rest of
the last one paid back at the end (which comes to the price per second); or without that refund. Sums
are kept up to date with every start and stop, so that the balance of thousands of things costs no look
at each of them.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal

from controller.sandbox.cloud.settings import KEPT, PER_SECOND

SECOND = 1_000_000
HOUR = 3600 * SECOND
HOURS_IN_MONTH = Decimal(730)


@dataclass(slots=True, eq=False)
class Meter:
    """What one thing has cost. It runs while `since` is set, and can be started again."""

    hourly: Decimal
    since: int | None = None
    paid: int = 0  # increments of the run under way
    spent: Decimal = Decimal(0)  # by runs that ended
    ran: int = 0  # the same in time
    increments: int = 0  # begun by runs that ended
    began_at: float | None = None  # real time of the first start
    ended_at: float | None = None  # real time of the last stop, while it stands still
    run: int = 0  # makes the payments of an older run void

    def lasted(self, now: int) -> int:
        return self.ran + (now - self.since if self.since is not None else 0)


@dataclass(slots=True)
class Account:
    """Money paid in and what was bought with it. `pay` has to be called at every `next_moment`."""

    credit: Decimal  # all money ever paid in
    scheme: str = PER_SECOND
    increment: int = 600 * SECOND
    running: dict[Meter, None] = field(default_factory=dict)  # in the order of their start
    closed: Decimal = Decimal(0)  # what runs that ended have cost
    rate: Decimal = Decimal(0)  # of all that run, per hour
    _offset: Decimal = Decimal(0)  # per second: the sum of hourly price × start
    _open: Decimal = Decimal(0)  # prepaid: what the runs under way have paid, in money × time
    _payments: list[tuple[int, int, Meter, int]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=itertools.count)
    _moment: tuple[int | None] | None = None  # the cached next moment
    _broke: bool = False

    def total(self, now: int) -> Decimal:
        runs = self.rate * now - self._offset if self.scheme == PER_SECOND else self._open
        return self.closed + runs / HOUR

    def balance(self, now: int) -> Decimal:
        return self.credit - self.total(now)

    def cost(self, meter: Meter, now: int) -> Decimal:
        if meter.since is None:
            return meter.spent
        span = now - meter.since if self.scheme == PER_SECOND else meter.paid * self.increment
        return meter.spent + meter.hourly * span / HOUR

    def increments(self, meter: Meter, now: int) -> int:
        """Begun so far, whether they are what is charged or not."""
        if meter.since is None:
            return meter.increments
        return meter.increments + max(meter.paid, -(-(now - meter.since) // self.increment))

    def affords(self, hourly: Decimal, now: int) -> bool:
        """Whether there is money for the first increment of something at this price."""
        return self.balance(now) >= hourly * self.increment / HOUR

    # -- what runs

    def start(self, meter: Meter, now: int) -> None:
        if meter.since is not None:
            return
        meter.since, meter.paid, meter.ended_at = now, 0, None
        meter.run += 1
        self.running[meter] = None
        self.rate += meter.hourly
        self._offset += meter.hourly * now
        self._moment = None
        if self.scheme != PER_SECOND:
            self._pay(meter, now)

    def stop(self, meter: Meter, now: int) -> None:
        if meter.since is None:
            return
        span = now - meter.since
        charged = meter.paid * self.increment if self.scheme == KEPT else span
        cost = meter.hourly * charged / HOUR
        meter.increments += max(meter.paid, -(-span // self.increment))
        self._open -= meter.hourly * meter.paid * self.increment
        self._offset -= meter.hourly * meter.since
        self.rate -= meter.hourly
        self.closed += cost
        meter.spent += cost
        meter.ran += span
        meter.since, meter.paid = None, 0
        del self.running[meter]
        if not self.running:
            self.rate = self._offset = self._open = Decimal(0)  # no dust of divisions that never end
        self._moment = None

    def stop_all(self, now: int) -> list[Meter]:
        stopped = list(self.running)
        for meter in stopped:
            self.stop(meter, now)
        self._broke = False
        return stopped

    def reprice(self, meter: Meter, hourly: Decimal, now: int) -> None:
        """Another price from now on; what it has cost so far stays."""
        runs = meter.since is not None
        self.stop(meter, now)
        meter.hourly = hourly
        if runs:
            self.start(meter, now)

    def charge(self, meter: Meter, span: int) -> None:
        """Bill time that was not metered while it passed."""
        amount = meter.hourly * span / HOUR
        meter.spent += amount
        meter.ran += span
        self.closed += amount
        self._moment = None

    def add(self, amount: Decimal) -> None:
        self.credit += amount
        self._moment = None

    def rescheme(self, scheme: str, increment: int, now: int) -> None:
        """Another way to charge: what runs ends under the old one and begins under the new one."""
        if (scheme, increment) == (self.scheme, self.increment):
            return
        stopped = self.stop_all(now)
        self.scheme, self.increment = scheme, increment
        for meter in stopped:
            self.start(meter, now)

    # -- when the money ends

    def next_moment(self, now: int) -> int | None:
        """When the next increment has to be paid, or when the balance is empty."""
        if self._moment is None:
            self._moment = (self._next(now),)
        return self._moment[0]

    def _next(self, now: int) -> int | None:
        if not self.running:
            return None
        if self._broke or self.balance(now) < 0:
            return now
        if self.scheme == PER_SECOND:
            if self.rate <= 0:
                return None
            left = (self.balance(now) * HOUR / self.rate).to_integral_value(ROUND_FLOOR)
            return now + int(left)
        while self._payments and self._is_void(self._payments[0]):
            heapq.heappop(self._payments)
        return self._payments[0][0] if self._payments else None

    def pay(self, now: int) -> bool:
        """Do what is due at a `next_moment`; false when there is no money left for it."""
        self._moment = None
        if self.scheme == PER_SECOND or self._broke or self.balance(now) < 0:
            return False
        while self._payments and self._payments[0][0] <= now:
            entry = heapq.heappop(self._payments)
            if not self._is_void(entry) and not self._pay(entry[2], entry[0]):
                return False
        return True

    def _pay(self, meter: Meter, now: int) -> bool:
        """The next increment; one that cannot be paid does not begin."""
        if meter.hourly <= 0:
            return True
        if not self.affords(meter.hourly, now):
            self._broke = True
            return False
        meter.paid += 1
        self._open += meter.hourly * self.increment
        heapq.heappush(self._payments, (now + self.increment, next(self._order), meter, meter.run))
        return True

    @staticmethod
    def _is_void(entry: tuple[int, int, Meter, int]) -> bool:
        return entry[2].since is None or entry[2].run != entry[3]


def volume_hourly(size_gb: int, gb_month: Decimal) -> Decimal:
    return gb_month * size_gb / HOURS_IN_MONTH
