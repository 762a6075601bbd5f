"""GPUs that a pool cuts are simulated as cut; and watches are told often enough that they live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller.cli.simulating import simulate as on_command_line
from controller.cluster.watching import SILENCE
from controller.sandbox.simulator.command import Asked
from controller.sandbox.simulator.settings import default_settings
from controller.sandbox.simulator.workload import Work
from controller.sandbox.simulator.worlds import CLUSTER
from tests.simulator.days import Day

ONE_GPU: dict[str, Any] = {
    "name": "all",
    "instance_types": ["1A100.22V"],
    "market": "on_demand_only",
    "max": 4,
}
FOUR = [Work(f"pod-{n}", 30.0, 600.0, 1, 1000, 4096) for n in range(4)]


def test_a_machine_holds_as_many_pods_as_its_pool_cuts_its_gpus_into() -> None:
    day = Day(1, 0.5, works=FOUR, settings={"pools": [{**ONE_GPU, "resources": {"nvidia.com/gpu": 4}}]})
    assert (day.result["violations"], day.result["launches"], day.result["pods_run"]) == ([], 1, 4)
    assert day.result["gpu_hours_used"] <= day.result["gpu_hours_paid"]
    assert 0 < day.result["cost_lower_bound"] < day.result["cost"]


def test_a_pool_whose_name_begins_with_that_of_another_is_not_cut_with_it() -> None:
    pools = [
        {**ONE_GPU, "name": "a", "resources": {"nvidia.com/gpu": 4}, "pause": "scale-up"},
        {**ONE_GPU, "name": "a-b"},
    ]
    day = Day(1, 0.5, works=FOUR[:2], settings={"pools": pools})
    assert (day.result["violations"], day.result["launches"]) == ([], 2)


def test_devices_that_no_sandbox_stands_for_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "settings.yaml"
    mig = {**ONE_GPU, "resources": {"nvidia.com/mig-1g.10gb": 7}}
    config.write_text(json.dumps({**default_settings(15), "pools": [mig]}))
    wish = Asked(hours=0.05, faults="none", workload="standard", config=str(config))
    on_command_line(asked=wish, seed=1, seeds=1, jobs=1, as_json=True)
    assert "all (nvidia.com/mig-1g.10gb)" in capsys.readouterr().err


def test_a_bookmark_may_get_lost_before_a_watch_takes_the_silence_for_the_end() -> None:
    assert 2 * CLUSTER["bookmarks"] < SILENCE
