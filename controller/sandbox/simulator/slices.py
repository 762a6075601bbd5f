"""GPUs that are cut into several (MIG, time-slicing): what `resources` of a pool says of its machines, and faults do to any.

Only `nvidia.com/gpu` is simulated: pods of a simulation ask for nothing else.
"""

from __future__ import annotations

from controller.domain.policy import Policy
from controller.domain.resources import GPU
from controller.sandbox.simulator.schedule import Entry

_INTENT = "?" * 10


def pools_cut(policy: Policy, cluster_id: str) -> dict[str, int]:
    """By a pattern that only hostnames of the pool match: how many GPUs its Nodes show."""
    cut = {pool.name: pool.resources.get(GPU, 0) for pool in policy.pools}
    return {f"{cluster_id}-{name}-{_INTENT}": gpus for name, gpus in cut.items() if gpus}


def not_simulated(policy: Policy) -> list[str]:
    """Pools whose Nodes would show other devices."""
    return [
        f"{pool.name} ({', '.join(more)})"
        for pool in policy.pools
        if (more := sorted({*pool.resources} - {GPU}))
    ]


def most_cut(entry: Entry) -> list[int]:
    return list((entry.get("cluster_knobs") or {}).get("gpus_sliced", {}).values())
