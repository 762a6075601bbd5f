"""`make bench-real`: the product measured on a real control plane, with goals. Exits 1 if one is missed.

Needs the programs that `tests/e2e/run` builds, and says so. Progress goes to stderr, the table to stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from kubernetes import config

from controller.sandbox.bench.machine import measured_on
from tests.e2e.controlplane import access
from tests.e2e.controlplane.bench import rows
from tests.e2e.controlplane.bench.parts import PARTS, Run, carry_out
from tests.e2e.controlplane.bench.rows import Part
from tests.e2e.controlplane.bench.stage import Stage, say
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.programs import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"


def main() -> int:
    asked = _asked()
    programs = _programs()
    began = time.monotonic()
    found: list[Part] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as folder:
        plane = ControlPlane(programs, Path(folder) / "plane")
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
        print(json.dumps({"about": about, "parts": [part.as_json() for part in found]}, indent=1))
    else:
        print(f"{rows.table(found)}\n\n{_sentence(about)}")
    if asked.write:
        rows.write(PAGE, rows.markdown(found, _sentence(about)))
    missed = [row.key for part in found for row in part.rows if row.holds is False]
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


def _measure(found: list[Part], plane: ControlPlane, folder: Path, names: list[str], *, small: bool) -> None:
    admin = config.new_client_from_config(str(plane.kubeconfig))
    kubeconfig = access.controller_kubeconfig(plane, admin, os.environ["HELM_BIN"])
    with contextlib.ExitStack() as until_the_end:
        run = Run(Stage(plane, admin, kubeconfig, folder), small, until_the_end)
        for name in [name for name in PARTS if name in names]:
            began = time.monotonic()
            carry_out(name, run, found)
            say(f"{name}: {time.monotonic() - began:.0f} s")


def _sentence(about: dict[str, object]) -> str:
    return (
        f"{about['cores']} cores ({about['cpu']}), Python {about['python']}, {about['system']}; {about['at']}; "
        f"the whole run took {about['seconds']} s."
    )


if __name__ == "__main__":
    sys.exit(main())
