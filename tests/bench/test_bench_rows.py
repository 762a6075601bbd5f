"""What is said beside Karpenter, and which goals there are."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.bench import __main__ as program
from tests.bench import beside, parts
from tests.bench.parts import Run

_OUTPUT = """goos: linux
BenchmarkScheduling1000-2    \t       1\t2940000000 ns/op\t       200.0 nodes\t      1000 pods\t       340.1 pods/sec
BenchmarkScheduling1000-2    \t       1\t2840000000 ns/op\t       200.0 nodes\t      1000 pods\t       352.1 pods/sec
BenchmarkScheduling10000   \t       1\t39000000000 ns/op\t      2000 nodes\t     10000 pods\t       256.4 pods/sec
PASS
"""


def _run(**more: Any) -> Run:
    numbers = {
        "pods": 1000, "classes": 655, "machines": 200, "seconds": 0.1, "pods_per_second": 10000.0, "unplaced": 0,
        "price_per_hour": 107.0, "price_floor": 100.0,
    }  # fmt: skip
    return Run(numbers | more, 0)


def test_the_best_of_several_runs_is_read() -> None:
    found = beside.parsed(_OUTPUT)
    assert found[1000]["pods/sec"] == 352.1
    assert found[10000] == {"ns/op": 3.9e10, "nodes": 2000, "pods": 10000, "pods/sec": 256.4}


def test_the_version_is_the_one_that_is_pinned() -> None:
    assert beside.version().startswith("v1.")


def test_a_plan_that_is_twenty_times_as_fast_and_near_the_floor_holds_every_goal() -> None:
    rows = parts.karpenter({1000: _run()}, beside.parsed(_OUTPUT), "v1").rows
    assert {row.key: row.holds for row in rows} == {
        "karpenter_1000_ms": None, "karpenter_1000_unplaced": True, "karpenter_1000_faults": True,
        "karpenter_1000_machines": True, "karpenter_1000_over": True, "karpenter_1000_theirs": None,
        "karpenter_1000_faster": True,
    }  # fmt: skip


def test_one_machine_more_a_higher_price_or_a_slower_plan_is_a_goal_missed() -> None:
    run = _run(machines=201, price_per_hour=109.0, pods_per_second=6000.0, unplaced=1)
    rows = parts.karpenter({1000: run}, beside.parsed(_OUTPUT), "v1").rows
    assert {row.key for row in rows if row.holds is False} == {
        "karpenter_1000_unplaced", "karpenter_1000_machines", "karpenter_1000_over", "karpenter_1000_faster",
    }  # fmt: skip


def test_without_karpenter_and_without_a_solver_nothing_is_said_about_them() -> None:
    rows = parts.karpenter({1000: _run(price_floor=None)}, {}, "").rows
    assert not {"karpenter_1000_over", "karpenter_1000_faster"} & {row.key for row in rows}


def test_a_part_that_fails_is_a_goal_missed_and_the_others_are_still_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(name: str, pods: int) -> Run:
        if name == "karpenter":
            raise ValueError("no such thing")
        return _run(seconds=0.1)

    monkeypatch.setattr(program, "_measured", measured)
    monkeypatch.setattr(sys, "argv", ["bench", "--small", "--no-karpenter", "--only", "karpenter", "gpu"])
    assert program.main() == 1
    told = capsys.readouterr()
    assert "ValueError: no such thing" in told.out
    assert "1,000 pods: planned in" in told.out
    assert "missed: karpenter_1000_ended" in told.err


def test_a_part_that_cannot_even_begin_is_a_goal_missed() -> None:
    rows = parts.failed("optimum", RuntimeError("a process\ndied")).rows
    assert [(row.key, row.holds, row.note) for row in rows] == [
        ("optimum_ended", False, "RuntimeError: a process died")
    ]


def test_growth_beyond_twelve_times_is_a_goal_missed() -> None:
    for seconds, holds in ((6.0, True), (6.2, False)):
        rows = parts.gpu({5000: _run(seconds=0.5), 50000: _run(seconds=seconds)}).rows
        assert {row.key: row.holds for row in rows}["gpu_growth"] is holds


def test_a_gap_is_told_in_per_cent() -> None:
    gaps = {"mean": 0.004, "worst": 0.06, "worst_seeds": [7]}
    found = {"instances": 500, "proven": 490, "unplaced": 0, "cheapest": gaps, "smallest": gaps}
    rows = {row.key: row for row in parts.optimum(found).rows}
    assert rows["optimum_cheapest_mean"].shown == "0.4 %"
    assert rows["optimum_cheapest_mean"].holds is True
    assert rows["optimum_cheapest_worst"].holds is False
    assert rows["optimum_smallest_worst"].holds is None
