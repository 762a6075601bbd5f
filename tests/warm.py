"""The command line as processes of its own, forked from one that has imported everything already.

Starting Python and importing takes a second of a core, and the suite does it hundreds of times. What is forked is a real
process with its own environment, descriptors and signals, and ends as `main` ends it; only its imports are warm.
That the program starts from nothing is shown by the tests of imports and end to end.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import importlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

WARM = (
    "controller.cli.main", "controller.cli.verbs", "controller.app.program", "controller.app.start",
    "controller.app.parts", "controller.cloud.verda.provider", "controller.cluster.connection",
    "controller.cluster.kubelibrary", "controller.sandbox.demo.stage", "controller.sandbox.cloud.command",
    "controller.fleet.sweep", "controller.cli.running", "controller.cli.planning", "controller.cli.sandboxes",
    "controller.cli.sweeping", "controller.cloud.verda.sdk", "controller.app.snapshots", "requests",
)  # fmt: skip


class Running:
    """One of them, from its start to its end."""

    def __init__(self, pid: int, ended: Future[int]) -> None:
        self.pid = pid
        self._ended = ended

    @property
    def returncode(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(asyncio.wrap_future(self._ended))

    def send_signal(self, number: int) -> None:
        if not self._ended.done():
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Stove:
    """The warm process, and who was forked from it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._started: Future[int] = Future()
        self._ends: dict[int, Future[int]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()
        atexit.register(self.end)

    def start(self, words: tuple[str, ...], env: Mapping[str, str], out: Path, err: Path) -> Running:
        wish = {"words": words, "env": dict(env), "cwd": os.getcwd(), "out": str(out), "err": str(err)}
        with self._lock:
            self._started = Future()
            assert self._process.stdin is not None
            print(json.dumps(wish), file=self._process.stdin, flush=True)
            pid = self._started.result(timeout=60)
            return Running(pid, self._ends[pid])

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "code" in told:
                self._ends[told["pid"]].set_result(told["code"])
            else:
                self._ends[told["pid"]] = Future()
                self._started.set_result(told["pid"])

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)


_stoves: list[Stove] = []


def start(*words: str, env: Mapping[str, str], out: Path, err: Path) -> Running:
    """`verda-gpu-autoscaler` with these words; what it prints is appended to the two files."""
    if not _stoves:
        _stoves.append(Stove())
    return _stoves[0].start(words, env, out, err)


# ---- the warm process itself


def _become(wish: Mapping[str, Any]) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    files = [os.open(wish[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for name in ("out", "err")]
    for number, fd in enumerate((nothing, *files)):
        os.dup2(fd, number)
    os.closerange(3, 64)
    os.chdir(wish["cwd"])
    os.environ.clear()
    os.environ.update(wish["env"])
    random.seed()
    sys.argv = ["verda-gpu-autoscaler", *wish["words"]]
    from controller.cli.main import main

    main()


def _reap(tell: IO[str]) -> list[int]:
    gone = []
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            gone.append(found[0])
            print(
                json.dumps({"pid": found[0], "code": os.waitstatus_to_exitcode(found[1])}),
                file=tell,
                flush=True,
            )
    return gone


def _serve() -> None:
    for name in WARM:
        importlib.import_module(name)
    gc.freeze()
    hear, wake = os.pipe()
    for fd in (hear, wake):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    alive: set[int] = set()
    while True:
        ready, _, _ = select.select([sys.stdin, hear], [], [])
        if hear in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(hear, 4096)
            alive -= set(_reap(sys.stdout))
        if sys.stdin in ready:
            line = sys.stdin.readline()
            if not line:
                break
            pid = os.fork()
            if pid == 0:
                _become(json.loads(line))
            alive.add(pid)
            print(json.dumps({"pid": pid}), flush=True)
    for pid in alive:  # nobody is left who would wait for them
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _serve()
