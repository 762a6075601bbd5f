"""A sandbox cloud for each scenario, as a process of its own that is forked from one that has imported everything.

What is tried here is the controller, which starts from nothing; the sandbox does so in the tests of the whole loop.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

from tests import warm
from tests.e2e.controlplane.patience import until
from tests.e2e.programs import environment


@contextlib.contextmanager
def cloud(home: Path, *words: str) -> Iterator[str]:
    """Its URL, while it runs."""
    out, err = home / "cloud.out", home / "cloud.err"
    running = warm.start("sandbox", "cloud", *words, env=environment(home), out=out, err=err)
    try:
        until("the cloud listens", lambda: out.exists() and "\n" in out.read_text())
        yield out.read_text().splitlines()[0]
    finally:
        running.send_signal(signal.SIGTERM)
        until("the cloud has ended", lambda: running.returncode is not None)
