"""`make bench-planner`: the planner measured against goals, the price's floor, the exact optimum, and Karpenter.

Every plan is bound pod by pod by a replay that shares no rule with the planner. Progress goes to stderr, the
table to stdout; exits 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime

from controller.sandbox.bench.machine import measured_on
from controller.sandbox.bench.planner import measure as production
from controller.sandbox.bench.planner import optimum
from tests.bench import beside, checked, parts
from tests.e2e.controlplane.bench import rows
from tests.e2e.controlplane.bench.rows import Part, Row
from tests.e2e.programs import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
MARKS = ("<!-- bench-planner: begin -->", "<!-- bench-planner: end -->")
KARPENTER, GPU = (1000, 5000, 10000), (1000, 5000, 10000, 50000)


def main() -> int:
    asked = _asked()
    began = time.monotonic()
    found = [_whole_or_told(name, asked) for name in asked.only]
    load = os.getloadavg()[2]
    about = measured_on() | {"at": datetime.now(UTC).isoformat(timespec="minutes"), "load": round(load, 1)}
    cores = os.cpu_count() or 1
    sentence = (
        f"{about['cores']} cores ({about['cpu']}), Python {about['python']}, {about['system']}; {about['at']}; "
        f"the whole run took {time.monotonic() - began:.0f} s. "
        f"On average {load:.1f} programs wanted to run in the last quarter of an hour, this one among them"
        + ("; so times tell little, and only their ratios something." if load > 1.5 * cores else ".")
    )
    if asked.json:
        print(json.dumps({"about": about, "parts": [part.as_json() for part in found]}, indent=1))
    else:
        print(f"{rows.table(found)}\n\n{sentence}")
    if asked.write:
        rows.write(PAGE, rows.markdown(found, sentence), MARKS)
    missed = [row.key for part in found for row in part.rows if row.holds is False]
    if missed:
        _say(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-planner", description=__doc__.splitlines()[0])
    names = ["karpenter", "gpu", "optimum"]
    parser.add_argument("--json", action="store_true", help="JSON for scripts")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--small", action="store_true", help="only the smallest sizes, to try the program")
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    parser.add_argument("--no-karpenter", action="store_true", help="do not measure Karpenter beside it")
    parser.add_argument("--instances", type=int, default=500, help="that are compared with their optimum")
    parser.add_argument("--seconds", type=float, default=20, help="at most, for each of these")
    parser.add_argument("--minutes", type=float, default=6, help="at most, for all of these together")
    parser.add_argument("--runs", type=int, default=3, help="of Karpenter's benchmark; the fastest counts")
    asked = parser.parse_args()
    if asked.write and (asked.small or asked.only != names):
        parser.error("--write is for whole runs: without --small and --only")
    return asked


def _whole_or_told(name: str, asked: argparse.Namespace) -> Part:
    """A part that fails is a goal missed, and no reason to lose the others."""
    try:
        return _part(name, asked)
    except Exception as trouble:  # noqa: BLE001  (whatever it is, it is told)
        traceback.print_exc()
        return parts.failed(name, trouble)


def _part(name: str, asked: argparse.Namespace) -> Part:
    missing: list[Row] = []
    match name:
        case "karpenter":
            sizes = KARPENTER[:1] if asked.small else KARPENTER
            ours = _each("karpenter", sizes, missing)
            theirs: beside.Figures = {}
            if not asked.no_karpenter:
                _say("Karpenter's own benchmark")
                theirs = beside.measured(sizes, 1 if asked.small else asked.runs)
            found = parts.karpenter(ours, theirs, beside.version(), asked.runs)
        case "gpu":
            found = parts.gpu(_each("gpu", GPU[:1] if asked.small else GPU, missing))
        case _:
            instances = 10 if asked.small else asked.instances
            _say(f"{instances} instances against their optimum")
            gaps = optimum.measure(
                range(1, instances + 1), asked.seconds, told=_say, at_most=asked.minutes * 60
            )
            found = parts.optimum(gaps, asked.seconds)
    found.rows += missing
    return found


def _each(name: str, sizes: Iterable[int], missing: list[Row]) -> dict[int, parts.Run]:
    found: dict[int, parts.Run] = {}
    for pods in sizes:
        try:
            found[pods] = _measured(name, pods)
        except Exception as trouble:  # noqa: BLE001  (whatever it is, it is told)
            traceback.print_exc()
            missing.append(parts.not_measured(f"{name}_{pods}", f"{pods:,} pods", trouble))
    return found


def _measured(name: str, pods: int) -> parts.Run:
    began = time.monotonic()
    found = production.measure(production.workload(name, pods))
    faults = checked.faults(found.snapshot, found.plan)
    numbers = found.numbers(floor=name == "karpenter" or pods <= 10000)
    _say(f"{name}, {pods} pods: planned in {found.seconds:.3f} s, {time.monotonic() - began:.0f} s in all")
    _tell(faults or ())
    return parts.Run(numbers, None if faults is None else len(faults))


def _tell(faults: Iterable[str]) -> None:
    for fault in list(faults)[:10]:
        _say(f"  {fault}")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
