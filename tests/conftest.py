"""For every test of every suite: what it printed and logged is searched for the secrets that tests use.

What is searched is the raw text, before any masking, down to the debug level and with every field of a log
record. A test that finds one fails, whatever else it was about.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Generator
from typing import Any

import pytest

from controller.report import logs
from controller.sandbox.cloud.auth import Tokens
from tests import marked

LOGGERS = ("", "gpu_autoscaler", "aiohttp.access", "urllib3", "asyncio")
_told: list[str] = []


class _Everything(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _told.append(f"{record.getMessage()} {record.__dict__}")
        if record.exc_info:
            _told.append("".join(traceback.format_exception(record.exc_info[1])))


@pytest.fixture(autouse=True, scope="session")
def _tokens_are_secrets() -> Generator[None]:
    """Access and refresh tokens that the sandbox cloud gave out in this process."""
    issue = Tokens.issue

    def noted(self: Tokens, *args: Any) -> Any:
        response = issue(self, *args)
        found = json.loads(response.body)
        marked.note(found["access_token"], found["refresh_token"])
        return response

    Tokens.issue = noted  # type: ignore[method-assign]
    yield
    Tokens.issue = issue  # type: ignore[method-assign]


def pytest_configure() -> None:
    logging.getLogger().addHandler(_Everything(logging.DEBUG))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _told.clear()
    marked.forget()
    logs._secrets.clear()  # a process that has just started masks nothing that it has not seen itself
    root = logging.getLogger()
    handlers = list(root.handlers)
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    try:
        return (yield)
    finally:
        # What a test of the command line sets up is for the whole process: its levels would leave the next one
        # unheard, and its handler prints on a stream that is no more.
        root.handlers[:] = handlers
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown" and report.passed:
        _told.extend(text for _, text in report.sections)
        if found := marked.found_in("\n".join(_told)):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: its output shows {', '.join(found)}"
    return report
