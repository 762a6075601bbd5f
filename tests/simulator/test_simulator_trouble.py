"""Trouble comes and goes: what it changed is as before when all of it is over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.sandbox.simulator import schedule
from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.trouble import Knobs
from controller.sandbox.simulator.workload import Work
from controller.sandbox.wire import Request
from tests.simulator.days import Day


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["the first ends first", "the second ends first"])
def test_settings_are_as_before_when_trouble_that_overlapped_is_over(order: tuple[int, int]) -> None:
    world: dict[str, Any] = {"never_ready": [], "boot": 60}
    knobs = Knobs(world.update)
    backs = [
        knobs.turn({"never_ready": ["*"]}, dict(world)),
        knobs.turn({"never_ready": ["a"], "boot": 5}, dict(world)),
    ]
    assert world == {"never_ready": ["a"], "boot": 5}
    backs[order[0]]()
    assert world == [{"never_ready": ["a"], "boot": 5}, {"never_ready": ["*"], "boot": 60}][order[0]]
    backs[order[1]]()
    assert world == {"never_ready": [], "boot": 60}


def test_what_changes_between_two_troubles_stays() -> None:
    world: dict[str, Any] = {"balance": 100}
    knobs = Knobs(world.update)
    knobs.turn({"balance": 0}, dict(world))()
    world["balance"] = 50
    knobs.turn({"balance": 0}, dict(world))()
    assert world == {"balance": 50}


HOUR = 3600.0
THREE = [Work(f"pod-{n}", 30.0 + n, 900.0, 1, 2000, 8192) for n in range(3)]


def test_what_the_cloud_takes_when_the_money_ends_is_not_held_against_the_controller() -> None:
    """The strangers' machines and disks go, too, and somebody pays in again."""
    broke = {"at_s": 600, "cloud_event": {"event": "balance", "amount": "0"}, "for_s": 1200}
    day = Day(1, 1.0, works=THREE, faults=[broke])
    assert day.result["violations"] == []
    assert day.result["pods_run"] == 3
    assert (day.result["leaked_machines"], day.result["leaked_disks"]) == (0, 0)


def test_there_is_money_again_when_trouble_is_over() -> None:
    broke = {"at_s": 600, "cloud_event": {"event": "balance", "amount": "0"}, "for_s": 40 * HOUR}
    day = Day(1, 0.5, works=THREE, faults=[broke])
    assert day.result["violations"] == []
    assert day.result["pods_run"] == 3


def test_what_a_call_changes_of_a_strangers_is_its_callers_deed_also_where_the_money_has_ended() -> None:
    request = Request.of("DELETE", "/v1/scripts/theirs", b"", {})
    found: list[str] = []

    def before(simulation: Simulation) -> None:
        def hurts() -> None:
            simulation.worlds.tell_cloud("POST", "events", {"event": "balance", "amount": "0"})
            simulation.judge.cloud_asked(request)
            script = simulation.worlds.cloud.state.scripts.popitem()[0]
            found.append(f"script {script} is not ours and was changed by DELETE {request.path}")
            simulation.judge.cloud_arrived(request, late=False)

        simulation.loop.call_at(300, hurts)

    violations = Day(1, 0.2, works=[], before=before).result["violations"]
    assert [text.split(" ", 1)[1] for text in violations] == found


def test_one_machine_of_the_controllers_is_left_out_of_a_list() -> None:
    """Whichever lives then; where none does, nothing is left out, and not all."""
    rule = {"method": "GET", "path": "/instances", "fault": "leave_out", "rows": ["simulated-*"], "times": 3}
    seen: list[list[str]] = []

    def before(simulation: Simulation) -> None:
        def look() -> None:
            seen.append([row for each in simulation.worlds.cloud_faults.rules for row in each.rows])

        simulation.loop.call_at(10.5, look)
        simulation.loop.call_at(300.1, look)

    faults = [{"at_s": at, "cloud_fault": rule} for at in (10, 300)]
    day = Day(1, 0.5, works=THREE, faults=faults, before=before)
    assert day.result["violations"] == []
    assert [len(rows) for rows in seen] == [0, 1]


@pytest.mark.parametrize(
    "event",
    [
        {"event": "settings", "values": {"delete_s": 40_000}},
        {"event": "revoke_tokens", "credentials": "a:b"},
        {
            "event": "catalogue",
            "removed_types": ["1V100.6V"],
            "prices": {"2V100.10V": {"price_per_hour": 0.1}},
        },
    ],
    ids=lambda event: str(event["event"]),
)
@pytest.mark.parametrize("lasts", [0.0, 300.0])
def test_what_an_event_turned_is_as_before_when_trouble_is_over(event: dict[str, Any], lasts: float) -> None:
    seen: list[dict[str, Any]] = []

    def before(simulation: Simulation) -> None:
        for at in (0.0, 650.0, 1000.0):
            simulation.loop.call_at(at, lambda: seen.append(shown(simulation)))

    def shown(simulation: Simulation) -> dict[str, Any]:
        """All but what is easier at the end than it was."""
        return simulation.worlds.cloud.state.settings.shown() | {"undeletable_statuses": []}

    day = Day(
        1, 0.5, works=THREE, faults=[{"at_s": 600, "cloud_event": event, "for_s": lasts}], before=before
    )
    assert (day.result["violations"], day.result["pods_run"]) == ([], 3)
    assert shown(day.simulation) == seen[0] != seen[1]
    assert (seen[2] == seen[0]) is (lasts > 0)


@pytest.mark.parametrize(
    "event",
    [
        {"event": "fail", "hostname": "simulated-*", "into": "no_capacity"},
        {"event": "fail", "hostname": "simulated-*", "into": "never_heard_of"},
        {"event": "fail", "hostname": "simulated-*", "into": "installation_failed"},
    ],
    ids=lambda event: str(event["into"]),
)
def test_whatever_a_machine_that_works_ends_in_somebody_looks_after_it(event: dict[str, Any]) -> None:
    day = Day(1, 0.3, works=THREE, faults=[{"at_s": 600, "cloud_event": event}])
    assert (day.result["violations"], day.result["pods_run"]) == ([], 3)
    assert day.told("somebody deletes")


def test_an_order_that_fails_when_its_machine_works_is_looked_after() -> None:
    rows = [{"outcome": "no_capacity", "after_s": 700}]
    broken = {"at_s": 0, "cloud_event": {"event": "outcomes", "rows": rows}, "for_s": 60}
    day = Day(1, 0.3, works=THREE, faults=[broken])
    assert (day.result["violations"], day.result["pods_run"]) == ([], 3)


@pytest.mark.parametrize(
    "named",
    [
        '"gpus_lost"', '"gpus_fewer"', '"gpus_sliced"', '"balance"', '"total_above"', '"rows": ["simulated-*"]',
    ],
)  # fmt: skip
def test_harsh_days_draw_every_kind_of_trouble(named: str) -> None:
    drawn = (json.dumps(schedule.drawn("harsh", seed, 24, "simulated")) for seed in range(60))
    assert any(named in text for text in drawn)
