"""Runs a command, then looks for what it left behind: processes with their ports, files, mounts, machines' bridges.

`leftovers.py COMMAND…` ends as the command did, and fails when something is left; that is then ended by
its process id, or removed. Processes that detached themselves are found because this one is the
subreaper of all that the command starts. Temporary files go to a directory of the run's own.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ENDING = 5.0  # seconds that what was told to end may still take
SUBREAPER, PARENT_DIED = 36, 1
PROC = Path("/proc")
NET, CGROUPS = Path("/sys/class/net"), Path("/sys/fs/cgroup")


def run(command: list[str]) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(SUBREAPER, 1)
    folder = Path(tempfile.mkdtemp(prefix="gpu-autoscaler-e2e-"))
    child = subprocess.Popen(
        command,
        env=os.environ | {"TMPDIR": str(folder)},
        preexec_fn=lambda: libc.prctl(PARENT_DIED, signal.SIGTERM),
    )
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _frame: child.send_signal(got))
    code = child.wait()
    left = [*processes(), *mounts(folder), *kept_of_machines(folder), *files(folder)]
    for line in left:
        print(f"left behind: {line}", file=sys.stderr)
    if code == 0 and not left:
        shutil.rmtree(folder)
    elif not left:
        print(f"logs of the programs are in {folder}", file=sys.stderr)
    return code or (1 if left else 0)


def processes() -> list[str]:
    """What still runs after a moment, ended and told."""
    until = time.monotonic() + ENDING
    while (pids := list(descendants())) and time.monotonic() < until:
        time.sleep(0.1)
    told = [f"process {pid} ({words(pid)}), listening on {listening(pid) or 'nothing'}" for pid in pids]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        with contextlib.suppress(ChildProcessError):  # of a parent that is still there
            os.waitpid(pid, 0)
    return told


def descendants() -> Iterator[int]:
    """Those that are alive; the dead are reaped here, since they were handed to this process."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    parents = dict(_parents())
    for pid in parents:
        above: int | None = pid
        while above is not None and above != os.getpid():
            above = parents.get(above)
        if above is not None and pid != os.getpid():
            yield pid


def _parents() -> Iterator[tuple[int, int]]:
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                rest = (entry / "stat").read_text().rpartition(")")[2].split()
                yield int(entry.name), int(rest[1])


def words(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    return "?"


def listening(pid: int) -> str:
    """Its TCP ports, as `8080, 9090`."""
    sockets = set()
    with contextlib.suppress(OSError):
        for link in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    ports = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (PROC / str(pid) / "net" / table).read_text().splitlines()[1:]:
                row = line.split()
                if row[3] == "0A" and row[9] in sockets:
                    ports.add(int(row[1].rpartition(":")[2], 16))
    return ", ".join(map(str, sorted(ports)))


def mounts(folder: Path) -> list[str]:
    points = [line.split()[1] for line in (PROC / "self" / "mounts").read_text().splitlines()]
    return [f"mount {point}" for point in points if point.startswith(f"{folder}/")]


def kept_of_machines(folder: Path, net: Path = NET, cgroups: Path = CGROUPS) -> list[str]:
    """What the kernel keeps of this run's machines (controlplane/node) that nobody stopped.

    Others may run machines of their own at the same time, so it is known by what lies in the run's folder.
    """
    found = []
    for network in folder.rglob("cni/pods.conflist"):
        bridge = json.loads(network.read_text())["plugins"][0]["bridge"]
        found += [f"bridge {bridge}"] if (net / bridge).exists() else []
    for tasks in folder.rglob("io.containerd.runtime.v2.task/k8s.io"):
        for place in (cgroups / "k8s.io", *cgroups.glob("*/k8s.io")):
            found += [
                f"cgroup {place / task.name}" for task in tasks.iterdir() if (place / task.name).is_dir()
            ]
    return found


def files(folder: Path) -> list[str]:
    """Other than pytest's own, which keeps the logs of the last runs there."""
    return [f"{path}" for path in folder.iterdir() if not path.name.startswith("pytest-of-")]


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
