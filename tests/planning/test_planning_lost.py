"""Machines that are of no use and cost their price: shut down in the cloud, or silent for long."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.plan import Launch, MarkIdle, Plan, Retire, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import NOW, machine, node, pod, policy, pool, world

IDLE = tuple(f"home-a100-{letter * 10}" for letter in "abcd")
SICK = tuple(f"home-a100-{letter * 10}" for letter in "wxyz")
LONG = NOW - 601  # longer than deadlines.stopped


def gone(decided: Plan) -> list[str]:
    return [action.machine for action in decided.actions if isinstance(action, Retire)]


def beside(*sick: dict[str, Any], budget: str = "1", **more: Any) -> Snapshot:
    """Four idle machines, and sick ones whose pods will never be seen to end."""
    idle_since = {"gpu-autoscaler/idle-since": "2026-11-18T00:00:00+00:00"}
    lives = [
        (machine(name, stopped_at=of.pop("stopped_at", 0.0)), node(name, **{"ready": False, **of}))
        for name, of in zip(SICK, sick, strict=False)
    ]
    return world(
        machines=(*(machine(name) for name in IDLE), *(one for one, _ in lives)),
        nodes=(*(node(name, annotations=idle_since) for name in IDLE), *(its for _, its in lives)),
        pods=tuple(pod(f"on-{one.name}", node=one.name, deleting_at=LONG) for one, _ in lives),
        policy=policy(disruption_budget=budget),
        **more,
    )


@pytest.mark.parametrize(
    ("sick", "budget", "going"),
    [
        ([], "1", 1),
        ([{"ready_since": NOW - 30}], "1", 0),  # it may come back, and more may follow it
        ([{"ready_since": NOW - 599}], "2", 1),
        ([{}], "1", 0),  # nobody knows since when
        ([{"ready_since": LONG}], "1", 1),
        ([{"ready_since": LONG}] * 4, "1", 1),
        ([{"ready_since": LONG}] * 4, "12%", 1),
        ([{"ready_since": LONG}] * 4, "25%", 2),
        ([{"ready_since": NOW - 30, "stopped_at": NOW - 60}] * 4, "1", 1),  # the cloud says why
        ([{"ready_since": LONG, "stopped_at": LONG}] * 4, "12%", 1),
        ([{"ready_since": LONG}, {"ready_since": NOW - 30}], "2", 1),
        ([{"ready_since": LONG}] * 4, "0", 0),
    ],
)  # fmt: skip
def test_a_machine_that_is_lost_for_good_takes_nothing_from_idle_ones_beside_it(
    sick: list[dict[str, Any]], budget: str, going: int
) -> None:
    decided = plan(beside(*(dict(of) for of in sick), budget=budget))
    assert len(gone(decided)) == going
    assert set(gone(decided)) <= set(IDLE)


def test_a_machine_that_is_shut_down_is_told_with_what_it_costs_and_when_it_goes() -> None:
    decided = plan(beside({"stopped_at": NOW - 60, "ready_since": NOW - 20}))
    said = decided.machines[SICK[0]]
    assert said.code is Reason.STOPPED
    assert "1.29 an hour" in said.message
    assert "deadlines.stopped" in said.message
    assert decided.wake_at is not None
    assert NOW < decided.wake_at <= NOW - 60 + 600


@pytest.mark.parametrize(
    ("of_node", "of_pod", "settings", "words"),
    [
        ({"annotations": {"gpu-autoscaler/do-not-disrupt": "true"}}, {}, {}, "the node says gpu-autoscaler/do-not-disrupt"),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}}, {}, {}, "scale-down-disabled"),
        ({}, {"annotations": {"gpu-autoscaler/do-not-disrupt": "true"}}, {}, "pod default/work says"),
        ({}, {}, {"pause": "scale-down"}, "scale-down is paused"),
        ({"annotations": {"gpu-autoscaler/pause": "all"}}, {}, {}, "scale-down is paused"),
        ({"ready": True}, {}, {}, "its Node is Ready all the same"),
    ],
)  # fmt: skip
def test_what_keeps_a_machine_that_is_shut_down_is_told_with_what_it_costs(
    of_node: dict[str, Any], of_pod: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    name = SICK[0]
    snapshot = world(
        machines=(machine(name, stopped_at=LONG),),
        nodes=(node(name, **{"ready": False, "ready_since": LONG} | of_node),),
        pods=(pod("work", node=name, **of_pod),),
        policy=policy(**settings),
    )
    said = plan(snapshot).machines[name]
    assert said.code is Reason.STOPPED
    assert words in said.message
    assert "1.29 an hour" in said.message


def test_the_planner_neither_marks_nor_removes_what_is_shut_down_since_the_fleet_does() -> None:
    snapshot = beside({"stopped_at": LONG, "ready_since": LONG}, budget="100%")
    for pods in (snapshot.pods, ()):
        decided = plan(replace(snapshot, pods=pods))
        assert SICK[0] not in gone(decided)
        assert SICK[0] not in [action.machine for action in decided.actions if isinstance(action, MarkIdle)]


@pytest.mark.parametrize(
    ("silent_since", "code"), [(NOW - 30, Reason.IN_USE), (LONG, Reason.SILENT), (None, Reason.IN_USE)]
)
def test_a_silent_machine_with_work_on_it_stays_and_is_told_with_what_it_costs(
    silent_since: float | None, code: Reason
) -> None:
    decided = plan(beside({"ready_since": silent_since}))
    said = decided.machines[SICK[0]]
    assert said.code is code
    assert f"pod default/on-{SICK[0]}" in said.message
    if silent_since and code is Reason.IN_USE:
        assert decided.wake_at is not None
        assert decided.wake_at <= silent_since + 600
    if code is Reason.SILENT:
        assert "1.29 an hour" in said.message
        assert SICK[0] not in gone(decided)


def test_a_silent_machine_without_work_is_idle_and_goes_as_every_other() -> None:
    idle = {"gpu-autoscaler/idle-since": "2026-11-18T00:00:00+00:00"}
    snapshot = beside({"ready_since": LONG, "annotations": idle}, budget="100%")
    assert SICK[0] in gone(plan(replace(snapshot, pods=())))


@pytest.mark.parametrize("sick", [{"ready_since": LONG}, {"ready_since": NOW - 30, "stopped_at": NOW - 60}])
def test_a_machine_that_is_lost_for_good_never_stands_in_for_one_of_the_minimum(sick: dict[str, Any]) -> None:
    snapshot = replace(beside(dict(sick)), policy=policy(pool(min=3), disruption_budget="100%"))
    decided = plan(snapshot)
    assert len(gone(decided)) == 1
    assert sum(decided.machines[name].code is Reason.MIN_SIZE for name in IDLE) == 3


@pytest.mark.parametrize(
    ("silent", "least", "ordered"),
    [
        ([NOW - 30], 5, 0),  # it may come back
        ([LONG], 4, 0),
        ([LONG], 5, 1),
        ([LONG, LONG], 6, 2),
        ([LONG, LONG, LONG], 7, 0),  # more than a fifth, and three: no new machine mends that
        ([LONG, NOW - 30], 6, 1),
    ],
)
def test_a_minimum_does_not_count_on_a_machine_whose_node_is_silent_for_long(
    silent: list[float], least: int, ordered: int
) -> None:
    """Another one is ordered in its place, and then it is one too many, and goes once it is idle."""
    snapshot = beside(*({"ready_since": since} for since in silent))
    for pods in (snapshot.pods, ()):
        decided = plan(replace(snapshot, pods=pods, policy=policy(pool(min=least, max=9))))
        assert sum(isinstance(action, Launch) for action in decided.actions) == ordered
    full = plan(replace(snapshot, policy=policy(pool(min=least, max=4 + len(silent)))))
    assert not any(isinstance(action, Launch) for action in full.actions)


def test_an_idle_machine_that_is_lost_for_good_is_removed_from_above_the_minimum_alone() -> None:
    idle = {"gpu-autoscaler/idle-since": "2026-11-18T00:00:00+00:00"}
    snapshot = replace(beside({"ready_since": LONG, "annotations": idle}), pods=())
    for least in (4, 5):
        decided = plan(replace(snapshot, policy=policy(pool(min=least), disruption_budget="100%")))
        assert gone(decided) == [SICK[0]] * (least == 4)
