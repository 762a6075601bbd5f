"""`simulate` on the command line: progress on a terminal, one line or one object for each seed, and the exit code."""

from __future__ import annotations

import json
import math
import os
import sys
import time

from controller.app.exits import CONFIGURATION, FAILED, Ends
from controller.config.errors import ConfigError
from controller.sandbox.simulator.command import (
    Asked,
    other_devices,
    results,
    settings_of,
    shrunk,
    told,
    works_of,
)
from controller.sandbox.simulator.schedule import LEVELS, BadSchedule, read
from controller.sandbox.simulator.settings import left_out
from controller.sandbox.simulator.workload import DRAWN, YEAR, BadWorkload


def simulate(
    *,
    asked: Asked,
    seed: int,
    seeds: int,
    jobs: int,
    as_json: bool,
    shrink: str | None = None,
) -> None:
    _check(asked, seeds, shrink)
    if asked.config is not None and (names := left_out(asked.config)):
        print(
            f"not simulated, as if they were not in the settings: machines {', '.join(names)}",
            file=sys.stderr,
        )
    if asked.config is not None and (names := other_devices(asked)):
        print(f"not simulated: what pools show beside nvidia.com/gpu: {'; '.join(names)}", file=sys.stderr)
    if shrink is not None:
        _shrink(asked, seed, shrink, as_json=as_json)
        return
    numbers = list(range(seed, seed + seeds))
    began, bad = time.monotonic(), []
    progress = sys.stderr.isatty()
    watch = _Progress() if progress and seeds == 1 else None
    for done, result in enumerate(results(asked, numbers, jobs or os.cpu_count() or 1, watch), 1):
        if progress:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        print(told(result, as_json=as_json), flush=True)
        if result["violations"]:
            bad.append(result["seed"])
        if progress and done < seeds:
            left = (time.monotonic() - began) / done * (seeds - done)
            print(f"{done} of {seeds} seeds, about {left:.0f} s left", end="", file=sys.stderr, flush=True)
    if bad:
        which = ", ".join(map(str, bad[:10])) + (", …" if len(bad) > 10 else "")
        raise Ends(FAILED, f"violations in {len(bad)} of {seeds} seeds: {which}; --seed shows one alone")


class _Progress:
    """Of one course, which may be a month: told once in a second."""

    def __init__(self) -> None:
        self._began = self._told = time.monotonic()

    def __call__(self, share: float) -> None:
        """What happens after the last fault is not foreseen: it ends when everything has run and is gone."""
        now = time.monotonic()
        if now - self._told < 1 or share <= 0:
            return
        self._told = now
        left = (now - self._began) * (1 - share) / share
        words = (
            f"{share:.0%}, about {left:.0f} s left" if share < 1 else "faults are over, waiting for the end"
        )
        print(f"\r\033[K{words}", end="", file=sys.stderr, flush=True)


def _shrink(asked: Asked, seed: int, path: str, *, as_json: bool) -> None:
    text, told = shrunk(asked, seed)
    if not text:
        words = f"seed {seed} violates nothing, so there is nothing to reduce"
        print(json.dumps({"seed": seed, "violation": None, "test": None}) if as_json else words)
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Ends(CONFIGURATION, f"--shrink {path}: {error.strerror}") from error
    if as_json:
        print(json.dumps({"seed": seed, "violation": told, "test": path}), flush=True)
    raise Ends(FAILED, f"seed {seed} violates: {told}; what is left of it is a test in {path}")


def _check(asked: Asked, seeds: int, shrink: str | None) -> None:
    """All that can be wrong with what was asked, before anything begins."""
    for name, number in (("hours", asked.hours), ("compress", asked.compress)):
        if not math.isfinite(number):
            raise Ends(CONFIGURATION, f"--{name} {number}: expected a number that is not infinite")
    if asked.hours * 3600 > YEAR:
        raise Ends(CONFIGURATION, f"--hours {asked.hours:g}: expected {YEAR / 3600:g} (a year) at most")
    if shrink is not None and seeds > 1:
        raise Ends(CONFIGURATION, f"--seeds {seeds}: --shrink reduces one seed; leave --seeds out")
    if asked.compress != 1 and asked.workload in DRAWN:
        raise Ends(CONFIGURATION, f"--compress {asked.compress:g}: --workload {asked.workload} is no file")
    try:
        works_of(asked, 0)
        settings_of(asked)
        if asked.faults not in LEVELS:
            read(asked.faults)
    except ConfigError as error:
        raise Ends(CONFIGURATION, *str(error).splitlines()) from error
    except (BadWorkload, BadSchedule) as error:
        raise Ends(CONFIGURATION, str(error)) from error
    if seeds > 1 and (asked.timeline or asked.html):
        raise Ends(CONFIGURATION, f"--seeds {seeds}: --timeline and --html show one seed; leave --seeds out")
    for name, path in (("timeline", asked.timeline), ("html", asked.html), ("shrink", shrink)):
        if path is not None:
            known = os.path.exists(path)
            try:
                open(path, "a", encoding="utf-8").close()
                if not known:
                    os.remove(path)  # what comes of it may be nothing
            except OSError as error:
                raise Ends(CONFIGURATION, f"--{name} {path}: cannot be written: {error.strerror}") from error
