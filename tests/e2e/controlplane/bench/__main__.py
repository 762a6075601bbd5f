"""`make bench-real`: the product measured on a real control plane, with goals. Exits 1 if one is missed.

Needs the programs that `tests/e2e/run` builds, and says so. Progress goes to stderr, the table to stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from kubernetes import config

from controller.sandbox.bench.machine import measured_on
from tests.e2e.controlplane import access
from tests.e2e.controlplane.bench import beside, burst, footprint, latency, requests, rows
from tests.e2e.controlplane.bench.rows import Row
from tests.e2e.controlplane.bench.stage import Stage, say
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.programs import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
Part = Callable[[Stage, bool], Iterable[Row]]
PARTS: dict[str, Part] = {
    "baseline": lambda stage, small: latency.baseline(stage, 5 if small else 20),
    "latency": lambda stage, small: latency.measure(stage, 10 if small else 100),
    "requests": lambda stage, small: requests.measure(stage),
    "burst": lambda stage, small: burst.measure(stage, 100 if small else 1000),
    "footprint": lambda stage, small: _large(stage, 100 if small else 1000),
}


def _large(stage: Stage, nodes: int) -> Iterator[Row]:
    """Last: what it leaves behind ends with the control plane."""
    with footprint.large(stage, nodes) as world:
        started = time.time()
        with stage.controller(world.scene, footprint.SETTINGS, within=120) as controller:
            yield from footprint.measure(world, controller, started)
            yield from beside.measure(world, controller)


def main() -> int:
    asked = _asked()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as folder:
        plane = ControlPlane(_programs(), Path(folder) / "plane")
        found: list[Row] = []
        try:
            plane.start()
            _measure(found, plane, Path(folder), asked.only or list(PARTS), small=asked.small)
        except BaseException:
            say(f"not finished; what was measured until then:\n{rows.table(found)}")
            raise
        finally:
            plane.stop()
    about = measured_on() | {"at": datetime.now(UTC).isoformat(timespec="minutes"), "small": asked.small}
    about["seconds"] = round(time.monotonic() - began)
    if asked.json:
        print(json.dumps({"about": about, "rows": [row.as_json() for row in found]}, indent=1))
    else:
        print(rows.table(found))
        print(f"\n{_sentence(about)}")
    if asked.write:
        rows.write(PAGE, rows.markdown(found, _sentence(about)))
    missed = [row.key for row in found if row.holds is False]
    if missed:
        say(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-real", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="JSON for scripts")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument(
        "--small", action="store_true", help="a tenth of the sizes, to try the program itself"
    )
    parser.add_argument("--only", nargs="*", choices=list(PARTS), help="these parts; all unless given")
    asked = parser.parse_args()
    if asked.write and (asked.small or asked.only):
        parser.error("--write is for whole runs: without --small and --only")
    return asked


def _programs() -> Path:
    found = Path(os.environ.get("CONTROL_PLANE_BIN", ""))
    if not (found / "kube-apiserver").is_file() or not Path(os.environ.get("HELM_BIN", "")).is_file():
        sys.exit(
            "CONTROL_PLANE_BIN and HELM_BIN name no programs; `make bench-real` builds them and says where"
        )
    return found


def _measure(found: list[Row], plane: ControlPlane, folder: Path, parts: list[str], *, small: bool) -> None:
    admin = config.new_client_from_config(str(plane.kubeconfig))
    kubeconfig = access.controller_kubeconfig(plane, admin, os.environ["HELM_BIN"])
    stage = Stage(plane, admin, kubeconfig, folder)
    for name in PARTS:
        if name in parts:
            began = time.monotonic()
            for row in PARTS[name](stage, small):
                found.append(row)
            say(f"{name}: {time.monotonic() - began:.0f} s")


def _sentence(about: dict[str, object]) -> str:
    return (
        f"{about['cores']} cores ({about['cpu']}), Python {about['python']}, {about['system']}; {about['at']}; "
        f"the whole run took {about['seconds']} s."
    )


if __name__ == "__main__":
    sys.exit(main())
