"""Each story, whatever happens in it, ends with every pod run, nothing left, nothing bought twice.

The first of each kind is part of `make test`, the others of `make lives`.
"""

from __future__ import annotations

import pytest

from tests.simulator.stories import STORIES

CASES = [
    pytest.param(story, id=f"{name} {number}", marks=[pytest.mark.life] if number else [])
    for name, stories in STORIES.items()
    if name != "harsh hours"
    for number, story in enumerate(stories)
]


@pytest.mark.parametrize("story", CASES)
def test_a_story_violates_nothing(story) -> None:  # type: ignore[no-untyped-def]
    day = story(0)
    assert day.result["violations"] == [], day.trace
    assert day.result["pods_run"] == day.result["pods"]
