"""A pool may prefer its machines by a strategy of its own; between pools that of all of them decides."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controller.domain.plan import Launch, Snapshot
from controller.domain.policy import Headroom, Limits
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A8, kind, offers, pod, policy, pool, world

BARGAIN = kind("2V100.40V", 2, 40, 240, "0.50", model="V100")
DEAR = kind("1B200.30V", 1, 30, 180, "4.90", model="B200")
SOLD = offers(A1, A2, BARGAIN, DEAR)


def bought(snapshot: Snapshot) -> Counter[str]:
    return Counter(f"{a.pool} {a.offer.type.name}" for a in plan(snapshot).actions if isinstance(a, Launch))


def one(*pools: Any, gpus: int = 1, **rules: Any) -> list[str]:
    rules = {"max_overshoot": 1} | rules
    return list(bought(world(policy=policy(*pools, **rules), offers=SOLD, pods=(pod(gpus=gpus),))))


@pytest.mark.parametrize(
    ("own", "of_all", "found"),
    [
        ("", "smallest", A1.name),
        ("", "cheapest", BARGAIN.name),
        ("cheapest", "smallest", BARGAIN.name),
        ("smallest", "cheapest", A1.name),
        ("smallest", "smallest", A1.name),
        ("cheapest", "priority", BARGAIN.name),
    ],
)
def test_the_strategy_of_a_pool_goes_before_that_of_all(own: str, of_all: str, found: str) -> None:
    assert one(pool("p", strategy=own), strategy=of_all) == [f"p {found}"]


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ({"instance_types": (DEAR.name, A1.name, BARGAIN.name)}, DEAR.name),
        ({"instance_types": (BARGAIN.name.lower(), DEAR.name)}, BARGAIN.name),
        ({"gpu_models": ("V100", "B200")}, BARGAIN.name),
        ({}, A1.name),  # it lists none: as smallest
    ],
)
def test_priority_of_a_pool_is_the_order_in_which_it_lists_its_machines(
    listed: dict[str, Any], found: str
) -> None:
    assert one(pool("p", strategy="priority", **listed)) == [f"p {found}"]


def test_what_a_pool_lists_first_gives_way_where_it_is_too_small_or_sold_out() -> None:
    listed = pool("p", strategy="priority", instance_types=(DEAR.name, A2.name, BARGAIN.name))
    assert one(listed, gpus=2) == [f"p {A2.name}"]
    gone = (*offers(DEAR, available=False), *offers(A2, BARGAIN))
    snapshot = world(policy=policy(listed), offers=gone, pods=(pod(),))
    assert list(bought(snapshot)) == [f"p {A2.name}"]


def test_between_pools_the_strategy_of_all_decides() -> None:
    cheap = pool("cheap", strategy="cheapest", instance_types=(A1.name, BARGAIN.name))
    dear = pool("dear", instance_types=(DEAR.name,))
    assert one(cheap, dear, strategy="smallest") == [f"cheap {BARGAIN.name}"]
    assert one(dear, cheap, strategy="priority") == [f"dear {DEAR.name}"]


def test_a_whole_set_is_bought_as_cheaply_where_every_pool_asks_for_it() -> None:
    waiting = tuple(pod(f"p{n}") for n in range(7))
    own = world(policy=policy(pool("p", strategy="cheapest")), offers=SOLD, pods=waiting)
    all_of = world(policy=policy(pool("p"), strategy="cheapest"), offers=SOLD, pods=waiting)
    assert bought(own) == bought(all_of)


def test_pools_that_all_want_the_cheapest_are_compared_by_price() -> None:
    a, b = (
        pool(name, strategy="cheapest", instance_types=(t.name,)) for name, t in (("a", A1), ("b", BARGAIN))
    )
    assert one(a, b, strategy="smallest") == [f"b {BARGAIN.name}"]


def test_headroom_and_minimum_are_bought_as_the_pool_prefers() -> None:
    rules = policy(pool("p", strategy="cheapest"), headroom=(Headroom(pool="p", gpus=1),))
    assert bought(world(policy=rules, offers=SOLD)) == {f"p {BARGAIN.name}": 1}
    assert bought(world(policy=policy(pool("p", strategy="cheapest", min=1)), offers=SOLD)) == {
        f"p {BARGAIN.name}": 1
    }


H100 = kind("1H100.80S.30V", 1, 30, 120, "2.29", "H100")


def two(**more: Any) -> Counter[str]:
    return bought(world(pods=(pod("a"), pod("b")), offers=offers(A1, A2, H100), **more))


def test_the_preferred_pool_is_bought_from_however_many_pods_wait() -> None:
    """One machine for both, of the other pool, has no more GPUs and costs less."""
    x, y = pool("x", instance_types=(H100.name,)), pool("y", instance_types=(A1.name, A2.name))
    assert two(policy=policy(y, x, strategy="priority", priorities=("x", "y"))) == {f"x {H100.name}": 2}


def test_what_a_pool_lists_first_is_bought_however_many_pods_wait() -> None:
    listed = pool("x", strategy="priority", instance_types=(H100.name, A2.name))
    assert two(policy=policy(listed)) == {f"x {H100.name}": 2}


def test_the_preferred_pool_is_left_where_its_machines_are_not_enough() -> None:
    x, y = pool("x", instance_types=(H100.name,), max=1), pool("y", instance_types=(A1.name, A2.name))
    assert two(policy=policy(x, y, strategy="priority")) == {f"x {H100.name}": 1, f"y {A1.name}": 1}
    limits = Limits(machines=1)
    assert two(policy=policy(x, y, strategy="priority", limits=limits)) == {f"y {A2.name}": 1}


def test_what_a_pool_lists_first_is_not_bargained_away_where_the_others_want_the_cheapest() -> None:
    listed = pool("x", strategy="priority", instance_types=(H100.name, A2.name))
    assert two(policy=policy(listed, strategy="cheapest")) == {f"x {H100.name}": 2}


@pytest.mark.parametrize("others", [(), (pool("q", instance_types=(A1.name,)),)])
def test_a_pool_has_the_fewest_gpus_in_all_whatever_other_pools_there_are(others: Any) -> None:
    cheap, dear = (kind("4CHEAP", 4, 88, 480, "1.00"), kind("1DEAR", 1, 22, 120, "3.00"))
    middle = kind("2MIDDLE", 2, 44, 240, "2.50")
    small = pool("p", strategy="smallest", instance_types=(cheap.name, dear.name, middle.name))
    waiting = tuple(pod(f"w{n}", node_selector={"gpu-autoscaler/pool": "p"}) for n in range(3))
    rules = policy(small, *others, strategy="cheapest")
    snapshot = world(pods=waiting, offers=offers(cheap, dear, middle, A1), policy=rules)
    assert bought(snapshot) == {"p 2MIDDLE": 1, "p 1DEAR": 1}


def test_a_whole_set_of_one_pool_is_bought_as_cheaply_where_another_goes_by_something_else() -> None:
    small, wide = kind("1SMALL", 1, 10, 64, "1.00"), kind("8WIDE", 8, 48, 256, "2.00", "V100")
    waiting = tuple(pod(f"p{n}", 1, requests={"cpu": 8000}) for n in range(3))
    cheap = pool("c", strategy="cheapest", instance_types=(small.name, wide.name))
    rules = policy(cheap, pool("q", strategy="priority", instance_types=(A8.name,)))
    assert bought(world(pods=waiting, offers=offers(small, wide, A8), policy=rules)) == {"c 8WIDE": 1}
