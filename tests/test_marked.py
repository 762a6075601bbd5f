"""The search for secrets finds them: in print, in any field of a log record, and in a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import logging, sys

def test_printed():
    print("only-for-this-test")

def test_printed_to_stderr():
    print("only-for-this-test", file=sys.stderr)

def test_logged_as_an_argument():
    logging.getLogger("x").debug("token: %s", "only-for-this-test")

def test_logged_as_a_field():
    logging.getLogger("x").info("said", extra={"words": "only-for-this-test"})

def test_logged_in_a_traceback():
    try:
        raise ValueError("only-for-this-test")
    except ValueError:
        logging.exception("oops")

def test_logged_after_a_command_masked_it_and_set_up_its_own_log(monkeypatch):
    from controller.cli.main import outcome
    from controller.report.logs import keep_secret

    keep_secret("only-for-this-test")
    monkeypatch.setattr(sys, "argv", ["verda-gpu-autoscaler", "plan", "--snapshot", "nowhere"])
    assert outcome() == 2
    logging.getLogger("gpu_autoscaler").warning("token: %s", "only-for-this-test")

def test_logged_after_another_test_set_up_its_own_log():
    logging.getLogger("gpu_autoscaler").debug("token: %s", "only-for-this-test")

def test_innocent():
    print("nothing to see")
"""


def test_a_test_that_shows_a_secret_fails_and_no_other(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    pytester.makeconftest(
        "from tests.conftest import *\nfrom tests import marked\nmarked.ALWAYS['a secret'] = 'only-for-this-test'\n"
    )
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nlog_level = DEBUG\n")
    # In a process of its own: what it shows would be found in this test, too.
    result = pytester.runpytest_subprocess("-p", "no:xdist", "-p", "no:randomly", "-q")
    result.assert_outcomes(passed=8, errors=7)
    result.stdout.fnmatch_lines(["*its output shows a secret*"])
