"""Pods without GPUs live beside the works: machines are taken away from under them, as the API allows it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controller.sandbox.cluster.resources import PODS
from controller.sandbox.simulator.judge import Judge
from controller.sandbox.simulator.process import Process
from controller.sandbox.simulator.residents import APPS, NAMESPACE
from controller.sandbox.simulator.strangers import PLAIN
from controller.sandbox.simulator.workload import standard
from controller.sandbox.wire import Request
from tests.simulator.days import Day
from tests.simulator.stories import STORIES


@pytest.fixture
def evictions(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """By the status of their answers."""
    seen: Counter[int] = Counter()
    arrived = Judge.cluster_arrived

    def count(judge: Judge, process: Process, request: Request, status: int) -> None:
        if request.path.endswith("/eviction"):
            assert request.path.split("/")[4] == NAMESPACE
            seen[status] += 1
        arrived(judge, process, request, status)

    monkeypatch.setattr(Judge, "cluster_arrived", count)
    return seen


def living(day: Day) -> list[dict[str, Any]]:
    return [
        p for p in day.simulation.worlds.cluster.store.every(PODS) if p["metadata"]["namespace"] == NAMESPACE
    ]


@pytest.mark.parametrize("faults", ["none", "harsh"])
def test_in_a_course_pods_are_evicted_and_evictions_refused(faults: str, evictions: Counter[int]) -> None:
    day = Day(3, 8, faults=faults)
    assert day.result["violations"] == []
    assert day.result["pods"] == day.result["pods_run"] == len(standard(3, 8))
    assert day.result["busy_evictions"] == 0
    assert evictions[201] >= 5
    assert evictions[429] >= 1


def test_at_the_end_they_run_on_their_own_node() -> None:
    pods = living(Day(3, 2))
    assert {pod["spec"]["nodeName"] for pod in pods} == {PLAIN}
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert Counter(pod["metadata"]["labels"]["app"] for pod in pods) == {
        app.name: app.replicas for app in APPS
    }


def test_they_buy_no_machine() -> None:
    day = Day(1, 1.0, works=[], residents=True)
    assert (day.result["launches"], day.result["pods"], day.result["violations"]) == (0, 0, [])
    assert len(living(day)) == sum(app.replicas for app in APPS)


def test_a_critical_one_leaves_a_machine_last(
    evictions: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    before = Judge.cluster_asked

    def note(judge: Judge, process: Process, request: Request) -> None:
        if request.path.endswith("/eviction"):
            asked.append(request.path.split("/")[6].split("-")[0])
        before(judge, process, request)

    monkeypatch.setattr(Judge, "cluster_asked", note)
    for story in STORIES["pods without GPUs leave first"]:
        assert story(0).result["violations"] == []
    assert evictions[429] >= 1  # by a budget: nothing else is wrong
    assert asked[-1] == "names"
    assert asked.count("names") == 1


def test_who_has_lost_the_lease_asks_nobody_to_leave(evictions: Counter[int]) -> None:
    for story in STORIES["the lease is lost while pods are asked to leave"]:
        assert story(0).result["violations"] == []
    assert evictions[429] >= 5
