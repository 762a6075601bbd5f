"""Everything that was bought is to go: what does, what stays and why, and that nothing is bought meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.kube import DisruptionBudget, Pod, Selector
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Retire
from controller.domain.policy import Headroom, Policy, Pool
from controller.domain.reason import Reason
from controller.planning.planner import plan, the_long_way
from tests.planning import test_planning_own_machines as switched
from tests.planning.worlds import A1, NOW, machine, node, offers, pod, policy, pool, world

NAME = "home-a100-aaaaaaaaaa"
PROTECTED = {"gpu-autoscaler/do-not-disrupt": "true"}


def here(name: str = "train", gpus: int = 1, owner: str = "ReplicaSet", **more: Any) -> Pod:
    return pod(name, gpus, node=NAME, owner_kind=owner, **more)


def budget(allowed: int) -> DisruptionBudget:
    every = Selector(labels={"app": "x"})
    return DisruptionBudget(name="b", namespace="default", uid="b", allowed=allowed, selector=every)


@pytest.mark.parametrize(
    ("how", "pods", "stays"),
    [
        ("all", [], None),
        ("all", [here()], None),
        ("all", [here(owner="Job")], None),
        ("all", [here(owner="RayCluster")], None),
        ("all", [here(gpus=0)], None),
        ("all", [here(owner="")], Reason.IN_USE),
        ("all", [here(gpus=0, owner="")], Reason.IN_USE),
        ("all", [here(owner="", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"})], None),
        ("all", [here(owner="DaemonSet", gpus=0)], None),
        ("all", [here(annotations=PROTECTED)], Reason.DO_NOT_DISRUPT),
        ("force", [here(owner="")], None),
        ("force", [here(owner="", annotations=PROTECTED)], Reason.DO_NOT_DISRUPT),
        ("after-work", [], None),
        ("after-work", [here(gpus=0)], None),
        ("after-work", [here()], Reason.IN_USE),
        ("after-work", [here(owner="Job", gpus=0)], Reason.IN_USE),
    ],
)  # fmt: skip
def test_what_goes_and_what_stays(how: str, pods: list[Pod], stays: Reason | None) -> None:
    decided = plan(world(machines=(machine(),), nodes=(node(NAME),), pods=pods, policy=policy(retire=how)))
    assert [a.machine for a in decided.actions if isinstance(a, Retire)] == ([] if stays else [NAME])
    assert decided.machines[NAME].code is (stays or Reason.RETIRED)


def to_go(pools: tuple[Pool, ...] = (), **more: Any) -> Policy:
    return policy(*pools, retire="all", **more)


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_budget_of_disruption_is_asked(allowed: int) -> None:
    at = world(
        machines=(machine(),), nodes=(node(NAME),), pods=[here(labels={"app": "x"})],
        policy=policy(retire="force"), budgets=(budget(allowed),),
    )  # fmt: skip
    assert plan(at).machines[NAME].code is (Reason.RETIRED if allowed else Reason.PDB)


@pytest.mark.parametrize(
    "given",
    [
        {"pause": "scale-down"},
        {"pause": "all"},
        {"pools": (pool(pause="scale-down"),)},
    ],
)
def test_a_pause_stops_it(given: dict[str, Any]) -> None:
    at = world(machines=(machine(),), nodes=(node(NAME),), policy=to_go(**given))
    assert plan(at).machines[NAME].code is Reason.PAUSED


@pytest.mark.parametrize(
    ("ready", "gpus", "ago", "stays"),
    [
        (False, 1, 31, True),
        (False, 1, 29, False),
        (False, 0, 31, False),
        (True, 1, 31, False),
    ],
)
def test_work_that_nobody_sees_end_keeps_it(ready: bool, gpus: int, ago: float, stays: bool) -> None:
    leaving = here(gpus=gpus, deleting_at=NOW - ago)
    silent = replace(node(NAME), ready=ready, ready_since=NOW - 60)
    at = world(machines=(machine(),), nodes=(silent,), pods=[leaving], policy=policy(retire="force"))
    assert plan(at).machines[NAME].code is (Reason.IN_USE if stays else Reason.RETIRED)


def test_an_annotation_on_the_node_keeps_it() -> None:
    kept = node(NAME, annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"})
    at = world(machines=(machine(),), nodes=(kept,), policy=policy(retire="force"))
    assert plan(at).machines[NAME].code is Reason.DO_NOT_DISRUPT


def test_cooldown_minimum_age_windows_and_budgets_keep_nothing() -> None:
    young = machine(intended_at=NOW - 60, ready_at=NOW - 30)
    strict: dict[str, Any] = {
        "pools": (pool(min=1),), "cooldown": 9e9, "min_age": 9e9, "disruption_budget": "0",
    }  # fmt: skip
    at = world(machines=(young,), nodes=(node(NAME),), policy=to_go(**strict))
    assert [type(action) for action in plan(at).actions] == [Retire]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"pools": (pool(min=2),)},
        {"headroom": (Headroom(pool="a100", gpus=2),)},
    ],
)
def test_nothing_is_bought_for_anybody_and_everybody_who_waits_is_told(more: dict[str, Any]) -> None:
    waits = [pod("first", 1), pod("second", 8), pod("without", 0)]
    at = world(pods=waits, offers=offers(A1), policy=to_go(**more))
    for decided in (plan(at), plan(replace(at, pods=tuple(reversed(at.pods))))):
        assert not [action for action in decided.actions if isinstance(action, Launch)]
        assert {key: why.code for key, why in decided.pods.items()} == {
            "default/first": Reason.RETIRED,
            "default/second": Reason.RETIRED,
        }
    bought = the_long_way(replace(at, policy=replace(at.policy, retire=""))).actions
    assert [action for action in bought if isinstance(action, Launch)]


def test_one_that_is_on_its_way_is_told_of_and_goes_later() -> None:
    booting = machine(phase=Phase.BOOTING, ready_at=0.0)
    decided = plan(world(machines=(booting,), policy=policy(retire="all")))
    assert (decided.actions, decided.machines[NAME].code) == ((), Reason.STARTING)


@pytest.mark.parametrize("busy", [True, False])
def test_machines_that_are_switched_go_off_as_they_always_do(busy: bool) -> None:
    at = switched.world(
        switched.own("w2", 2), on={"w2": NOW - 7200}, nodes=(switched.idle("w2", 2),),
        pods=[pod("train", 1, node="w2", owner_kind="ReplicaSet")] if busy else [], bought=(machine(),),
    )  # fmt: skip
    decided = plan(replace(at, policy=replace(at.policy, retire="all")))
    assert switched.down(decided) == ([] if busy else ["w2"])
