"""Who decides sizes: the planner, or somebody else who is installed beside it and named by an entry point.

cluster-autoscaler's driver needs grpc, which this program neither imports nor mentions without it. A driver is a
function `serve(loaded, kubeconfig, listen)` under the group below; it runs until the process is told to end.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from controller.app.exits import CONFIGURATION, Ends
from controller.config.load import Loaded

GROUP = "verda_gpu_autoscaler.drivers"
PLANNER, EXTERNALGRPC, AUTO = "planner", "externalgrpc", "auto"

Serve = Callable[[Loaded, str, str], None]


def find(name: str) -> Serve | None:
    """The driver's function; None for the planner. `auto` is externalgrpc where it is installed."""
    if name == PLANNER:
        return None
    if name not in (EXTERNALGRPC, AUTO):
        raise Ends(CONFIGURATION, f"--driver {name!r}: expected {PLANNER}, {EXTERNALGRPC} or {AUTO}")
    found = [point for point in entry_points(group=GROUP) if point.name == EXTERNALGRPC]
    if not found:
        if name == AUTO:
            return None
        raise Ends(
            CONFIGURATION,
            f"--driver {name}: it is not installed; it comes with a later version, and --driver {PLANNER} needs "
            "no cluster-autoscaler beside it",
        )
    serve: Serve = found[0].load()
    return serve
