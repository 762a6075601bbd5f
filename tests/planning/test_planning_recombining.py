"""Sets of pods are put together anew as well as they can be, and what is said to be the least is the least."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest

from controller.planning import patterns
from controller.planning.cheapening import Search, cheapened
from controller.planning.choosing import chosen
from controller.planning.covering import Programme
from controller.planning.puzzle import Kind, Puzzle
from controller.planning.recombining import Recombining
from tests.planning.test_planning_cheapening import cost, ways


def drawn(seed: int) -> tuple[list[Kind], list[Any]]:
    rng = random.Random(seed)
    sold = ((10, 1, 8), (17, 8, 20), (rng.randint(20, 40), 4, 40), (rng.randint(41, 60), 8, 64))
    kinds = [Kind(price, {"gpu": gpus, "cpu": cpus}) for price, gpus, cpus in sold]
    return kinds, [{"gpu": rng.choice([1, 1, 2, 4]), "cpu": rng.randint(1, 20)} for _ in range(6)]


def every_set(puzzle: Puzzle) -> dict[tuple[int, ...], int]:
    found = {}
    for size in range(1, len(puzzle.needs) + 1):
        for pods in combinations(range(len(puzzle.needs)), size):
            used = sum(puzzle.needs[pod] for pod in pods)
            if any(puzzle.fits(used, free) for free in puzzle.kinds):
                found[pods] = puzzle.cheapest(used)[0]
    return found


def least(kinds: list[Kind], pods: list[Any]) -> float:
    every = [(1 << len(kinds)) - 1] * len(pods)
    return min(sum(cost(part, pods, kinds, every) for part in way) for way in ways(list(range(len(pods)))))


def test_shares_of_sets_hold_every_pod_for_less_than_whole_sets_could() -> None:
    """Of three pairs half each, where whole ones would have to be two."""
    programme = Programme([6, 6, 6])
    for pods in ((0, 1), (1, 2), (0, 2)):
        programme.add(pods, 8)
    programme.solve(100)
    assert programme.value() == pytest.approx(12)
    assert programme.worth == pytest.approx([4, 4, 4])
    assert sorted(pods for _, pods in programme.chosen()) == [(0, 1), (0, 2), (1, 2)]
    assert [share for share, _ in programme.chosen()] == pytest.approx([0.5] * 3)


def test_a_programme_goes_on_from_where_it_ended_when_sets_are_added() -> None:
    programme = Programme([6, 6, 6])
    programme.add((0, 1), 8)
    programme.solve(100)
    assert programme.value() == pytest.approx(14)
    programme.add((0, 1, 2), 9)
    programme.solve(100)
    assert programme.value() == pytest.approx(9)


def test_no_programme_says_more_than_the_best_way_costs_and_generated_sets_say_as_much_as_all() -> None:
    for seed in range(40):
        kinds, pods = drawn(seed)
        puzzle = Puzzle(pods, kinds)
        whole = Programme([puzzle.cheapest(needs)[0] for needs in puzzle.needs])
        for inside, price in every_set(puzzle).items():
            whole.add(inside, price)
        whole.solve(1000)
        generated = Recombining(puzzle, pods, kinds, None).grow({})
        assert generated <= least(kinds, pods)
        assert generated == pytest.approx(whole.value(), rel=1e-4)


def test_of_all_sets_the_best_way_is_chosen() -> None:
    for seed in range(40):
        kinds, pods = drawn(seed)
        puzzle = Puzzle(pods, kinds)
        sets = every_set(puzzle)
        programme = Programme([puzzle.cheapest(needs)[0] for needs in puzzle.needs])
        for inside, price in sets.items():
            programme.add(inside, price)
        programme.solve(1000)
        best = least(kinds, pods)
        found = chosen(sets, programme.worth, best - sum(programme.worth) + 0.01, 20_000)
        assert sum(sets[inside] for inside in found) == best
        assert {pod for inside in found for pod in inside} == set(range(len(pods)))
        assert chosen(sets, programme.worth, best - sum(programme.worth) - 0.01, 20_000) == []


@pytest.mark.parametrize("turn", range(3))
def test_every_pod_is_on_one_machine_that_holds_it(turn: int) -> None:
    for seed in range(20):
        kinds, pods = drawn(seed)
        puzzle = Puzzle(pods, kinds)
        sets = Recombining(puzzle, pods, kinds, None)
        sets.grow({})
        ways = [sets.whole({}, turn), sets.chosen(10**6)]
        for found in ways:
            assert sorted(pod for inside, *_ in found for pod in inside) == list(range(len(pods)))
            assert all(machine == puzzle.machine(machine[0]) for machine in found)


def test_a_set_that_may_have_no_machine_is_not_generated() -> None:
    kinds = [Kind(10, {"gpu": 1}), Kind(15, {"gpu": 2})]
    pods: list[Any] = [{"gpu": 1}] * 4
    puzzle = Puzzle(pods, kinds)
    free = Recombining(puzzle, pods, kinds, None)
    barred = Recombining(puzzle, pods, kinds, lambda inside, kind: kind == 0)
    assert free.grow({}) == pytest.approx(30, rel=1e-4)
    barred.grow({(0, 1): 15})
    assert [len(inside) for inside, *_ in barred.whole({}, 0)] == [1] * 4


def test_machines_that_cost_nothing_are_no_trouble() -> None:
    kinds = [Kind(0, {"gpu": 2, "cpu": 9}), Kind(0, {"gpu": 4, "cpu": 9}), Kind(7, {"gpu": 8, "cpu": 90})]
    pods: list[Any] = [{"gpu": 1 + n % 3, "cpu": 3 + n % 7} for n in range(12)] + [
        {"gpu": 3, "cpu": 41 + n} for n in range(5)
    ]
    assert cheapened(pods, kinds, [[n] for n in range(17)]) is not None


def test_of_many_kinds_and_resources_every_pod_has_its_place_and_the_least_is_no_more_than_that() -> None:
    """Sets are generated for three resources, and for as many kinds as the work allows; the rest is put together."""
    rng = random.Random(1)
    names = ("gpu", "cpu", "memory", "disk", "rdma")
    for some in (names[:3], names):
        kinds = sorted(
            (Kind(rng.randint(100, 9000), {n: rng.randint(40, 400) for n in some}) for _ in range(60)),
            key=lambda kind: kind.price,
        )
        pods: list[Any] = [{n: rng.randint(1, 40) for n in some} for _ in range(60)]
        puzzle, alone = Puzzle(pods, kinds), [[n] for n in range(60)]
        sets = Recombining(puzzle, pods, kinds, None)
        lowest = sets.grow({})
        found = cheapened(pods, kinds, alone)
        assert found is not None
        assert sorted(n for group in found for n in group) == list(range(60))
        assert sum(puzzle.machine(group)[2] for group in found) >= lowest


def hard(style: str) -> tuple[list[Kind], list[Any]]:
    """Sixty of each: many solutions that are as good, or kinds that cost the same."""
    rng = random.Random(1)
    if style == "one resource":
        kinds = [Kind(rng.randint(5, 300) * 10**8, {"gpu": rng.randint(300, 1000)}) for _ in range(60)]
        pods: list[Any] = [{"gpu": rng.randint(1, 300)} for _ in range(60)]
    else:
        kinds = [
            Kind(5 * 10**9 + n // 30, {"gpu": rng.choice([4, 8]), "cpu": rng.randint(50, 200)})
            for n in range(60)
        ]
        pods = [{"gpu": rng.choice([1, 2]), "cpu": rng.randint(1, 20)} for _ in range(60)]
    return sorted(kinds, key=lambda kind: kind.price), pods


@pytest.mark.parametrize("style", ["one resource", "one price"])
def test_however_hard_it_is_the_work_ends(style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else happens in the controller meanwhile."""
    numbers, begun, larger = [0], [0], [0]  # of programmes; searches for sets; kinds looked at for a pod
    enter, run, seat = Programme._enter, patterns._Search.run, Search._seat

    def entered(self: Programme, gain: float, entering: int) -> bool:
        numbers[0] += len(self.worth) ** 2
        return enter(self, gain, entering)

    def searched(self: Any, *more: Any) -> Any:
        begun[0] += 1
        return run(self, *more)

    def seated(self: Search, loose: list[int], machines: list[Any]) -> None:
        if style == "one price":  # elsewhere hardly any of them is looked at
            larger[0] += len(loose) * sum(len(self._puzzle.dearer[machine[3]]) for machine in machines)
        seat(self, loose, machines)

    monkeypatch.setattr(Programme, "_enter", entered)
    monkeypatch.setattr(patterns._Search, "run", searched)
    monkeypatch.setattr(Search, "_seat", seated)
    kinds, pods = hard(style)
    assert cheapened(pods, kinds, [[n] for n in range(60)]) is not None
    assert numbers[0] < 8 * 10**6
    assert begun[0] < 140
    assert larger[0] < 4 * 10**6
