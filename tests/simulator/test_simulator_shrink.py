from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from controller.sandbox.simulator import simulation
from controller.sandbox.simulator.command import Asked, settings_of, shrunk
from controller.sandbox.simulator.settings import JOIN, apart_from_standard, default_settings, loaded_from
from controller.sandbox.simulator.shrink import as_test, reduced, shrink
from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.workload import Work

SMALL_ONLY: dict[str, Any] = {
    "cluster_id": "home",
    "pools": [{"name": "small", "min_gpu_memory_gb": 1, "max_gpus": 1, "max": 3, "labels": {"team": "ml"}}],
    "limits": {"machines": 2, "price_per_hour": 9.5},
    "scale_up": {"strategy": "cheapest"},
    "scale_down": {"cooldown": "3m"},
    "timing": {"tick": "60s"},
    "join": JOIN,
}


def written(path: Path, what: object) -> str:
    path.write_text(what if isinstance(what, str) else json.dumps(what))
    return str(path)


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
    compile(as_test(7, 1.0, pods, events, told[0], {}), "reduced.py", "exec")
    assert "residents=True" in as_test(7, 1.0, pods, events, told[0], {}, residents=True)


@pytest.mark.parametrize("workload", ["standard", "big"])
def test_a_test_of_a_default_run_tells_only_what_differs_from_a_standard_day(workload: str) -> None:
    apart = apart_from_standard(settings_of(Asked(hours=1.0, faults="none", workload=workload)))
    assert list(apart) == ([] if workload == "standard" else ["pools"])


def test_what_is_left_of_a_failing_run_has_its_pods_its_faults_and_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the settings of a standard day the machine would go; the pod of two GPUs brings none."""
    monkeypatch.setattr(simulation, "STUCK", 600.0)
    monkeypatch.setattr(Simulation, "_delays", lambda self: (0.0,))
    rows = "arrival_s,duration_s,gpus,cpu_milli,memory_mib,gpu_model\n0,60,1,1000,1024,\n5,60,2,1000,1024,\n"
    asked = Asked(
        hours=0.02,
        faults=written(tmp_path / "faults.json", [{"at_s": 1, "cluster": "compact"}]),
        workload=written(tmp_path / "pods.csv", rows),
        config=written(tmp_path / "settings.yaml", {**SMALL_ONLY, "scale_down": {"cooldown": "200h"}}),
    )
    text, told = shrunk(asked, 3)
    assert "is left" in told
    inside: dict[str, Any] = {}
    exec(compile(text, "reduced.py", "exec"), inside)  # noqa: S102
    assert [work.name for work in inside["PODS"]] == ["pod-00001"]
    assert inside["FAULTS"] == []
    assert loaded_from({**default_settings(15), **inside["SETTINGS"]}).settings == settings_of(asked).settings
    with pytest.raises(AssertionError, match="is left"):
        inside["test_seed_3_violates_nothing"]()
