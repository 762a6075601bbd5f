"""What is expected to fail today is told in the docs, with the reason; nothing else is, and nothing is forgotten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
ROW = re.compile(r"^\| `(test_\w+)` \| (.+) \|$", re.MULTILINE)


def test_the_page_lists_every_expected_failure_with_its_reason(request: pytest.FixtureRequest) -> None:
    listed = dict(ROW.findall(PAGE.read_text(encoding="utf-8")))
    expected = [
        (item.name.partition("[")[0], marker.kwargs)
        for item in request.session.items
        if (marker := item.get_closest_marker("xfail")) is not None
    ]
    assert all(told.get("strict") is True for _, told in expected), "one that passes has to be noticed"
    found = {name: told["reason"] for name, told in expected}
    config = request.config
    if config.getoption("-k") or config.getoption("-m") or "tests/e2e" not in config.args:
        listed = {
            name: reason for name, reason in listed.items() if name in found
        }  # only a part was asked for
    assert found == listed
