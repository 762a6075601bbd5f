"""Every row of the cases has a test that is named after it, and no test claims a row that there is not."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# Rows about demand, capacity on the way, selectors, fit, price, limits, topology and volumes; and of those about
# taking away the ones that a plan decides (the drain itself is an act, and tested with the fleet).
ROWS = {
    1: "one pod, then silence: one decision after the quiet window",
    2: "the same pod updated again and again does not extend the window",
    3: "new pods that keep arriving extend it, capped at the maximum",
    4: "gated, terminating, bound, mirror, of a DaemonSet, nominated: no demand",
    5: "not called Unschedulable yet: no demand yet",
    6: "an invalid claim on one pod: the others are still planned",
    7: "below the expendable priority cut-off: no demand",
    8: "a second pod that fits the machine on its way: no second machine",
    9: "a machine on its way that is being terminated: a new one",
    10: "registered and tainted not-ready counts; our startup taint until the deadline",
    11: "any taint on a young node of ours is a startup taint",
    12: "GPUs reported as 0 or not yet: no second machine before the deadline",
    13: "ready nodes before those on their way before new ones",
    14: "free capacity on a node that is not ours is used first",
    15: "while a purchase is in progress nothing more is bought",
    16: "the scheduler lags behind a ready node: nothing is bought again",
    17: "operators, undefined keys, bounds, values outside the pool",
    18: "the hostname of no node: never buy",
    19: "compatible pods share, incompatible pods split",
    20: "preferences give way, PreferNoSchedule last",
    21: "the product label chooses the type; the first real node verifies it",
    22: "a CPU pod that tolerates GPU nodes buys none unless a pool says so",
    23: "limits are the requests; zero quantities are fine",
    24: "bigger than any type: unschedulable, and says so; sidecars and init containers",
    25: "pod-level resources, overhead, host ports, ephemeral storage, hugepages",
    26: "daemon overhead for each candidate type",
    27: "two kinds of accelerator at once: none",
    28: "many small pods: still the smallest set",
    29: "cheapest among locations and markets",
    30: "a GPU limit is never exceeded; partial where it would be",
    31: "limits on machines, cores and memory; those that are not ours count cluster-wide",
    32: "no capacity: the next offer at once; every offer refused: one clear event",
    33: "a provider that fails in the middle: the rest goes on",
    34: "a set that cannot be completed: nothing",
    35: "zone and hostname spread, ScheduleAnyway, minDomains",
    36: "only matching, running, non-terminal pods count",
    37: "anti-affinity, its inverse, affinity, namespace selectors",
    38: "volumes pin; deleting or lost claims: none",
    39: "idle: no GPU requested by anything but daemons",
    40: "pending pods are considered before anything is removed",
    41: "what has changed by the second look keeps the machine",
    42: "no running pod is made pending",
    43: "on their way, promised, not initialised, not ours: never candidates",
    44: "do-not-disrupt and safe-to-evict",
    45: "budgets of disruption",
    46: "Jobs are not evicted by default",
    48: "demand that returns calls the drain off",
}
NAMED = re.compile(r"test_case_(\d\d)_\w+")


def named() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "test_case_" not in text:
            continue
        for step in ast.walk(ast.parse(text)):
            if isinstance(step, ast.FunctionDef | ast.AsyncFunctionDef) and (m := NAMED.fullmatch(step.name)):
                found.setdefault(int(m[1]), []).append(f"{path.relative_to(TESTS)}::{step.name}")
    return found


SHOWN = named()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row:02}")
def test_every_row_of_the_cases_is_shown_by_a_test_that_is_named_after_it(row: int) -> None:
    assert SHOWN.get(row), f"no test_case_{row:02}_… shows: {ROWS[row]}"


def test_no_test_claims_a_row_that_there_is_not() -> None:
    assert set(SHOWN) <= set(range(1, 59))
