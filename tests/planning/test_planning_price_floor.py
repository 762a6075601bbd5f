"""Strategy `cheapest` says how little the machines for the same pods could cost at all."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from controller.domain.plan import Launch, Plan
from controller.planning.planner import plan
from controller.report.plan_json import plan_json, plan_lines
from tests.planning.worlds import A1, A2, A4, A8, kind, offers, pod, policy, pool, world

CHEAP4 = kind("4V100.40V", 4, 40, 240, "2.00", model="V100")


def priced(decided: Plan) -> Decimal:
    return sum((a.offer.price for a in decided.actions if isinstance(a, Launch)), Decimal(0))


def decided(gpus: tuple[int, ...], *, strategy: str = "cheapest") -> Plan:
    waiting = tuple(pod(f"p{n}", count) for n, count in enumerate(gpus))
    rules = policy(pool(max=100), strategy=strategy)
    return plan(world(policy=rules, pods=waiting, offers=offers(A1, A2, A4, A8, CHEAP4)))


@pytest.mark.parametrize(
    ("gpus", "price", "floor"),
    [
        ((1,), "1.29", "1.29"),  # the cheapest machine that holds it
        ((4,), "2.00", "2.00"),
        ((1, 1, 1, 1), "2.00", "2.00"),  # each a quarter of the cheapest
        ((3, 1), "2.00", "2.00"),
        ((1, 4), "3.29", "2.50"),  # cut in pieces, a quarter of that machine would do
        ((8,), "10.32", "10.32"),
    ],
)
def test_the_floor_beside_the_price(gpus: tuple[int, ...], price: str, floor: str) -> None:
    found = decided(gpus)
    assert (priced(found), found.price_floor) == (Decimal(price), Decimal(floor))


@pytest.mark.parametrize("seed", range(15))
def test_no_plan_is_ever_cheaper_than_its_floor(seed: int) -> None:
    rng = random.Random(seed)
    found = decided(tuple(rng.choice([1, 1, 2, 3, 4, 8]) for _ in range(rng.randint(1, 25))))
    assert found.price_floor is not None
    assert Decimal(0) < found.price_floor <= priced(found)


def test_other_strategies_and_plans_that_buy_nothing_have_none() -> None:
    assert decided((1,), strategy="smallest").price_floor is None
    assert decided(()).price_floor is None


def test_the_plan_shows_price_floor_and_gap() -> None:
    found = decided((1, 4))
    shown = plan_json(found, "usd")
    assert shown["bound"] == {"price_per_hour": 3.29, "at_least_per_hour": 2.5, "gap": 0.316}
    assert "3.2900 usd an hour for these pods; no machines for them cost less than 2.5000" in plan_lines(
        found, "usd"
    )
    assert "bound" not in plan_json(decided((1,), strategy="smallest"), "usd")
