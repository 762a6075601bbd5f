"""`scale_up.spread_locations`: equal offers are taken where the pool has the fewest machines."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from controller.domain.kube import NodeTerm, Requirement
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Launch, Snapshot
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, GIB, kind, machine, offers, pod, policy, pool, world

ZONE = "topology.kubernetes.io/zone"
ZONES = ("FIN-01", "FIN-02", "FIN-03")


def bought(snapshot: Snapshot) -> Counter[str]:
    return Counter(a.offer.location for a in plan(snapshot).actions if isinstance(a, Launch))


def there(*locations: str, **more: Any) -> tuple[Machine, ...]:
    values: dict[str, Any] = {"phase": Phase.BOOTING, "pods": ("default/other",)} | more
    return tuple(
        machine(f"home-a100-{n:010}", A1, location=location, **values) for n, location in enumerate(locations)
    )


@pytest.mark.parametrize(
    ("spread", "places"),
    [(False, {"FIN-01": 4}), (True, {"FIN-01": 2, "FIN-02": 1, "FIN-03": 1})],
)
def test_the_machines_of_one_plan_are_spread_only_where_asked(spread: bool, places: dict[str, int]) -> None:
    snapshot = world(
        policy=policy(spread_locations=spread),
        offers=offers(A1, locations=ZONES),
        pods=tuple(pod(f"p{n}") for n in range(4)),
    )
    assert bought(snapshot) == places


def test_machines_that_are_there_count_and_those_that_leave_or_are_of_other_pools_do_not() -> None:
    busy = there("FIN-01", "FIN-02", "FIN-02")
    going = (
        machine("home-a100-leaving000", A1, Phase.DELETING, location="FIN-03"),
        machine("home-other-000000000", A1, Phase.DELETING, location="FIN-03", pool="other"),
    )
    snapshot = world(
        policy=policy(spread_locations=True),
        offers=offers(A1, locations=ZONES),
        machines=(*busy, *going),
        pods=tuple(pod(f"p{n}", 1) for n in range(6)),
    )
    # Three of the six are held by the machines on their way.
    assert bought(snapshot) == {"FIN-03": 2, "FIN-01": 1}


def test_the_order_of_the_pools_locations_decides_between_equals() -> None:
    snapshot = world(
        policy=policy(pool(locations=("FIN-03", "FIN-01")), spread_locations=True),
        offers=offers(A1, locations=ZONES),
        pods=(pod(),),
    )
    assert bought(snapshot) == {"FIN-03": 1}


def test_no_dearer_and_no_larger_machine_is_bought_to_spread() -> None:
    dearer = kind("1A100.22V", 1, 22, 120, "1.50")
    snapshot = world(
        policy=policy(spread_locations=True),
        offers=offers(A1) + offers(dearer, A2, locations=("FIN-02",)),
        pods=tuple(pod(f"p{n}") for n in range(3)),
    )
    launches = [a for a in plan(snapshot).actions if isinstance(a, Launch)]
    assert {(a.offer.location, a.offer.price) for a in launches} == {("FIN-01", Decimal("1.29"))}


def test_a_pod_that_names_a_location_is_not_moved_away() -> None:
    here = (NodeTerm((Requirement(ZONE, "In", ("FIN-01",)),)),)
    snapshot = world(
        policy=policy(spread_locations=True),
        offers=offers(A1, locations=ZONES),
        pods=tuple(pod(f"p{n}", required_terms=here) for n in range(3)),
    )
    assert bought(snapshot) == {"FIN-01": 3}


def test_machines_that_a_cheaper_packing_buys_are_spread_as_well() -> None:
    """Of one pod after the other onto the best machine for it comes a dearer set."""
    small, wide = kind("1S.10V", 1, 10, 64, "1.00"), kind("8W.48V", 8, 48, 256, "2.00", "V100")
    asked = ((1, 15, 60), (2, 15, 60), (1, 3, 40), (1, 9, 60), (2, 8, 10), (1, 3, 60))
    pods = tuple(
        pod(f"p{n}", gpus, requests={"cpu": cpus * 1000, "memory": memory * GIB})
        for n, (gpus, cpus, memory) in enumerate(asked)
    )
    sold = offers(small, wide, kind("8L.120V", 8, 120, 512, "6.50"), locations=ZONES)
    rules = policy(strategy="cheapest", spread_locations=True)
    assert bought(world(policy=rules, pods=pods, offers=sold)) == {"FIN-01": 1, "FIN-02": 1}
    elsewhere = there("FIN-01", "FIN-02", gpus=0)  # no place for these pods
    assert bought(world(policy=rules, pods=pods, offers=sold, machines=elsewhere)) == {
        "FIN-03": 1,
        "FIN-01": 1,
    }
