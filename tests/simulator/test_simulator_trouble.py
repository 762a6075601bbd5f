"""Trouble comes and goes: what it changed is as before when all of it is over."""

from __future__ import annotations

from typing import Any

import pytest

from controller.sandbox.simulator.trouble import Knobs


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["the first ends first", "the second ends first"])
def test_settings_are_as_before_when_trouble_that_overlapped_is_over(order: tuple[int, int]) -> None:
    world: dict[str, Any] = {"never_ready": [], "boot": 60}
    knobs = Knobs(world.update)
    backs = [
        knobs.turn({"never_ready": ["*"]}, dict(world)),
        knobs.turn({"never_ready": ["a"], "boot": 5}, dict(world)),
    ]
    assert world == {"never_ready": ["a"], "boot": 5}
    backs[order[0]]()
    assert world == [{"never_ready": ["a"], "boot": 5}, {"never_ready": ["*"], "boot": 60}][order[0]]
    backs[order[1]]()
    assert world == {"never_ready": [], "boot": 60}


def test_what_changes_between_two_troubles_stays() -> None:
    world: dict[str, Any] = {"balance": 100}
    knobs = Knobs(world.update)
    knobs.turn({"balance": 0}, dict(world))()
    world["balance"] = 50
    knobs.turn({"balance": 0}, dict(world))()
    assert world == {"balance": 50}
