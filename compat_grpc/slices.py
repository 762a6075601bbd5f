"""Pools whose GPUs cluster-autoscaler does not know: slices (`nvidia.com/mig-…`) and renamed ones (`nvidia.com/gpu.shared`).

A Node that carries the GPU label counts as ready to it only with a resource that it knows, so theirs carry none. What the
label is for, that nobody takes a Node for ready before its GPUs are there, a startup taint does for them: every release
goes by its key alone, so it may be one that keeps no pod away.
"""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.policy import Policy, Pool
from controller.domain.resources import GPU
from controller.planning.predict import gpu_resources


def shaped(policy: Policy) -> Policy:
    pools = tuple(replace(pool, waits_by_taint=without_whole_gpus(pool)) for pool in policy.pools)
    return policy if pools == policy.pools else replace(policy, pools=pools)


def without_whole_gpus(pool: Pool) -> bool:
    """Had by claims they are no resource of the Node at all: nothing tells when they are there."""
    return pool.resource_claims != "always" and not gpu_resources(pool, 1).get(GPU)
