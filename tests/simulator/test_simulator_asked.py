"""What may be asked for: odd numbers, places that cannot be written, and progress."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.app.exits import CONFIGURATION, FAILED, Ends
from controller.cli.simulating import simulate as on_command_line
from controller.sandbox.simulator.command import Asked, simulate
from controller.sandbox.simulator.settings import default_settings


def asked(**more: object) -> Asked:
    return Asked(**{"hours": 0.05, "faults": "none", "workload": "standard", **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"hours": float("inf")},
        {"hours": 1e300},
        {"compress": float("inf")},
        {"compress": 10.0},
        {"timeline": "/nonexistent/x"},
        {"html": "/nonexistent/x"},
        {"html": "/"},
    ],
)
def test_what_cannot_be_is_told_before_anything_begins(wrong: dict[str, object]) -> None:
    with pytest.raises(Ends) as told:
        on_command_line(asked=asked(**wrong), seed=0, seeds=1, jobs=1, as_json=True)
    assert told.value.code == CONFIGURATION
    assert next(iter(wrong)) in told.value.lines[0]


def test_a_test_of_what_is_left_is_not_searched_for_where_it_cannot_be_written() -> None:
    with pytest.raises(Ends) as told:
        on_command_line(asked=asked(), seed=0, seeds=1, jobs=1, as_json=True, shrink="/nonexistent/x")
    assert told.value.code == CONFIGURATION


def test_one_seed_is_reduced_and_not_the_first_of_several(tmp_path: Path) -> None:
    with pytest.raises(Ends) as told:
        on_command_line(asked=asked(), seed=0, seeds=2, jobs=1, as_json=True, shrink=str(tmp_path / "x"))
    assert told.value.code == CONFIGURATION
    assert "--seeds 2" in told.value.lines[0]


@pytest.mark.parametrize("as_json", [True, False])
def test_where_nothing_is_violated_no_test_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    path = tmp_path / "x.py"
    on_command_line(asked=asked(), seed=4, seeds=1, jobs=1, as_json=as_json, shrink=str(path))
    told = capsys.readouterr().out
    assert not path.exists()
    if as_json:
        assert json.loads(told) == {"seed": 4, "violation": None, "test": None}
    else:
        assert told == "seed 4 violates nothing, so there is nothing to reduce\n"


def test_what_is_left_of_a_seed_is_told_as_json_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "x.py")
    monkeypatch.setattr("controller.cli.simulating.shrunk", lambda asked, seed: ("# a test\n", "it broke"))
    with pytest.raises(Ends) as told:
        on_command_line(asked=asked(), seed=4, seeds=1, jobs=1, as_json=True, shrink=path)
    assert told.value.code == FAILED
    assert json.loads(capsys.readouterr().out) == {"seed": 4, "violation": "it broke", "test": path}
    assert Path(path).read_text() == "# a test\n"


def test_switched_machines_are_left_out_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their endpoints are real ones: a try at a policy must call none."""
    machine = {
        "name": "worker-1",
        "gpu_count": 8,
        "scale_up_endpoint": "http://127.0.0.1:9/on",
        "scale_down_endpoint": "http://127.0.0.1:9/off",
    }
    config = tmp_path / "settings.yaml"
    config.write_text(json.dumps({**default_settings(15), "machines": [machine]}))
    wish = asked(hours=0.1, config=str(config))
    on_command_line(asked=wish, seed=1, seeds=1, jobs=1, as_json=True)
    told = capsys.readouterr()
    assert "worker-1" in told.err
    assert json.loads(told.out)["violations"] == []
    assert simulate(wish, 1) | {"wall_s": 0} == simulate(asked(hours=0.1), 1) | {"wall_s": 0}


def test_who_watches_hears_how_much_is_over_and_changes_nothing() -> None:
    heard: list[float] = []
    watched, alone = simulate(asked(hours=1.0), 1, heard.append), simulate(asked(hours=1.0), 1)
    assert watched | {"wall_s": 0} == alone | {"wall_s": 0}
    assert heard == sorted(heard)
    assert heard[0] < 0.1 < 0.9 < heard[-1]


@pytest.mark.parametrize(
    "entry",
    [
        {"script_url": "http://127.0.0.1:9/script"},
        {"startup_script_id": "a1b2c3"},
        {"template": "kubeadm", "server": "https://10.0.0.1:6443", "token_from": {"secret": {"name": "mine", "key": "t"}}},
    ],
)  # fmt: skip
def test_machines_join_however_the_settings_say(tmp_path: Path, entry: dict[str, object]) -> None:
    """What stands behind it is real, and no simulation asks for it."""
    config = tmp_path / "settings.yaml"
    config.write_text(json.dumps({**default_settings(15), "join": {"mine": entry}}))
    result = simulate(asked(hours=0.1, config=str(config)), 1)
    assert result["violations"] == []
    assert result["pods_run"] == result["pods"] > 0


def test_a_policy_of_a_predecessor_can_be_tried(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    group = {"instance_type": "8A100.40S.176V", "image": "ubuntu-24.04-cuda-12.8-open-docker", "min_size": 0}
    more = {
        "max_size": 6,
        "location": "FIN-01",
        "ssh_key_ids": ["k"],
        "startup_script_id": "s",
        "hourly_price": 1.0,
    }
    config.write_text(json.dumps({"node_groups": {"a100": group | more}}))
    result = simulate(asked(hours=0.1, config=str(config)), 1)
    assert result["violations"] == []
    assert result["pods_run"] == result["pods"] > 0
