"""What the settings or the catalogue forbid is told, and held against nobody; what they allow is not excused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from controller.config.policy import to_policy
from controller.sandbox.cloud.catalogue import load
from controller.sandbox.simulator.bound import everything_sold
from controller.sandbox.simulator.possible import why_never
from controller.sandbox.simulator.settings import default_settings, loaded_from
from controller.sandbox.simulator.workload import Work
from tests.simulator.days import ONE_POD, Day

POOL: dict[str, Any] = {"name": "all", "min_gpu_memory_gb": 1, "market": "on_demand_only", "max": 15}
SMALL = {**POOL, "instance_types": ["1A100.22V"]}
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
ALL_WEEK = {"not_during": ["daily 00:00-24:00 UTC"]}
TWO = Work("large", 5.0, 300.0, 2, 4000, 16384)


def sells(kind: str, place: str, market: str) -> bool:
    locations = load().types[kind].locations
    return bool(locations) if place == "*" else place in locations


@pytest.mark.parametrize(
    ("work", "settings", "why"),
    [
        (ONE_POD._replace(gpus=16), {}, "no type that a pool may buy has 16 GPUs for one pod"),
        (ONE_POD._replace(models=("h900",)), {}, "no type that a pool may buy has h900"),
        (TWO, {"pools": [SMALL]}, "no type that a pool may buy has 2 GPUs for one pod"),
        (ONE_POD._replace(cpu_milli=500_000), {}, "no type that a pool may buy has the CPU and memory"),
        (ONE_POD, {"pools": [{**POOL, "max": 0}]}, "no pool may have one machine more (max)"),
        (ONE_POD, {"pools": [{**POOL, "pause": "scale-up"}]}, "scale-up is paused"),
        (ONE_POD, {"pools": [{**POOL, "taints": [TAINT]}]}, "every pool has a taint, and the pods of a simulation tolerate none"),
        (ONE_POD, {"pools": [{**POOL, "max_price_per_hour": 0.01}]}, "max_price_per_hour of the pools is below every type that would do"),
        (TWO, {"limits": {"gpus": 1}}, "limits"),
        (ONE_POD, {"limits": {"machines": 0}}, "limits"),
        (TWO, {"namespaces": {"default": {"gpus": 1}}}, "the limits of namespace default"),
        (ONE_POD, {"planning": {"ignore_namespaces": ["default"]}}, "namespace default is ignored"),
        (ONE_POD, {"planning": {"scheduler_names": ["volcano"]}}, "pods of default-scheduler are not among planning.scheduler_names"),
        (ONE_POD, {}, ""),
        (ONE_POD._replace(gpus=8), {}, ""),
        (ONE_POD, {"pools": [{**POOL, "pause": "scale-down"}]}, ""),
        (ONE_POD, {"pools": [{**POOL, "pause": "scale-up"}, {**POOL, "name": "b"}]}, ""),
        (ONE_POD._replace(gpus=4), {"pools": [{**SMALL, "resources": {"nvidia.com/gpu": 4}}]}, ""),
        (ONE_POD, {"pools": [{**SMALL, "resources": {"nvidia.com/mig-1g.10gb": 7}}]}, "no type that a pool may buy has 1 GPUs for one pod"),
    ],
)  # fmt: skip
def test_whether_a_pod_can_run_at_all(work: Work, settings: dict[str, Any], why: str) -> None:
    loaded = loaded_from({**default_settings(15), **settings})
    policy = to_policy(loaded.settings, cluster_id="simulated")
    assert why_never(work, policy, everything_sold(), sells) == why


def test_a_month_of_which_the_budget_is_spent_has_nothing_left_for_a_pod() -> None:
    loaded = loaded_from({**default_settings(15), "limits": {"price_per_month": 50}})
    policy = to_policy(loaded.settings, cluster_id="simulated")
    spent = {
        amount: why_never(ONE_POD, policy, everything_sold(), sells, spent=Decimal(amount))
        for amount in (10, 50)
    }
    assert spent == {10: "", 50: "limits"}


@pytest.mark.parametrize(
    ("work", "settings"),
    [
        (ONE_POD._replace(gpus=16), {}),
        (ONE_POD._replace(models=("h900",)), {}),
        (TWO, {"pools": [SMALL]}),
        (TWO, {"namespaces": {"default": {"gpus": 1}}}),
        (ONE_POD, {"pools": [{**POOL, "max": 0}]}),
        (ONE_POD, {"pools": [{**POOL, "pause": "scale-up"}]}),
    ],
    ids=["16 GPUs", "no such model", "too small a type", "namespace", "max 0", "paused"],
)
def test_a_pod_that_the_settings_or_the_catalogue_forbid_is_told_and_no_violation(
    work: Work, settings: dict[str, Any]
) -> None:
    day = Day(hours=0.2, works=[work], settings=settings)
    result = day.result
    assert result["violations"] == []
    assert sum(result["pods_impossible"].values()) == 1
    assert (result["pods_run"], result["launches"], result["cost_lower_bound"]) == (0, 0, 0)
    assert day.simulation.loop.time() < 2 * 3600  # and is not waited for


def test_a_pod_that_could_run_is_not_excused_by_a_controller_that_does_not_buy() -> None:
    day = Day(hours=0.1, works=[ONE_POD], before=lambda seen: seen.loop.call_later(1, seen.stop, "a"))
    assert day.result["pods_impossible"] == {}
    assert any("has not run to its end" in text for text in day.result["violations"])


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"pools": [{**SMALL, "pause": "scale-down"}]}, "scale-down of pool all is paused"),
        ({"disruption": ALL_WEEK}, "no window for it was open"),
        ({"disruption": {"budget": "0"}}, "a disruption budget of 0"),
    ],
)
def test_machines_that_the_settings_keep_are_told_and_no_leak(settings: dict[str, Any], why: str) -> None:
    day = Day(1, 0.5, works=[ONE_POD, TWO._replace(gpus=1)], settings=settings)
    result = day.result
    assert result["violations"] == []
    assert (result["leaked_machines"], result["leaked_disks"]) == (0, 0)
    assert list(result["kept_by_settings"]) == [why]
    assert result["kept_by_settings"][why] >= 1
    assert day.simulation.loop.time() < 2 * 3600


def test_a_machine_that_stays_although_windows_were_open_is_left_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its controller died before they opened. The simulation begins on a Friday, at eight in the morning."""
    windows = {"disruption": {"windows": ["Fri 12:00-18:00 UTC"]}}
    day = Day(
        1,
        0.5,
        works=[ONE_POD],
        settings=windows,
        before=lambda seen: seen.loop.call_later(1700, seen.stop, "a"),
    )
    assert day.result["leaked_machines"] == 1
    well = Day(1, 0.5, works=[ONE_POD], settings=windows)
    assert (well.result["violations"], well.result["kept_by_settings"]) == ([], {})


def test_what_is_bought_while_a_pool_is_paused_is_seen() -> None:
    def paused(simulation: Any) -> None:
        purchases = simulation.judge.purchases
        purchases._policy = to_policy(
            loaded_from({**default_settings(15), "pools": [{**POOL, "pause": "scale-up"}]}).settings,
            cluster_id="simulated",
        )

    found = Day(hours=0.1, works=[ONE_POD], before=paused).result["violations"]
    assert any("was bought while scale-up of pool all is paused" in text for text in found)
