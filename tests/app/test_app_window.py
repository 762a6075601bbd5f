"""The quiet window: one decision after things calmed down."""

from __future__ import annotations

from controller.app.window import Window


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
