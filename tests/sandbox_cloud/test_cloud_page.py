"""The page about the sandbox cloud tells what the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import yaml

from controller.sandbox.cloud.control import CONTROLS
from controller.sandbox.cloud.events import EVENTS
from controller.sandbox.cloud.page import PAGE, QUESTIONS, render
from controller.sandbox.cloud.scenario import read_scenario
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.fault_rules import FAULTS

TESTS = Path(__file__).parent
TEXT = PAGE.read_text(encoding="utf-8")


def section(title: str) -> str:
    return re.split(r"\n##+ ", TEXT.partition(f"# {title}\n")[2])[0]


def test_its_tables_are_current() -> None:
    assert render(TEXT) == TEXT


def test_every_open_question_has_its_knobs() -> None:
    rows = [row for row in section("Open questions").splitlines() if row.startswith("| ")][1:]
    assert [int(row.split("|")[1]) for row in rows] == list(QUESTIONS) == list(range(1, 12))
    assert all("`" in row.split("|")[3] for row in rows)


def test_every_event_is_told() -> None:
    told = re.findall(r"(?m)^\| `(\w+)` \|", section("Events: what happens in the cloud"))
    assert told == list(EVENTS)


def test_every_path_of_its_own_is_told() -> None:
    words = set(re.findall(r"[\w.-]+", section("The sandbox's own paths")))
    assert {name.split(" ")[1] for name in CONTROLS} <= words


def test_the_scenario_it_shows_can_be_begun() -> None:
    (block,) = [one for one in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL) if "storm.yaml" in one]
    assert len(read_scenario(yaml.safe_load(block))) == 10


def test_every_row_names_knobs_faults_and_events_that_exist_and_tests_that_show_them() -> None:
    tests = {
        node.name
        for path in TESTS.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    known = {*Settings().shown(), *FAULTS, *EVENTS, "share", "at_s", "for_s", "journal", "stuck", "stuck_in"}
    rows = [
        row for row in section("What can be shown, and what shows it").splitlines() if row.startswith("| ")
    ]
    assert len(rows) > 30
    for row in rows[1:]:
        _, _, how, shows, _ = row.split("|")
        named = [word for word in re.findall(r"`([^`]+)`", how) if not word.startswith("/")]
        assert set(named) <= known, row
        shown_by = re.findall(r"`([^`]+)`", shows)
        assert shown_by, row
        assert set(shown_by) <= tests, row


def test_every_fault_and_event_is_in_a_row() -> None:
    rows = section("What can be shown, and what shows it")
    assert {name for name in (*FAULTS, *EVENTS) if f"`{name}`" not in rows} <= {"settings"}
