"""Karpenter's own scheduling benchmark, on this machine: pods per second and nodes, for each number of pods.

Its test program is built once from the pinned module beside this file, into a cache outside the work tree.
Without Go, or where the module cannot be had, there is nothing to measure beside, and that is said.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

MODULE = Path(__file__).with_name("karpenter")
PACKAGE = "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
BUILD_LIMIT, RUN_LIMIT = 1800, 900
_LINE = re.compile(r"^BenchmarkScheduling(?P<pods>\d+)(?:-\d+)?\s+\d+\s+(?P<rest>.*)$", re.MULTILINE)
_FIGURE = re.compile(r"(?P<value>[0-9.]+(?:e[+-]?\d+)?) (?P<unit>\S+)")

Figures = dict[int, dict[str, float]]  # by number of pods: what is told, by unit


def version() -> str:
    found = re.search(r"sigs\.k8s\.io/karpenter (v\S+)", (MODULE / "go.mod").read_text(encoding="utf-8"))
    return found[1] if found else ""


def measured(sizes: Iterable[int], runs: int) -> Figures:
    """The best of so many runs; nothing if there is no such program."""
    program = _program()
    if program is None:
        return {}
    chosen = "|".join(map(str, sizes))
    words = [str(program), "-test.run", "XXX", "-test.bench", f"Scheduling({chosen})$"]
    words += ["-test.benchtime", "1x", "-test.count", str(runs), "-test.timeout", f"{RUN_LIMIT}s"]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, timeout=RUN_LIMIT + 60, check=False)
    except (subprocess.SubprocessError, OSError) as trouble:
        _say(f"Karpenter's benchmark came to no end: {trouble}")
        return {}
    if ran.returncode:
        _say(f"Karpenter's benchmark failed: {ran.stdout[-500:]}{ran.stderr[-500:]}")
    return parsed(ran.stdout)


def parsed(text: str) -> Figures:
    found: Figures = {}
    for line in _LINE.finditer(text):
        figures = {m["unit"]: float(m["value"]) for m in _FIGURE.finditer(line["rest"])}
        pods = int(line["pods"])
        if "pods/sec" in figures and figures["pods/sec"] > found.get(pods, {}).get("pods/sec", 0):
            found[pods] = figures
    return found


def _program() -> Path | None:
    pins = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        pins.update((MODULE / name).read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "verda-gpu-autoscaler" / f"bench-{pins.hexdigest()[:16]}"
    program = folder / "karpenter.test"
    if program.is_file():
        return program
    if shutil.which("go") is None:
        _say("Go is not installed, so Karpenter is not measured")
        return None
    _say(f"building Karpenter's benchmark once, into {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".building-{os.getpid()}"
    words = ["go", "test", "-c", "-trimpath", "-tags", "test_performance", "-o", str(partial), PACKAGE]
    env = {**os.environ, "CGO_ENABLED": "0"}
    try:
        subprocess.run(words, cwd=MODULE, env=env, timeout=BUILD_LIMIT, check=True, stdout=sys.stderr)
        partial.replace(program)  # whole, so that one cut short is never taken for one
    except (subprocess.SubprocessError, OSError) as trouble:
        _say(f"Karpenter's benchmark cannot be built, so it is not measured: {trouble}")
        return None
    finally:
        partial.unlink(missing_ok=True)
    return program


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
