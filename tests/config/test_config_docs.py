"""The documentation is what the model says, all of it."""

from __future__ import annotations

import re

from controller.config.docs import TARGET, render
from controller.config.load import load
from controller.config.paths import fields
from controller.config.settings import Settings


def test_the_page_is_current() -> None:
    assert TARGET.read_text(encoding="utf-8") == render(), "run python -m controller.config.docs"


def test_an_id_that_is_set_by_hand_comes_with_its_danger() -> None:
    assert "no two clusters may have the same" in TARGET.read_text(encoding="utf-8")


def test_every_key_has_its_reason() -> None:
    for path, field in fields(Settings):
        assert field.description, path
        assert field.description.endswith("."), path


def test_the_example_on_the_page_loads() -> None:
    example = re.search(r"```yaml\n(.*?)```", render(), re.DOTALL)
    assert example
    assert load("page", {}, text=example[1], service_account="/nonexistent").warnings == []
