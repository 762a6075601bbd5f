"""A plan while nobody waits looks only at what may go, and is the same plan that the long way makes."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.domain.kube import DeviceClaim, DeviceRequest, Job, PodDeviceClaim
from controller.domain.machine import Phase
from controller.domain.plan import Snapshot
from controller.domain.policy import Billing, Headroom, Limits
from controller.planning import planner
from controller.planning.planner import plan, the_long_way
from controller.planning.rest import nobody_waits
from controller.sandbox.bench.planner import gpu
from tests.planning.test_planning_laws import text, worlds
from tests.planning.worlds import A100S, machine, node, offers, pod, policy, pool, world

NAME = "home-a100-aaaaaaaaaa"


def at_rest(found: Snapshot) -> Snapshot:
    """The same world without whatever waits for GPUs, and without a minimum that is not there."""
    pods = tuple(p for p in found.pods if p.node or not p.shape.requests.get("nvidia.com/gpu"))
    pools = tuple(replace(p, min=0) for p in found.policy.pools)
    return replace(found, pods=pods, policy=replace(found.policy, pools=pools))


def changed(found: Snapshot, draw: random.Random, keep_minimum: bool, more: str) -> Snapshot:
    quiet = at_rest(found)
    if keep_minimum:
        quiet = replace(quiet, policy=replace(quiet.policy, pools=found.policy.pools))
    if more == "budget":
        other = replace(
            quiet.policy,
            limits=Limits(price_per_month=Decimal(1), cluster_wide=True),
            billing=Billing(drain_idle=True),
            min_age=300.0,
        )
        quiet = replace(quiet, policy=other, spent_this_month=Decimal(draw.choice((0, 5))))
    elif more == "claims" and quiet.nodes:
        claimed = (PodDeviceClaim(name="gpu", claim="one"),)
        quiet = replace(
            quiet,
            pods=(*quiet.pods, pod("holder", 0, node=draw.choice(quiet.nodes).name, device_claims=claimed)),
            device_claims=draw.choice(
                ((), (DeviceClaim(namespace="default", name="one", requests=(DeviceRequest(admin=True),)),))
            ),
        )
    elif more == "jobs" and quiet.nodes:
        part = pod("part", node=draw.choice(quiet.nodes).name, owner_kind="Job", owner_uid="uid-j")
        jobs = (Job(namespace="default", name="j", uid="uid-j", parallelism=3),)
        quiet = replace(quiet, pods=(*quiet.pods, part), jobs=jobs)
    return quiet


def test_where_nobody_waits_both_ways_make_the_same_plan() -> None:
    ways = {True: 0, False: 0}

    @settings(max_examples=80, deadline=None, derandomize=True, database=None)
    @given(
        worlds(),
        st.randoms(use_true_random=False),
        st.booleans(),
        st.sampled_from(["", "budget", "claims", "jobs"]),
    )
    def compare(found: Snapshot, draw: random.Random, keep_minimum: bool, more: str) -> None:
        quiet = changed(found, draw, keep_minimum, more)
        ways[nobody_waits(quiet)] += 1
        if nobody_waits(quiet):
            assert plan(quiet) == the_long_way(quiet)
            assert text(plan(quiet)) == text(the_long_way(quiet))
        turned = {
            name: tuple(draw.sample(getattr(quiet, name), len(getattr(quiet, name))))
            for name in ("pods", "nodes", "machines", "offers")
        }
        assert text(plan(replace(quiet, **turned))) == text(plan(quiet))

    compare()
    assert ways[True] > 40  # or nothing would be compared


def test_beside_a_thousand_nodes_both_ways_make_the_same_plan() -> None:
    found = gpu.workload(0, nodes=120).snapshot()
    assert nobody_waits(found)
    assert plan(found) == the_long_way(found)


def resting(**more: Any) -> Snapshot:
    given: dict[str, Any] = {
        "machines": (machine(),), "nodes": (node(NAME),), "offers": offers(*A100S), "pods": (pod(node=NAME),)
    } | more  # fmt: skip
    return world(**given)


@pytest.mark.parametrize(
    "found",
    [
        resting(),
        resting(pods=(pod("web", 0),)),
        resting(pods=(pod("done", phase="Succeeded", node=NAME),)),
        resting(policy=policy(pool(min=1))),
        resting(pods=(pod("share", 0, annotations={"gpu-fraction": "0.5"}),)),
    ],
)
def test_nothing_is_packed_while_nobody_waits(found: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Snapshot) -> None:
        raise AssertionError("it went the long way")

    monkeypatch.setattr(planner, "draft", never)
    assert set(plan(found).machines) == {NAME}


ADMIN = DeviceClaim(namespace="default", name="one", requests=(DeviceRequest(admin=True),))


@pytest.mark.parametrize(
    "found",
    [
        resting(pods=(pod(),)),
        resting(pods=(pod(waiting=False),)),
        resting(pods=(pod("claim", 0, device_claims=(PodDeviceClaim(name="a", claim="b"),)),)),
        resting(policy=policy(pool(min=2))),
        resting(machines=(machine(phase=Phase.DRAINING),), policy=policy(pool(min=1))),
        resting(policy=policy(headroom=(Headroom(pool="a100", gpus=1),))),
        resting(policy=policy(consolidate="cheaper")),
        resting(device_claims=(ADMIN,)),
        resting(pods=(pod("share", 0, annotations={"gpu-fraction": "0.5"}),), policy=policy(fractions="kai")),
    ],
)
def test_whatever_could_lead_to_a_purchase_or_a_move_goes_the_long_way(found: Snapshot) -> None:
    assert not nobody_waits(found)
