"""What the measurements print is what they found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.controlplane.bench.rows import (
    BEGIN,
    END,
    Part,
    Row,
    markdown,
    percentile,
    spread,
    table,
    write,
)


def test_a_goal_holds_or_is_missed_and_a_row_without_one_does_neither() -> None:
    assert Row("k", "what", 299.9, "ms", below=300).holds is True
    assert Row("k", "what", 300, "ms", below=300).holds is False
    assert Row("k", "what", 125, exactly=125).holds is True
    assert Row("k", "what", 126, exactly=125).holds is False
    assert Row("k", "what", 50.0, at_least=50).holds is True
    assert Row("k", "what", 49.9, at_least=50).holds is False
    assert Row("k", "what", 12, at_most=12).holds is True
    assert Row("k", "what", 12.1, at_most=12).holds is False
    assert Row("k", "what", 1).holds is None


def test_a_percentile_is_a_value_that_was_seen() -> None:
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([7.0], 0.99)) == (50, 99, 7)


def test_the_goals_are_of_the_percentiles_that_they_name() -> None:
    p50, p99, most = spread("latency", "it takes", [0.1, 0.2, 1.5], {"p50": 300, "p99": 1000})
    assert (p50.value, p50.holds) == (200, True)
    assert (p99.value, p99.holds) == (1500, False)
    assert (most.value, most.holds) == (1500, None)


def test_a_missed_goal_is_seen_at_once() -> None:
    part = Part("p", "Title", "About.", [Row("k", "what", 2.5, "s", below=1.5, note="seen once")])
    assert "2.5 s  under 1.5 s  MISSED" in table([part])
    assert "seen once" in table([part])
    assert "| what (seen once) | 2.5 s | under 1.5 s | **no** |" in markdown([part], "Two cores.")


def test_only_what_stands_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(page, "new")
    assert page.read_text() == f"before\n{BEGIN}\nnew\n{END}\nafter\n"


def test_a_page_without_the_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(SystemExit, match="expected the lines"):
        write(page, "new")
    assert page.read_text() == "nothing\n"
