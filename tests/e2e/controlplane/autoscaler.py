"""cluster-autoscaler in scenarios: real binaries named by CLUSTER_AUTOSCALER_BIN, else a scripted stand-in.

Whichever it is, it gets the same control plane and reaches the same server. How many scenarios ran with a real
one is told at the end of the run, because a stand-in proves what its author knew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.e2e.conftest import STAND_IN
from tests.e2e.controlplane.plane import free_port
from tests.e2e.programs import Started

FLAGS: Mapping[str, str] = {
    "scan-interval": "1s",
    "leader-elect": "false",
    "v": "4",
    "scale-down-unneeded-time": "5s",
    "scale-down-unready-time": "20s",
    "scale-down-delay-after-add": "0s",
    "scale-down-delay-after-failure": "3s",
    "max-node-provision-time": "45s",
    "max-node-startup-time": "45s",
    "initial-node-group-backoff-duration": "10s",
    "max-node-group-backoff-duration": "20s",
    "unremovable-node-recheck-timeout": "0s",
    "node-delete-delay-after-taint": "0s",
    "new-pod-scale-up-delay": "0s",
    "node-info-cache-expire-time": "1m",
    "expander": "least-waste",
}


def drivers() -> list[str]:
    """Paths of binaries, or the stand-in."""
    named = [path for path in os.environ.get("CLUSTER_AUTOSCALER_BIN", "").split(":") if path]
    return named or [STAND_IN]


def label(driver: str) -> str:
    return Path(driver).name


@cache
def _known_flags(binary: str) -> str:
    """Flags come and go between releases."""
    done = subprocess.run([binary, "--help"], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def start(
    driver: str,
    kubeconfig: Path,
    address: str,
    home: Path,
    *,
    certificates: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
    name: str = "autoscaler",
) -> Started:
    """`certificates`: cert, key and cacert; without them it speaks plaintext."""
    told = home / f"{name}-cloud.yaml"
    lines = {"address": address, "grpc_timeout": "5s", **(certificates or {})}
    told.write_text("".join(f'{key}: "{value}"\n' for key, value in lines.items()))
    wanted = {**FLAGS, **(flags or {})}
    if driver == STAND_IN:
        root = Path(__file__).resolve().parents[3]
        command = [sys.executable, "-m", "tests.e2e.controlplane.standin"]
        command += ["--kubeconfig", str(kubeconfig), "--cloud-config", str(told)]
        command += [f"--{key}={value}" for key, value in wanted.items()]
        return Started(command, home, {"PYTHONPATH": str(root)})
    known = _known_flags(driver)
    command = [
        *(_as_host(name) if wanted["leader-elect"] == "true" else ()),
        driver, "--cloud-provider=externalgrpc", f"--cloud-config={told}", f"--kubeconfig={kubeconfig}",
        f"--address=127.0.0.1:{free_port()}",
        *(f"--{key}={value}" for key, value in wanted.items() if f"-{key}" in known),
    ]  # fmt: skip
    return Started(command, home)


def _as_host(name: str) -> list[str]:
    """Several of one host are one to each other: they elect by host name. So each gets a name of its own."""
    apart = ["unshare", "--uts", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    return [*apart, "sh", "-c", 'hostname "$0" && exec "$@"', name]
