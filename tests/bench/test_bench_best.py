"""The floor is a floor, and the optimum is the best there is."""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from typing import Any

import pytest

from controller.cli.verbs import app
from controller.domain.kube import Pod
from controller.domain.plan import Snapshot
from controller.planning.patterns import Box, Rules
from controller.sandbox.bench.planner import branching, optimum, solver
from controller.sandbox.bench.planner.floor import price_floor, sold
from tests.planning.worlds import A1, A2, A8, kind, offers, pod, policy, world

solved = pytest.mark.skipif(not solver.installed(), reason=solver.HINT)
KEYS = [
    "pods",
    "classes",
    "machines",
    "seconds",
    "pods_per_second",
    "unplaced",
    "price_per_hour",
    "price_floor",
]


# Proven optima of instances in which the cheapest machines are hard to find, by seed.
HARD = {
    6: 54.32,
    40: 14.4042,
    105: 29.659,
    109: 14.987,
    122: 27.518,
    128: 41.196,
    135: 48.1914,
    204: 13.754,
    388: 91.222,
    434: 17.287,
    468: 19.3197,
}


def _of(pods: int, kinds: tuple[Any, ...], **more: Any) -> tuple[Snapshot, list[Pod]]:
    waiting = [pod(f"p{n}", 1, **more) for n in range(pods)]
    return world(pods=tuple(waiting), offers=offers(*kinds), policy=policy(strategy="cheapest")), waiting


@solved
@pytest.mark.parametrize(
    ("pods", "kinds", "more", "floor"),
    [
        (3, (A1,), {}, 3 * 1.29),
        (3, (A8,), {}, 3 * 1.29),  # three eighths of a machine
        (4, (A1, kind("2CHEAP", 2, 44, 240, "2.00")), {}, 4.0),
        (2, (A1, A2), {"requests": {"cpu": 40_000}}, 2 * 2.58 * 40 / 44),  # too large for the small one
        (2, (A1,), {"node_selector": {"gpu-autoscaler/location": "ICE-01"}}, None),  # nothing admits it
    ],
)
def test_the_floor_of_a_few_pods(
    pods: int, kinds: tuple[Any, ...], more: dict[str, Any], floor: float | None
) -> None:
    found = price_floor(*_of(pods, kinds, **more))
    assert found == (None if floor is None else pytest.approx(floor))


@solved
def test_no_pods_cost_nothing() -> None:
    assert price_floor(world(), []) == 0


@solved
def test_rounding_down_many_classes_never_lifts_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(1, 6):
        snapshot = optimum.instance(seed)
        exact = price_floor(snapshot, snapshot.pods)
        with monkeypatch.context() as coarse:
            coarse.setattr("controller.sandbox.bench.planner.floor.LARGEST", 1)
            rounded = price_floor(snapshot, snapshot.pods)
        assert exact is not None
        assert rounded is not None
        assert 0 < rounded <= exact * (1 + 1e-9)


@solved
@pytest.mark.parametrize("seed", range(10))
def test_the_optimum_is_what_trying_everything_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimum, "PODS", (5, 9))
    monkeypatch.setattr(optimum, "OFFERS", (12, 14))
    snapshot = optimum.instance(seed)
    least = pytest.approx(_by_trying(snapshot))
    for few in (branching._FEW, 0):  # with integer programmes, and by splitting alone
        monkeypatch.setattr(branching, "_FEW", few)
        found = optimum.best(snapshot, [], 20, time.perf_counter)
        assert found.proven
        assert found.price == least


