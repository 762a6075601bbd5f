"""What a measurement was made on; numbers without it mean nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def measured_on() -> dict[str, Any]:
    model = ""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": model or platform.processor(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }


def resident_mib(pid: int) -> tuple[float, float]:
    """Resident memory of a process now, and the most it ever had."""
    found: dict[str, float] = {}
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key in ("VmRSS", "VmHWM"):
            found[key] = int(value.split()[0]) / 1024
    return round(found["VmRSS"], 1), round(found["VmHWM"], 1)
