"""The deliberate bugs are still bugs of this program: `make mutants` tries them, and takes long."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.simulator.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_a_deliberate_bug_changes_stands_in_the_program(mutant: Mutant) -> None:
    spec = importlib.util.find_spec(mutant.module)
    assert spec is not None
    assert spec.origin is not None
    assert mutant.right in Path(spec.origin).read_text(encoding="utf-8")