@solved
@pytest.mark.parametrize("seed", [4, 18, 117])
def test_a_weak_linear_programme_does_not_keep_the_optimum_from_being_proven(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bound is 3 to 10 % below the optimum."""
    snapshot = optimum.instance(seed)
    known, _ = optimum.planned(seed, "cheapest")
    found = optimum.best(snapshot, known, 60, time.process_time)
    monkeypatch.setattr(branching, "_FEW", 0)
    other = optimum.best(snapshot, [], 60, time.process_time)
    assert found.proven
    assert other.proven
    assert found.price == pytest.approx(other.price)


def test_cheapest_is_near_the_optimum_also_where_that_is_hard() -> None:
    beyond = []
    for seed, optimal in HARD.items():
        columns, unplaced = optimum.planned(seed, "cheapest")
        assert not unplaced
        beyond.append(sum(price for price, _ in columns) / optimal - 1)
    assert min(beyond) >= -1e-4  # the optima are rounded
    assert max(beyond) < 0.03
    assert sum(beyond) / len(beyond) < 0.015


@solved
def test_without_time_the_bound_is_still_one() -> None:
    snapshot = optimum.instance(4)
    found = optimum.best(snapshot, [], 0, time.process_time)
    whole = optimum.best(snapshot, [], 60, time.process_time)
    assert not found.proven
    assert 0 < found.bound < whole.price <= found.price


def _by_trying(snapshot: Snapshot) -> float:
    """The cheapest machine for each set of pods, and the cheapest way to cut all pods into such sets."""
    machines = sold(snapshot, [snapshot.pods[0].shape])
    count = len(snapshot.pods)
    alone: dict[int, float] = {}
    for mask in range(1, 1 << count):
        inside = [p.shape.requests for n, p in enumerate(snapshot.pods) if mask >> n & 1]
        needs = {name: sum(each[name] for each in inside) for name in inside[0]}
        prices = [
            m.price for m in machines if all(m.free.get(name, 0) >= units for name, units in needs.items())
        ]
        alone[mask] = min(prices, default=float("inf"))
    best = {0: 0.0}
    for mask in range(1, 1 << count):
        low, part, least = mask & -mask, mask, float("inf")
        while part:
            if part & low:
                least = min(least, alone[part] + best[mask ^ part])
            part = (part - 1) & mask
        best[mask] = least
    return best[(1 << count) - 1]


@solved
def test_no_plan_is_better_than_the_bound_and_no_floor_is_above_it() -> None:
    for seed in (1, 7, 8, 14):
        found = optimum.judge(seed, 20)
        assert found["cheapest"] >= -1e-9
        assert found["smallest"] >= -1e-9
        snapshot = optimum.instance(seed)
        floor = price_floor(snapshot, snapshot.pods)
        assert floor is not None
        assert floor <= found["bound"] * (1 + 1e-6)
        assert found["bound"] <= found["optimum"] * (1 + 1e-6)


def test_the_most_valuable_set_and_every_full_set_are_those_that_trying_finds() -> None:
    draw = random.Random(3)
    for _ in range(40):
        pods = [tuple(draw.randint(1, 6) for _ in range(3)) for _ in range(8)]
        values = [draw.random() for _ in pods]
        box = Box(1.0, (8.0, 9.0, 10.0), [tuple(map(float, needs)) for needs in pods])
        fitting = [
            inside
            for size in range(1, 9)
            for inside in itertools.combinations(range(8), size)
            if all(sum(pods[n][r] for n in inside) <= most for r, most in enumerate((8, 9, 10)))
        ]
        found = box.better(values, 0.0)
        assert found == sorted(found)
        assert found[-1][0] == pytest.approx(max(sum(values[n] for n in inside) for inside in fitting))
        full = {a for a in fitting if not any(set(a) < set(b) for b in fitting)}
        worth = sum(values) / 3
        every = box.every(values, worth, 1000)
        assert every is not None
        assert set(every) == {inside for inside in full if sum(values[n] for n in inside) > worth}


def test_sets_keep_to_who_goes_together_who_apart_and_who_not_at_all() -> None:
    draw = random.Random(5)
    rules = Rules(groups=((0, 3), (1,), (2,), (4,), (5,), (6, 7)), apart=((1, 2), (0, 4)), out=(5,))
    for _ in range(40):
        pods = [tuple(draw.randint(1, 4) for _ in range(3)) for _ in range(8)]
        values = [draw.random() for _ in pods]
        box = Box(1.0, (8.0, 9.0, 10.0), [tuple(map(float, needs)) for needs in pods])
        fitting = [
            set(inside)
            for size in range(1, 9)
            for inside in itertools.combinations(range(8), size)
            if all(sum(pods[n][r] for n in inside) <= most for r, most in enumerate((8, 9, 10)))
            and all((a in inside) == (b in inside) for a, b in ((0, 3), (6, 7)))
            and not any(a in inside and b in inside for a, b in rules.apart)
            and 5 not in inside
        ]
        found = box.better(values, 0.0, rules)
        assert found[-1][0] == pytest.approx(max(sum(values[n] for n in inside) for inside in fitting))
        full = [a for a in fitting if not any(a < b for b in fitting)]
        every = box.every(values, 0.0, 1000, rules)
        assert every is not None
        assert sorted(every) == sorted(tuple(sorted(inside)) for inside in full)


def test_too_many_sets_are_not_listed_in_part() -> None:
    box = Box(1.0, (8.0, 8.0, 8.0), [(1.0, 1.0, 1.0)] * 12)
    for most in (10, 1, 0):
        assert box.every([1.0] * 12, 0.5, most) is None


def test_bench_planner_prints_exactly_the_numbers_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    _call("bench", "planner", "--workload", "karpenter", "--pods", "25", "--offers", "20", "--json")
    found = json.loads(capsys.readouterr().out)
    assert list(found) == KEYS
    assert found["pods"] == 25
    assert found["machines"] >= 5
    assert found["unplaced"] == 0
    assert found["seconds"] > 0


def test_without_a_solver_the_floor_is_null_and_that_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solver, "find_spec", lambda _: None)
    _call("bench", "planner", "--workload", "karpenter", "--pods", "10", "--offers", "5", "--json")
    told = capsys.readouterr()
    assert json.loads(told.out)["price_floor"] is None
    assert "highspy is not installed" in told.err


def _call(*words: str) -> None:
    """In this process, as pytest's own options are none of the program's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["verda-gpu-autoscaler", *words])
        with pytest.raises(SystemExit) as end:
            app()
    assert not end.value.code
