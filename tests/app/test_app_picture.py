"""What of the world is looked at: no more than the decision needs, and no less."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from controller.app import picture
from controller.domain.kube import Node, Pod
from controller.domain.machine import Phase
from controller.domain.plan import Snapshot
from controller.domain.policy import Limits
from tests.planning.worlds import NOW, machine, node, pod, policy

NAME = "home-a100-aaaaaaaaaa"


class View:
    def __init__(self, nodes: list[Node], pods: list[Pod]) -> None:
        self._nodes, self._pods = nodes, pods

    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._nodes)

    def waiting_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self._pods if not pod.node)

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        return tuple(pod for pod in self._pods if pod.node == node)

    def daemonsets(self) -> tuple[()]:
        return ()

    jobs = budgets = daemonsets


def seen(pods: list[Pod], phase: Phase = Phase.READY, **more: Any) -> list[str]:
    return [found.name for found in taken(pods, phase, **more).nodes]


def taken(pods: list[Pod], phase: Phase = Phase.READY, **more: Any) -> Snapshot:
    nodes = [node(NAME), node("cpu", 0), node("gpu", 1)]
    ledger = SimpleNamespace(
        figures={},
        disappointed={},
        given_up={},
        in_vain={},
        launches=[],
        spent_in_month=lambda now: Decimal(7),
    )
    fleet: Any = SimpleNamespace(
        machines=lambda: (machine(NAME, phase=phase),),
        catalogue=SimpleNamespace(offers=()),
        active_refusals=lambda: (),
        scripts_free=lambda: None,
        ledger=ledger,
    )
    view: Any = View(nodes, [*pods, pod("far", 0, node="cpu")])
    return picture.take(policy(**more), view, fleet, NOW)


@pytest.mark.parametrize(
    ("pods", "phase", "all_nodes"),
    [
        ([], Phase.READY, False),
        ([pod("web", 0, node=NAME)], Phase.READY, True),
        ([pod("web", 0, node=NAME)], Phase.DRAINING, True),
        ([pod("web", 0, node=NAME)], Phase.STARTED, False),
        ([pod("web", 0, node=NAME), pod("train", node=NAME)], Phase.READY, False),
        ([pod("exporter", 0, node=NAME, owner_kind="DaemonSet")], Phase.READY, False),
    ],
)
def test_nodes_without_gpus_are_looked_at_only_while_pods_may_have_to_move_there(
    pods: list[Pod], phase: Phase, all_nodes: bool
) -> None:
    assert seen(pods, phase) == (["cpu", "gpu", NAME] if all_nodes else ["gpu", NAME])


def test_all_nodes_are_looked_at_where_limits_count_them() -> None:
    assert seen([], limits=Limits(cluster_wide=True)) == ["cpu", "gpu", NAME]


def test_members_of_a_gang_are_looked_at_wherever_they_run() -> None:
    member = pod("train", annotations={"gpu-autoscaler/gang": "llm", "gpu-autoscaler/gang-size": "2"})
    assert seen([member]) == ["cpu", "gpu", NAME]


def test_what_was_spent_this_month_is_what_the_ledger_has_booked() -> None:
    assert taken([]).spent_this_month == Decimal(7)
