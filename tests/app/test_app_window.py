"""The quiet window: one decision after things calmed down."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.app.window import Window
from controller.cluster.index import PodIndex
from tests.planning.worlds import pod


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_events_the_tick_decides() -> None:
    assert Window(0.1, 1.0, Clock()).due(110.0) == 110.0


def test_an_event_is_followed_by_a_quiet_window() -> None:
    clock = Clock()
    window = Window(0.1, 1.0, clock)
    window.note()
    assert window.due(110.0) == 100.1


def test_more_events_extend_the_window_and_never_beyond_the_longest() -> None:
    clock = Clock()
    window = Window(0.1, 1.0, clock)
    for _ in range(30):
        window.note()
        clock.now += 0.05
    assert window.due(110.0) == 101.0


def test_the_end_of_something_of_our_own_needs_no_quiet() -> None:
    clock = Clock()
    window = Window(0.1, 1.0, clock)
    window.hurry()
    assert window.due(110.0) == 100.0


async def test_waiting_starts_a_new_window() -> None:
    clock = Clock()
    window = Window(0.0, 1.0, clock)
    window.note()
    await window.wait(110.0)
    assert window.due(110.0) == 110.0


class Demand:
    """Pods as the watch brings them, and the window that they open."""

    def __init__(self) -> None:
        self.clock, self.index = Clock(), PodIndex()
        self.window = Window(0.1, 1.0, self.clock)

    def comes(self, found: Any) -> None:
        if "demand" in self.index.put(found).kinds:
            self.window.note()


def test_case_01_one_pod_and_then_silence_is_one_decision_after_the_quiet_window() -> None:
    demand = Demand()
    demand.comes(pod())
    demand.clock.now += 30
    assert demand.window.due(200.0) == 100.1


def test_case_02_the_same_pod_updated_again_and_again_does_not_extend_the_window() -> None:
    demand = Demand()
    first = pod()
    demand.comes(first)
    for number in range(30):
        demand.clock.now += 0.05
        demand.comes(
            msgspec.structs.replace(
                first, message=f"0/{number} nodes are available", unschedulable_since=demand.clock.now
            )
        )
        demand.comes(first)
    assert demand.window.due(200.0) == 100.1


def test_case_03_new_pods_that_keep_arriving_extend_the_window_to_its_maximum() -> None:
    demand = Demand()
    for number in range(30):
        demand.comes(pod(f"p{number}"))
        assert demand.window.due(200.0) == min(demand.clock.now + 0.1, 101.0)
        demand.clock.now += 0.05
    assert len(demand.index.waiting()) == 30
