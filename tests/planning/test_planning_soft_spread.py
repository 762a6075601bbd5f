"""Spreads that give way (ScheduleAnyway) decide where a machine is bought, as long as it costs nothing."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from controller.domain.kube import Selector, Spread
from controller.domain.plan import Launch, Snapshot
from controller.domain.policy import DefaultSpread
from controller.planning.planner import plan
from tests.planning.worlds import A1, kind, node, offers, pod, policy, pool, world

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = ("FIN-01", "FIN-02", "FIN-03")
WEB = Selector(labels={"app": "web"})


def bought(snapshot: Snapshot) -> Counter[str]:
    return Counter(a.offer.location for a in plan(snapshot).actions if isinstance(a, Launch))


def spread(count: int, key: str = ZONE, *, hard: bool = False, **more: Any) -> Any:
    rule = Spread(topology_key=key, hard=hard, selector=WEB)
    return tuple(pod(f"w{n}", labels={"app": "web"}, spreads=(rule,), **more) for n in range(count))


def test_equal_offers_are_taken_in_turn() -> None:
    assert bought(world(pods=spread(3), offers=offers(A1, locations=ZONES))) == dict.fromkeys(ZONES, 1)
    assert bought(world(pods=spread(4), offers=offers(A1, locations=ZONES)))["FIN-01"] == 2


def test_pods_that_run_count() -> None:
    there = node("n", 1, labels={HOST: "n", ZONE: "FIN-01"})
    running = pod("running", node="n", labels={"app": "web"})
    snapshot = world(pods=(running, *spread(1)), nodes=(there,), offers=offers(A1, locations=ZONES))
    assert bought(snapshot) == {"FIN-02": 1}


def test_nothing_dearer_is_bought_for_it() -> None:
    sold = (*offers(A1, locations=("FIN-02",), markets=("spot",)), *offers(A1, locations=ZONES))
    rules = policy(pool(market="prefer_spot"))
    assert bought(world(pods=spread(3), policy=rules, offers=sold)) == {"FIN-02": 3}


def test_what_has_no_rule_of_its_own_goes_where_the_pool_prefers() -> None:
    pods = tuple(pod(f"w{n}") for n in range(3))
    assert bought(world(pods=pods, offers=offers(A1, locations=ZONES))) == {"FIN-01": 3}


REPLICAS: dict[str, Any] = {"owner_kind": "ReplicaSet", "owner_uid": "rs-1", "owner_name": "web-1"}


def replicas(count: int, **more: Any) -> Any:
    return tuple(pod(f"r{n}", **(REPLICAS | more)) for n in range(count))


def test_the_clusters_own_defaults_hold_for_replicas_that_say_nothing() -> None:
    for hard in (False, True):
        rules = policy(default_spreads=(DefaultSpread(topology_key=ZONE, hard=hard),))
        snapshot = world(pods=replicas(3), policy=rules, offers=offers(A1, locations=ZONES))
        assert bought(snapshot) == dict.fromkeys(ZONES, 1)
    without = world(pods=replicas(3), offers=offers(A1, locations=ZONES))
    assert bought(without) == {"FIN-01": 3}


@pytest.mark.parametrize(
    "other",
    [
        {"owner_kind": "Job"},
        {"owner_kind": ""},
        {"spreads": (Spread(topology_key=HOST, selector=WEB, hard=False),), "labels": {"app": "web"}},
    ],
)
def test_defaults_do_not_hold_for_pods_with_rules_of_their_own_or_of_other_owners(other: Any) -> None:
    rules = policy(default_spreads=(DefaultSpread(topology_key=ZONE, hard=True),))
    snapshot = world(pods=replicas(3, **other), policy=rules, offers=offers(A1, locations=ZONES))
    assert bought(snapshot) == {"FIN-01": 3}


def test_a_hard_default_counts_the_running_replicas_of_the_same_owner_only() -> None:
    there = node("n", 1, labels={HOST: "n", ZONE: "FIN-01"})
    rules = policy(pool(locations=ZONES), default_spreads=(DefaultSpread(topology_key=ZONE, hard=True),))
    values: dict[str, Any] = {"policy": rules, "nodes": (there,), "offers": offers(A1, locations=ZONES)}
    mine = pod("mine", node="n", **REPLICAS)
    other = pod("other", node="n", **(REPLICAS | {"owner_uid": "rs-2"}))
    assert bought(world(pods=(mine, *replicas(1)), **values)) == {"FIN-02": 1}
    assert bought(world(pods=(other, *replicas(1)), **values)) == {"FIN-01": 1}


@pytest.mark.parametrize("strategy", ["smallest", "cheapest"])
@pytest.mark.parametrize("hard", [True, False])
def test_a_rule_of_one_pod_buys_no_second_machine_where_a_wider_one_holds_both(
    strategy: str, hard: bool
) -> None:
    narrow, wide = kind("2L40S.24V", 2, 24, 120, "2.58"), kind("2L40S.40V", 2, 40, 240, "2.58")
    apart = Spread(topology_key=HOST, selector=WEB, hard=hard)
    web = pod("web", labels={"app": "web"}, spreads=(apart,), requests={"cpu": 19000})
    snapshot = world(
        pods=(web, pod("batch", requests={"cpu": 9000})),
        offers=offers(narrow, wide),
        policy=policy(strategy=strategy),
    )
    assert [a.offer.type.name for a in plan(snapshot).actions if isinstance(a, Launch)] == ["2L40S.40V"]


@pytest.mark.parametrize("seed", range(6))
def test_who_would_rather_be_on_different_hosts_costs_no_more_than_who_does_not_care(seed: int) -> None:
    chance = random.Random(seed)
    sizes = [(chance.choice((1, 1, 2)), chance.randint(1, 20)) for _ in range(8)]
    few, some, many = (
        kind("1FEW", 1, 6, 60, "0.60"),
        kind("2SOME", 2, 44, 120, "1.90"),
        kind("4MANY", 4, 88, 480, "2.80"),
    )

    def price(**rules: Any) -> Decimal:
        webs = tuple(
            pod(f"web-{n}", g, requests={"cpu": c * 500 * g}, **rules) for n, (g, c) in enumerate(sizes)
        )
        sold = world(pods=webs, offers=offers(few, some, many), policy=policy(strategy="cheapest"))
        return sum((a.offer.price for a in plan(sold).actions if isinstance(a, Launch)), Decimal(0))

    apart = Spread(topology_key=HOST, selector=WEB, hard=False)
    assert price(labels={"app": "web"}, spreads=(apart,)) == price()
