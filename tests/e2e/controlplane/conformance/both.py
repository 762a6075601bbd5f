"""The two clusters side by side, and everything that the probes found different, each asked once.

Probes on which the API server lets its clients wait begin first and go on in the background.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tests.e2e.controlplane.conformance.play import Difference, Run, Seen, compared
from tests.e2e.controlplane.conformance.probe import CORE, JSON, Probe
from tests.e2e.controlplane.conformance.side import WITHIN, Side

FURNISHED = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")


class Both:
    """`extra` is what the steps of each side may have filled in beside the usual."""

    def __init__(self, real: Side, sandbox: Side, tag: str) -> None:
        self.sides = (real, sandbox)
        self.tag = tag
        self.extra: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        self._spaces: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=8)
        self._found: dict[tuple[str, str], Future[list[Difference]]] = {}

    def begin(self, probes: Iterable[tuple[str, Probe]]) -> None:
        for theme, probe in probes:
            self._found[theme, probe.name] = self._pool.submit(self._compare, theme, probe)

    def differences(self, theme: str, probe: Probe) -> list[Difference]:
        known = (theme, probe.name)
        if known not in self._found:
            done: Future[list[Difference]] = Future()
            try:
                done.set_result(self._compare(theme, probe))
            except BaseException as error:  # noqa: BLE001  (kept for whoever asks next, and raised there)
                done.set_exception(error)
            self._found[known] = done
        return self._found[known].result()

    def _compare(self, theme: str, probe: Probe) -> list[Difference]:
        space = self.space(probe.space or theme)
        real, sandbox = self._each(lambda number: self._play(number, probe, space))
        return compared(probe, real, sandbox)

    def _play(self, number: int, probe: Probe, space: str) -> list[Seen]:
        with self.sides[number].another() as side:
            run = Run(side, space, self.tag, self.extra[number])
            try:
                return run.play(probe.steps)
            finally:
                for path in run.left:
                    side.ask("DELETE", path)

    @staticmethod
    def _each(work: Callable[[int], Any]) -> tuple[Any, Any]:
        """The same work on both sides at once; what fails in a thread fails here."""
        with ThreadPoolExecutor(max_workers=2) as pool:
            real, sandbox = pool.submit(work, 0), pool.submit(work, 1)
            return real.result(), sandbox.result()

    def space(self, name: str) -> str:
        """A namespace of this name on both sides, with what the controllers put into it."""
        full = f"{name}-{self.tag}"
        with self._lock:
            mine = full not in self._spaces
            made = self._spaces.setdefault(full, Future())
        if mine:
            try:
                self._each(lambda number: _make(self.sides[number], full))
                made.set_result(None)
            except BaseException as error:  # noqa: BLE001  (others wait for this namespace, too)
                made.set_exception(error)
        made.result()
        return full

    def leave(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        with self.sides[0].another() as side:
            for full in self._spaces:
                side.ask("DELETE", f"{CORE}/namespaces/{full}")


def _make(side: Side, name: str) -> None:
    with side.another() as asking:
        kind = {"Content-Type": JSON}
        answer = asking.ask("POST", f"{CORE}/namespaces", {"metadata": {"name": name}}, kind)
        if answer.code != 201:
            raise RuntimeError(f"namespace {name}: {answer.code} {answer.body}")
        end = time.monotonic() + WITHIN
        while any(asking.ask("GET", f"{CORE}/namespaces/{name}/{each}").code != 200 for each in FURNISHED):
            if time.monotonic() > end:
                raise TimeoutError(f"namespace {name} was not furnished within {WITHIN:g} s")
            time.sleep(0.05)
