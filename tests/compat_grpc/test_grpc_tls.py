"""The cases of `tls_cases`, in a process of their own.

A failed call that a captured log record holds is freed whenever pytest drops the record; where gRPC ended the channel's
certificates meanwhile, that crashes the process. So no records are captured there, and nothing else is at stake.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).with_name("tls_cases.py")


def test_every_case_of_tls_holds() -> None:
    words = ["-m", "pytest", "-p", "no:logging", "-p", "no:cacheprovider", "-p", "no:xdist", "-v", str(CASES)]
    ended = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=240, cwd=CASES.parents[2]
    )
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    assert " 10 passed" in ended.stdout, ended.stdout[-500:]
