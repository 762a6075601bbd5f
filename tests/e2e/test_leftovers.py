"""The guard around the suite sees what is left behind, also what detached itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.leftovers import kept_of_machines

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


def test_what_the_kernel_keeps_of_a_machine_that_nobody_stopped_is_named(tmp_path: Path) -> None:
    machine = tmp_path / "run" / "pytest-of-me" / "machine-0"
    (machine / "cni").mkdir(parents=True)
    (machine / "cni" / "pods.conflist").write_text('{"plugins": [{"type": "bridge", "bridge": "e2e-1"}]}')
    (machine / "run/containerd/io.containerd.runtime.v2.task/k8s.io/c1").mkdir(parents=True)
    net, cgroups = tmp_path / "net", tmp_path / "cgroup"
    for there in (
        net / "e2e-1",
        net / "e2e-2",
        cgroups / "k8s.io/c1",
        cgroups / "k8s.io/c2",
        cgroups / "cpu/k8s.io/c1",
    ):
        there.mkdir(parents=True)
    assert kept_of_machines(tmp_path / "run", net, cgroups) == [
        "bridge e2e-1",
        f"cgroup {cgroups / 'k8s.io/c1'}",
        f"cgroup {cgroups / 'cpu/k8s.io/c1'}",
    ]


def test_a_bridge_that_is_left_fails_the_run(tmp_path: Path) -> None:
    """Every machine has the interface `lo`."""
    code = """
import os, pathlib
cni = pathlib.Path(os.environ["TMPDIR"], "pytest-of-me", "machine-0", "cni")
cni.mkdir(parents=True)
(cni / "pods.conflist").write_text('{"plugins": [{"bridge": "lo"}]}')
"""
    told = guarded(code, tmp_path)
    assert told.returncode == 1
    assert "left behind: bridge lo" in told.stderr
    for network in tmp_path.rglob("pods.conflist"):
        network.unlink()  # this test may run inside of a run that looks for the same
