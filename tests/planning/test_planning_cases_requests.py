"""Rows of the cases that begin with a pod's own words: what its containers ask for, and what is bought for it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.cluster.decode import Decoder
from controller.domain.plan import Launch
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, offers, policy, pool, world

GPU = "nvidia.com/gpu"
WAITS = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "lastTransitionTime": "2027-01-15T07:59:10Z",
}


def container(
    limits: dict[str, str] | None = None, *, always: bool = False, **requests: str
) -> dict[str, Any]:
    found: dict[str, Any] = {"name": "c", "resources": {"requests": requests, "limits": limits or {}}}
    return found | ({"restartPolicy": "Always"} if always else {})


def bought(spec: dict[str, Any]) -> tuple[list[str], Reason]:
    """Of machines with 1, 2 and 4 GPUs, 22, 44 and 88 CPUs, 120, 240 and 480 GB."""
    waiting = Decoder().pod(
        {
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": spec,
            "status": {"phase": "Pending", "conditions": [WAITS]},
        }
    )
    decided = plan(world(policy=policy(pool(disk_gb=100)), offers=offers(A1, A2, A4), pods=(waiting,)))
    types = [action.offer.type.name for action in decided.actions if isinstance(action, Launch)]
    return types, decided.pods["n/p"].code


ONE, TWO, FOUR = ["1A100.22V"], ["2A100.44V"], ["4A100.88V"]
LAUNCHING, RESOURCES = Reason.LAUNCHING, Reason.RESOURCES


@pytest.mark.parametrize(
    ("containers", "types"),
    [
        ([container({GPU: "1"})], ONE),
        ([container({GPU: "2", "cpu": "1"})], TWO),
        ([container({GPU: "1", "cpu": "30"})], TWO),
        ([container({GPU: "1", "cpu": "30"}, cpu="1")], ONE),
        ([container({GPU: "1"}, cpu="0", memory="0")], ONE),
        ([container({GPU: "1"}), container({GPU: "0"})], ONE),
        ([container({GPU: "1", "example.com/none": "0"})], ONE),
    ],
)
def test_case_23_limits_are_the_requests_where_these_are_missing_and_zero_is_fine(
    containers: list[dict[str, Any]], types: list[str]
) -> None:
    assert bought({"containers": containers}) == (types, LAUNCHING)


@pytest.mark.parametrize(
    ("init", "types", "code"),
    [
        ([container(cpu="90")], [], RESOURCES),
        ([container(cpu="40")], TWO, LAUNCHING),
        ([container(cpu="20"), container(cpu="20"), container(cpu="20")], ONE, LAUNCHING),
        ([container(always=True, cpu="12"), container(always=True, cpu="12")], TWO, LAUNCHING),
        ([container(always=True, cpu="30"), container(cpu="30")], FOUR, LAUNCHING),
        ([container(cpu="20"), container(always=True, cpu="1")], ONE, LAUNCHING),
        ([container({GPU: "4"})], FOUR, LAUNCHING),
    ],
)
def test_case_24_init_containers_take_the_maximum_and_sidecars_add_up(
    init: list[dict[str, Any]], types: list[str], code: Reason
) -> None:
    spec = {"containers": [container({GPU: "1"}, cpu="1")], "initContainers": init}
    assert bought(spec) == (types, code)


@pytest.mark.parametrize(
    ("more", "types", "code"),
    [
        ({"resources": {"requests": {"cpu": "30"}}}, TWO, LAUNCHING),
        ({"resources": {"requests": {"memory": "130Gi"}}}, TWO, LAUNCHING),
        ({"resources": {"limits": {"cpu": "30"}}}, ONE, LAUNCHING),  # its container requests less
        ({"overhead": {"cpu": "22"}}, TWO, LAUNCHING),
        ({"overhead": {"memory": "500Gi"}}, [], RESOURCES),
        ({"containers": [container({GPU: "1"}, **{"ephemeral-storage": "50G"})]}, ONE, LAUNCHING),
        ({"containers": [container({GPU: "1"}, **{"ephemeral-storage": "200G"})]}, [], RESOURCES),
        ({"containers": [container({GPU: "1", "hugepages-2Mi": "2Mi"})]}, [], RESOURCES),
    ],
)
def test_case_25_pod_level_resources_overhead_ephemeral_storage_and_huge_pages_count(
    more: dict[str, Any], types: list[str], code: Reason
) -> None:
    assert bought({"containers": [container({GPU: "1"}, cpu="1")]} | more) == (types, code)
