"""The meter: what runs costs money for every second of machine time, disks included.

The real cloud takes money in 10-minute increments in advance and pays the rest of one back on delete,
which comes to a price per second; without the refund a begun increment is a whole one. Money is exact
(`Decimal`) inside and has four decimals outside.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

HOUR = Decimal(3600)
HOURS_IN_MONTH = Decimal(730)


def seconds(value: float) -> Decimal:
    """A duration without the dust of binary fractions, to the microsecond."""
    return Decimal(round(value * 1_000_000)) / 1_000_000


@dataclass(slots=True)
class Meter:
    """What one thing has cost. It runs while `since` is set, and can be started again."""

    hourly: Decimal
    since: float | None = None  # real time of the last settlement
    ran: Decimal = Decimal(0)  # machine seconds settled

    def start(self, now: float) -> None:
        if self.since is None:
            self.since = now

    def settle(self, now: float, speed: float) -> None:
        """Book what ran until now: before a stop, and before `speed` or the price changes."""
        if self.since is not None:
            self.ran += seconds((now - self.since) * speed)
            self.since = now

    def stop(self, now: float, speed: float) -> None:
        self.settle(now, speed)
        self.since = None

    def cost(self, now: float, speed: float, whole: Decimal | None = None) -> Decimal:
        """The cost so far; with `whole`, every begun increment of that many seconds counts whole."""
        ran = self.ran
        if self.since is not None:
            ran += seconds((now - self.since) * speed)
        if whole is not None:
            ran = (ran / whole).to_integral_value(ROUND_CEILING) * whole
        return self.hourly * ran / HOUR


def volume_hourly(size_gb: int, gb_month: Decimal) -> Decimal:
    return gb_month * size_gb / HOURS_IN_MONTH


def empty_at(balance: Decimal, meters: Iterable[Meter], now: float, speed: float) -> float | None:
    """The real moment at which the running meters will have used up the balance."""
    hourly = sum((meter.hourly for meter in meters if meter.since is not None), Decimal(0))
    if hourly <= 0:
        return None
    if balance <= 0:
        return now
    return now + float(balance / hourly * HOUR) / speed
