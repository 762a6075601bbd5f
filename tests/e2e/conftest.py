"""What the end-to-end tests share: the real programs they drive, who runs what, and a bound on each test's time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

STAND_IN = "stand-in"  # for cluster-autoscaler, where no binary is named
LONGEST, LONG = 120, 240  # seconds; a hung peer must not hang the whole run
# Files whose tests share what takes long to set up, or a machine that is there once.
TOGETHER = {"test_conformance.py", "test_differential.py", "test_kubelet_labels.py", "test_real_kubelet.py"}


def work_unit(test: str) -> str:
    """Whoever is free gets the next test, or the next of the files that stay together."""
    file = test.partition("::")[0]
    return file if Path(file).name in TOGETHER else test


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """xdist's own way to say this, `--dist loadgroup`, overlooks its marks with pytest 9.2."""
    made = LoadScopeScheduling(config, log)
    made._split_scope = work_unit
    return made


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long ones first, so that no process is left alone with one at the end.

    What takes many minutes runs only where it is asked for by its marker.
    """
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    if config.getoption("-m"):
        return
    slow = [item for item in items if item.get_closest_marker("full") or item.get_closest_marker("soak")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much was proven by the real cluster-autoscaler. Its name stands in the id of each scenario."""
    ran: dict[str, int] = {}
    # As the tests are called by: what else a test is parametrized with follows.
    named = [
        STAND_IN,
        *(Path(path).name for path in os.environ.get("CLUSTER_AUTOSCALER_BIN", "").split(":") if path),
    ]
    for report in terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", []):
        if "controlplane/test_cluster_autoscaler" in report.nodeid and report.when == "call":
            name = report.nodeid.partition("[")[2].rstrip("]")
            name = max((each for each in named if name.startswith(each)), key=len, default=name)
            ran[name] = ran.get(name, 0) + 1
    if ran:
        real = sum(count for name, count in ran.items() if name != STAND_IN)
        each = ", ".join(f"{count} with {name}" for name, count in sorted(ran.items()))
        terminalreporter.write_line(
            f"cluster-autoscaler scenarios: {real} of {sum(ran.values())} ran with a real one ({each})"
        )


@pytest.fixture(autouse=True)
def bounded(request: pytest.FixtureRequest) -> Iterator[None]:
    marker = request.node.get_closest_marker("full") or request.node.get_closest_marker("soak")
    usual = LONG if request.node.get_closest_marker("long") else LONGEST
    limit = marker.kwargs["limit"] if marker else usual

    def late(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"the test took longer than {limit} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(limit)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _tool(variable: str) -> str:
    path = os.environ.get(variable, "")
    if not Path(path).is_file():
        pytest.fail(f"{variable} names no program; run tests/e2e/run, which builds it", pytrace=False)
    return path


@pytest.fixture(scope="session")
def kubectl_bin() -> str:
    return _tool("KUBECTL_BIN")


@pytest.fixture(scope="session")
def helm_bin() -> str:
    return _tool("HELM_BIN")
