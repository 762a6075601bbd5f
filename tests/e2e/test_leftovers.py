"""The guard around the suite sees what is left behind, also what detached itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GUARD = Path(__file__).with_name("leftovers.py")
DETACHED = """
import os, socket, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        listener = socket.create_server(("127.0.0.1", 0))
        print(os.getpid(), listener.getsockname()[1], flush=True)
        os.close(1)
        time.sleep(60)
    os._exit(0)
os.wait()
sys.exit(0)
"""


def guarded(code: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(GUARD), sys.executable, "-c", code],
        capture_output=True, text=True, timeout=60, env=os.environ | {"TMPDIR": str(home)},
    )  # fmt: skip


def test_a_clean_command_ends_as_it_did_and_leaves_no_directory(tmp_path: Path) -> None:
    assert guarded("import tempfile; tempfile.TemporaryDirectory().cleanup()", tmp_path).returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert guarded("raise SystemExit(3)", tmp_path).returncode == 3


def test_a_process_that_detached_itself_is_named_with_its_port_and_ended(tmp_path: Path) -> None:
    told = guarded(DETACHED, tmp_path)
    pid, port = told.stdout.split()
    assert told.returncode == 1
    assert f"left behind: process {pid} " in told.stderr
    assert f"listening on {port}" in told.stderr
    assert not Path("/proc", pid).exists()


def test_a_forgotten_directory_fails_the_run(tmp_path: Path) -> None:
    told = guarded("import tempfile; print(tempfile.mkdtemp())", tmp_path)
    assert told.returncode == 1
    assert f"left behind: {told.stdout.strip()}" in told.stderr
