from __future__ import annotations

from collections.abc import Sequence

from controller.sandbox.simulator.shrink import as_test, reduced, shrink
from controller.sandbox.simulator.workload import Work


def test_what_does_not_matter_is_left_out() -> None:
    assert reduced(range(100), lambda part: {17, 62} <= set(part)) == [17, 62]
    assert reduced(range(9), lambda part: True) == []
    assert reduced([4], lambda part: 4 in part) == [4]


def test_a_course_is_reduced_to_the_events_and_pods_that_matter_and_written_as_a_test() -> None:
    works = [Work(f"pod-{n}", float(n), 60.0, 1, 1000, 1024) for n in range(8)]
    trouble = [{"at_s": n, "controller": "die"} for n in range(20)]

    def violates(pods: Sequence[Work], events: Sequence[dict[str, object]]) -> list[str]:
        bad = any(pod.name == "pod-5" for pod in pods) and any(event["at_s"] == 13 for event in events)
        return ["it broke"] if bad else []

    pods, events, told = shrink(works, trouble, violates)
    assert ([pod.name for pod in pods], events, told) == (["pod-5"], [trouble[13]], ["it broke"])
    compile(as_test(7, 1.0, pods, events, told[0]), "reduced.py", "exec")
