"""What a sweep found, for people and for scripts: what, why it is ours, what it costs, what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any

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
    return {
        "cluster_id": wanted or None,
        "cluster": state,
        "applied": applied,
        "orphans": [_row(each, done.get((each.kind, each.id))) for each in orphans],
        "left_alone": [_row(each) for each in found if not each.removes],
        "price_per_hour": money(_sum(each.price_per_hour for each in orphans)),
        "cost_so_far": money(_sum(each.cost_so_far for each in orphans)),
        "currency": currency,
        "warnings": list(warnings),
    }


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))


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
        hourly = _sum(each.price_per_hour for each in orphans)
        lines += [
            f"cluster id {cluster_id}: {len(orphans)} to remove, "
            f"{in_words(hourly)} {currency} an hour, {in_words(_sum(e.cost_so_far for e in orphans))} so far"
        ]
        for each in orphans:
            lines += _about(
                each, currency, "removed" if applied else "would be", done.get((each.kind, each.id))
            )
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


def _about(found: Found, currency: str, verb: str, result: Result | None) -> list[str]:
    lines = [f"  {_named(found)}: {found.what}", f"    ours by its {'; '.join(found.marks)}"]
    if found.price_per_hour:
        lines.append(
            f"    costs {in_words(found.price_per_hour)} {currency} an hour, at most "
            f"{in_words(found.cost_so_far)} so far"
        )
    if result is None:
        lines.append(f"    {verb} {found.why}")
    elif result.gone:
        lines.append("    removed, and proven gone")
    else:
        lines.append(f"    not removed: {result.message or 'it is still there'}")
    return lines
