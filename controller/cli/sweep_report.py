"""What a sweep found, for people and for scripts: what, why it is ours, what it costs, what becomes of it.

Amounts are of the currency that the account is billed in, whatever the settings say; where the cloud does
not tell it they are left without one. Amounts of different currencies are told side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any

import msgspec

from controller.domain.money import in_words
from controller.fleet.cleanup import Result
from controller.fleet.orphans import MACHINE, SCRIPT, TRASH, Found
from controller.report.plan_json import money
from controller.report.status import iso

_WORDS = {MACHINE: "machine", TRASH: "disk", SCRIPT: "script"}


def as_json(
    found: Sequence[Found], *, wanted: str, currency: str, state: str, warnings: Sequence[str], applied: bool,
    results: Sequence[Result] = (),
) -> dict[str, Any]:  # fmt: skip
    done = {(r.found.kind, r.found.id): r for r in results}
    orphans = [each for each in found if each.removes]
    totals = _totals(orphans, currency)
    total = totals[0] if len(totals) == 1 else None
    return {
        "cluster_id": wanted or None,
        "cluster": state,
        "applied": applied,
        "orphans": [_row(each, done.get((each.kind, each.id))) for each in orphans],
        "left_alone": [_row(each) for each in found if not each.removes],
        "price_per_hour": money(total.hourly) if total else None,
        "cost_so_far": money(total.so_far) if total else None,
        "currency": (total.currency or None) if total else None,
        "totals": [
            {
                "currency": each.currency or None,
                "price_per_hour": money(each.hourly),
                "cost_so_far": money(each.so_far),
            }
            for each in totals
        ],
        "warnings": list(warnings),
    }


class _Total(msgspec.Struct, frozen=True):
    currency: str
    hourly: Decimal
    so_far: Decimal


def _totals(orphans: Sequence[Found], currency: str) -> list[_Total]:
    """By currency; what costs nothing adds to none. `currency` is for nothing at all."""
    costing = [each for each in orphans if each.price_per_hour or each.cost_so_far]
    return [
        _Total(
            one,
            sum((each.price_per_hour for each in costing if each.currency == one), Decimal(0)),
            sum((each.cost_so_far for each in costing if each.currency == one), Decimal(0)),
        )
        for one in sorted({each.currency for each in costing}) or [currency]
    ]


def _amount(amount: Decimal, currency: str) -> str:
    of = currency or "of the account's currency"
    return f"{in_words(amount)} {of}"


def _row(found: Found, result: Result | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": found.kind,
        "id": found.id,
        "name": found.name,
        "cluster_id": found.cluster_id,
        "intent": found.intent,
        "what": found.what,
        "status": found.status,
        "since": iso(found.since),
        "marks": list(found.marks),
        "ours": found.ours,
        "why": found.why,
        "price_per_hour": money(found.price_per_hour),
        "cost_so_far": money(found.cost_so_far),
        "currency": found.currency or None,
    }
    if result is not None:
        row |= {"removed": result.gone, "message": result.message}
    return row


def as_lines(
    found: Sequence[Found], *, currency: str, applied: bool, results: Sequence[Result] = ()
) -> list[str]:
    done = {(r.found.kind, r.found.id): r for r in results}
    lines: list[str] = []
    for cluster_id, group in groupby(found, key=lambda each: each.cluster_id):
        things = list(group)
        orphans = [each for each in things if each.removes]
        costs = "; ".join(
            f"{_amount(total.hourly, total.currency)} an hour, {in_words(total.so_far)} so far"
            for total in _totals(orphans, currency)
        )
        lines.append(f"cluster id {cluster_id}: {len(orphans)} to remove, {costs}")
        for each in orphans:
            lines += _about(each, "removed" if applied else "would be", done.get((each.kind, each.id)))
        left = [each for each in things if not each.removes]
        lines += [f"  left alone: {_named(each)}: {each.why}" for each in left]
    if not lines:
        lines.append("nothing with a mark of ours is there")
    if not applied and any(each.removes for each in found):
        lines.append("nothing was removed: that takes --cluster-id and --apply")
    return lines


def _named(found: Found) -> str:
    status = f", {found.status}" if found.status else ""
    return f"{_WORDS.get(found.kind, 'disk')} {found.name} ({found.id}{status})"


def _about(found: Found, verb: str, result: Result | None) -> list[str]:
    lines = [f"  {_named(found)}: {found.what}", f"    ours by its {'; '.join(found.marks)}"]
    if found.price_per_hour:
        lines.append(
            f"    costs {_amount(found.price_per_hour, found.currency)} an hour, at most "
            f"{in_words(found.cost_so_far)} so far"
        )
    if result is None:
        lines.append(f"    {verb} {found.why}")
    elif result.gone:
        lines.append("    removed, and proven gone")
    else:
        lines.append(f"    not removed: {result.message or 'it is still there'}")
    return lines
