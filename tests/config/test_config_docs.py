"""The documentation is what the model says, all of it."""

from __future__ import annotations

import re

from controller.config.dialects.docs import TARGET as VARIABLES
from controller.config.dialects.docs import render as render_variables
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


def test_the_page_of_variables_is_current_and_its_example_loads() -> None:
    assert VARIABLES.read_text(encoding="utf-8") == render_variables(), (
        "run python -m controller.config.dialects.docs"
    )
    example = re.search(r"```bash\n(.*?)```", render_variables(), re.DOTALL)
    assert example
    environ = dict(
        line.split("=", 1) for line in example[1].splitlines() if "=" in line and not line.startswith("#")
    )
    loaded = load(
        None, {name: value.strip("'") for name, value in environ.items()}, service_account="/nonexistent"
    )
    assert ([m.name for m in loaded.settings.machines], [p.name for p in loaded.settings.pools]) == (
        ["gpu-worker-1"], ["a100"],
    )  # fmt: skip
    assert loaded.warnings == []
