"""The budget of a calendar month (UTC): what is spent, and what is promised to be.

Closed machines cost what the ledger has booked. One that is there costs what it ran this month so far,
and each reserves a minimum of hours, so that a burst of orders cannot promise more than is left. A budget
stops purchases; work that runs goes on costing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal

from controller.domain.machine import Machine, Phase
from controller.domain.plan import Snapshot
from controller.domain.policy import Billing
from controller.planning.own import is_own

_HOUR = Decimal(3600)


def month_begins(now: float) -> float:
    moment = datetime.fromtimestamp(now, UTC)
    return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()


def month_ends(now: float) -> float:
    moment = datetime.fromtimestamp(now, UTC)
    year, month = (moment.year + 1, 1) if moment.month == 12 else (moment.year, moment.month + 1)
    return datetime(year, month, 1, tzinfo=UTC).timestamp()


def reserved(price: Decimal, billing: Billing) -> Decimal:
    """What a machine that is ordered now costs at least."""
    least = Decimal(billing.reserve_hours) * price
    return least if billing.refund_unused else max(least, price * Decimal(str(billing.increment)) / _HOUR)


def spent(snapshot: Snapshot) -> Decimal:
    """Of this month, until now."""
    every = (*snapshot.machines, *snapshot.surplus)
    machines = (m for m in every if m.phase is not Phase.TOMBSTONE and not is_own(m))
    return snapshot.spent_this_month + sum((_so_far(snapshot, m) for m in machines), Decimal(0))


def committed(snapshot: Snapshot, machines: Iterable[Machine] | None = None) -> Decimal:
    """Of this month, with what the machines that are there will cost at least."""
    known = (*(snapshot.machines if machines is None else machines), *snapshot.surplus)
    return snapshot.spent_this_month + sum(
        (
            _so_far(snapshot, m) + (Decimal(0) if m.gone_at else _to_come(snapshot, m))
            for m in known
            if m.phase is not Phase.TOMBSTONE and not is_own(m)
        ),
        Decimal(0),
    )


def exhausted(snapshot: Snapshot) -> bool:
    """Whether the month's budget is used up by what was spent already."""
    most = snapshot.policy.limits.price_per_month
    return most is not None and spent(snapshot) >= most


def drains_idle(snapshot: Snapshot) -> bool:
    """Whether idle machines go at once, because the settings say so of an exhausted budget."""
    return snapshot.policy.billing.drain_idle and exhausted(snapshot)


def _began(machine: Machine) -> float:
    # As the ledger books it: with a lost answer the moment of the order itself is not known.
    return machine.intended_at or machine.ordered_at


def _ran(snapshot: Snapshot, machine: Machine) -> float:
    """Seconds since the order, as they are billed."""
    seconds = max(0.0, (machine.gone_at or snapshot.now) - _began(machine)) if _began(machine) else 0.0
    billing = snapshot.policy.billing
    if billing.refund_unused or not billing.increment:
        return seconds
    return max(1.0, -(-seconds // billing.increment)) * billing.increment


def _so_far(snapshot: Snapshot, machine: Machine) -> Decimal:
    if not machine.ordered_at:
        return Decimal(0)
    before = max(0.0, month_begins(snapshot.now) - _began(machine)) if _began(machine) else 0.0
    return machine.price * Decimal(str(max(0.0, _ran(snapshot, machine) - before))) / _HOUR


def _to_come(snapshot: Snapshot, machine: Machine) -> Decimal:
    """The rest of its minimum; all of it while the order is only intended."""
    least = reserved(machine.price, snapshot.policy.billing)
    if not machine.ordered_at:
        return least
    ran = machine.price * Decimal(str(_ran(snapshot, machine))) / _HOUR
    return max(Decimal(0), least - ran)
