"""Starting programs and ending exactly those again, with a bound on every wait."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PROGRAM_BIN", str(Path(sys.executable).parent / "verda-gpu-autoscaler"))
SOON = 30.0  # seconds that anything on loopback may take before it counts as stuck


def environment(home: Path) -> dict[str, str]:
    """Nothing of the caller's settings, credentials or proxies reaches a program under test."""
    return {"HOME": str(home), "PATH": os.environ.get("PATH", ""), "NO_PROXY": "127.0.0.1", "TERM": "dumb"}


class Started:
    """A running program whose lines are read as they come."""

    def __init__(self, command: list[str], home: Path, variables: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=environment(home) | dict(variables or {}),
            cwd=home,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.complaints: list[str] = []
        assert self.process.stdout
        assert self.process.stderr
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.lines.put), daemon=True),
            threading.Thread(
                target=self._read, args=(self.process.stderr, self.complaints.append), daemon=True
            ),
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: object, take: Callable[[str], None]) -> None:
        for line in stream:  # type: ignore[attr-defined]
            take(line.rstrip("\n"))

    def line(self, fits: Callable[[str], bool] = bool) -> str:
        """The next line that fits."""
        end = time.monotonic() + SOON
        seen: list[str] = []
        while True:
            left = end - time.monotonic()
            try:
                seen.append(self.lines.get(timeout=max(left, 0)))
            except queue.Empty:
                told = "\n".join([*seen, *self.complaints])
                raise AssertionError(f"no such line within {SOON:.0f} s; it said:\n{told}") from None
            if fits(seen[-1]):
                return seen[-1]

    def end(self) -> int:
        """By SIGTERM, as a service manager does; by SIGKILL where that does not help."""
        self.process.terminate()
        try:
            code = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait(timeout=10)
        for reader in self._readers:
            reader.join(timeout=5)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


@contextlib.contextmanager
def started(command: list[str], home: Path) -> Iterator[Started]:
    running = Started(command, home)
    try:
        yield running
    finally:
        running.end()


def run(
    command: list[str], home: Path, *, stdin: str = "", limit: float = SOON
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=limit, env=environment(home), cwd=home
    )
