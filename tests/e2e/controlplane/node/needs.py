"""What this computer must offer for a real kubelet, beyond what is built."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.e2e.controlplane.node.machine import CNI, RUNC
from tests.e2e.programs import ROOT

_RIGHTS = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}


def lacking() -> str:
    """What is missing, and how to come by it; "" where nothing is."""
    if os.geteuid() != 0:
        return "a real kubelet needs root"
    status = Path("/proc/self/status").read_text()
    held = int(status.partition("CapEff:")[2].split()[0], 16)
    if rights := [name for name, bit in _RIGHTS.items() if not held >> bit & 1]:
        return f"a real kubelet needs {' and '.join(rights)}, which this root does not have"
    if not shutil.which("unshare"):
        return "a real kubelet's namespaces need unshare, of util-linux"
    if absent := [str(path) for path in (RUNC, CNI / "bridge", CNI / "host-local") if not path.exists()]:
        packages = " ".join((ROOT / "tests" / "e2e" / "packages").read_text().split())
        return f"a real kubelet needs {', '.join(absent)}: apt-get install --no-install-recommends {packages}"
    return ""
