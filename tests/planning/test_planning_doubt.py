"""Pools whose machines never become usable: who waits with others, who has something else, and that one at a time is tried."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.machine import Phase
from controller.domain.plan import InVain, Launch, Plan, Tried
from controller.domain.policy import Headroom
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A8, NOW, machine, node, offers, pod, policy, pool, world

HOUR = 3600.0
TWO = (pool("a", instance_types=("1A100.22V",)), pool("b", instance_types=("2A100.44V",)))


def doubt(**more: Any) -> dict[str, InVain]:
    known: dict[str, Any] = {"tries": 3, "last": NOW - 60, "reason": Reason.JOIN_DEADLINE, "later": 2}
    return {more.pop("pool", "a100"): InVain(**(known | more))}


def bought(decided: Plan) -> list[Launch]:
    return [action for action in decided.actions if isinstance(action, Launch)]


def test_a_pod_that_comes_while_nothing_of_its_pool_becomes_usable_waits_with_the_others() -> None:
    decided = plan(world(offers=offers(A1), pods=(pod(),), in_vain=doubt()))
    assert bought(decided) == []
    why = decided.pods["default/train"]
    assert why.code is Reason.JOIN_DEADLINE
    assert "unless a machine of the pool becomes usable" in why.message
    assert decided.wake_at == NOW - 60 + HOUR


@pytest.mark.parametrize(
    "against",
    [
        {"types": ("1A100.22V",), "locations": ("FIN-01", "FIN-03")},
        {"types": ("1A100.22V", "8A100.176V"), "locations": ("FIN-03",)},
    ],
)
def test_what_failed_of_one_type_or_in_one_location_keeps_no_pod_that_has_something_else(
    against: dict[str, Any],
) -> None:
    sold = (*offers(A1, locations=("FIN-03",)), *offers(A2))
    decided = plan(world(offers=sold, pods=(pod("two", 2),), in_vain=doubt(**against)))
    assert [launch.offer.type.name for launch in bought(decided)] == ["2A100.44V"]


def test_while_a_pause_lasts_pods_have_what_is_not_in_doubt() -> None:
    """The pool in doubt is the one that they would have had."""
    rules = policy(*TWO, max_overshoot=1)
    pods = tuple(pod(f"p{n}") for n in range(4))
    decided = plan(world(policy=rules, offers=offers(A1, A2), pods=pods, in_vain=doubt(pool="a")))
    assert {launch.pool for launch in bought(decided)} == {"b"}
    later = doubt(pool="a", last=NOW - 2 * HOUR)
    decided = plan(world(policy=rules, offers=offers(A1, A2), pods=pods, in_vain=later))
    assert {launch.pool for launch in bought(decided)} == {"a"}
    coming = machine(pool="a", phase=Phase.BOOTING, intended_at=NOW - 20, pods=("default/else",))
    there = world(policy=rules, offers=offers(A1, A2), pods=pods, in_vain=later, machines=(coming,))
    assert {launch.pool for launch in bought(plan(there))} == {"b"}


def test_one_machine_at_a_time_is_tried_for_whoever_wants_one() -> None:
    rules = policy(pool(min=3, max=20), headroom=(Headroom(pool="a100", gpus=4),))
    pods = tuple(pod(f"p{n}") for n in range(30))
    later = doubt(last=NOW - 2 * HOUR, tries=2)
    assert len(bought(plan(world(policy=rules, offers=offers(A1), pods=pods, in_vain=later)))) == 1
    alone = policy(pool(max=20))
    assert len(bought(plan(world(policy=alone, offers=offers(A1), pods=pods, in_vain=later)))) == 1
    coming = machine(phase=Phase.BOOTING, intended_at=NOW - 20, pods=("default/else",))
    there = world(policy=alone, offers=offers(A1), pods=pods, machines=(coming,), in_vain=later)
    assert bought(plan(replace(there, pods=pods[1:]))) == []


def test_a_pod_that_waits_longer_than_the_last_try_of_others_comes_before_those() -> None:
    """Else the smallest of those that fail would be tried for ever."""
    dear = tuple(replace(o, type=replace(o.type, price=Decimal(2))) for o in offers(A2))
    given_up = {
        "default/old uid-old": {"home-a100-x": Reason.JOIN_DEADLINE, "home-a100-y": Reason.JOIN_DEADLINE}
    }
    tried = Tried(tries=2, last=NOW - 4 * HOUR, machines=("home-a100-x", "home-a100-y"))
    snapshot = world(
        offers=(*offers(A1), *dear),
        pods=(pod("old", uid="uid-old", created=NOW - 9 * HOUR), pod("new", 2, created=NOW - 5 * HOUR)),
        in_vain=doubt(last=NOW - 4 * HOUR),
        given_up=given_up,
        tried={"a100/1A100.22V/FIN-01": tried},
    )
    assert [launch.pods for launch in bought(plan(snapshot))] == [("default/new",)]


def gang(*gpus: int, **more: Any) -> tuple[Any, ...]:
    said = {names.POD_GANG: "g", names.POD_GANG_SIZE: str(len(gpus))}
    return tuple(pod(f"g-{n}", many, annotations=said, **more) for n, many in enumerate(gpus))


@pytest.mark.parametrize("most", [1, 2])
def test_a_gang_that_other_pools_cannot_hold_is_tried_as_a_whole_once_the_pause_is_over(most: int) -> None:
    rules = policy(
        pool("a", instance_types=("1A100.22V",)), pool("b", max=most, instance_types=("1A100.22V",))
    )
    busy = (
        machine(
            "home-b-bbbbbbbbbb", pool="b", phase=Phase.BOOTING, intended_at=NOW - 20, pods=("default/else",)
        ),
    )
    long_ago = doubt(pool="a", last=NOW - 1e6)
    snapshot = world(
        policy=rules, offers=offers(A1), pods=gang(1, 1, 1, 1, 1), machines=busy, in_vain=long_ago
    )
    decided = plan(snapshot)
    assert {why.code for why in decided.pods.values()} <= {Reason.LAUNCHING, Reason.ON_THE_WAY}


@pytest.mark.parametrize("strategy", ["smallest", "cheapest", "priority"])
@pytest.mark.parametrize("spread", [True, False])
def test_the_same_type_is_bought_where_it_did_not_fail(strategy: str, spread: bool) -> None:
    rules = policy(pool(max=20), strategy=strategy, spread_locations=spread)
    sold = offers(A1, locations=("FIN-01", "FIN-02"))
    pods = tuple(pod(f"p{n}") for n in range(6))
    failed = doubt(types=("1A100.22V", "2A100.44V"), locations=("FIN-01",))
    decided = plan(world(policy=rules, offers=sold, pods=pods, in_vain=failed))
    assert [launch.offer.location for launch in bought(decided)] == ["FIN-02"] * 6


def test_a_larger_type_that_a_pod_may_not_have_is_nothing_else() -> None:
    """Else all of them would be bought for at once after each pause."""
    sold = (*offers(A1), *offers(A8))
    pods = tuple(pod(f"p{n}") for n in range(20))
    over = doubt(last=NOW - 48 * HOUR, types=("1A100.22V",))
    rules = policy(pool(max=40), max_overshoot=1)
    assert len(bought(plan(world(policy=rules, offers=sold, pods=pods, in_vain=over)))) == 1


def test_a_pool_that_is_full_is_nothing_else() -> None:
    rules = policy(pool("a", max=40), pool("b", max=1))
    busy = machine("home-b-bbbbbbbbbb", pool="b", ready_at=NOW - 900)
    there = node(busy.name)
    user = pod("user", node=busy.name)
    pods = tuple(pod(f"p{n}") for n in range(20))
    over = doubt(pool="a", last=NOW - 48 * HOUR)
    snapshot = world(
        policy=rules, offers=offers(A1), pods=(user, *pods), machines=(busy,), nodes=(there,), in_vain=over
    )
    assert [launch.pool for launch in bought(plan(snapshot))] == ["a"]


def test_whoever_was_tried_longest_ago_comes_first() -> None:
    """Of two that are due in the same second the cheaper one would be tried for ever, and renew the pause of the other."""
    sorts = {
        f"a100/1A100.22V/{place}": Tried(tries=9, last=NOW - 86400 - since, machines=names_)
        for place, since, names_ in (("FIN-01", 0, ("x1", "x2")), ("FIN-02", 60, ("y1", "y2")))
    }
    given_up = {
        f"default/{key} uid-{key}": dict.fromkeys((f"{key}1", f"{key}2"), Reason.JOIN_DEADLINE)
        for key in "xy"
    }
    bound = {"x": "FIN-01", "y": "FIN-02"}
    pods = tuple(
        pod(key, node_selector={names.LABEL_ZONE: place}, created=NOW - 3e5 - (9 if key == "x" else 5))
        for key, place in bound.items()
    )
    known = doubt(tries=20, later=9, last=NOW - 86400, types=("1A100.22V",), locations=("FIN-01", "FIN-02"))
    sold = offers(A1, locations=("FIN-01", "FIN-02"))
    snapshot = world(offers=sold, pods=pods, in_vain=known, tried=sorts, given_up=given_up)
    assert [launch.pods for launch in bought(plan(snapshot))] == [("default/y",)]


def test_a_machine_on_its_way_that_is_like_none_that_failed_holds_nobody_up() -> None:
    coming = machine(of=A2, phase=Phase.BOOTING, intended_at=NOW - 20, pods=("x/y",))
    over = doubt(last=NOW - 48 * HOUR, types=("1A100.22V",))
    large = pod("else", 2, uid="uid-else", namespace="x")
    snapshot = world(offers=offers(A1), pods=(pod(),), machines=(coming,), in_vain=over)
    decided = plan(replace(snapshot, pods=(*snapshot.pods, replace(large, name="y"))))
    assert [launch.offer.type.name for launch in bought(decided)] == ["1A100.22V"]


@pytest.mark.parametrize("age", [60.0, 23 * HOUR])
@pytest.mark.parametrize("what", ["min", "headroom"])
def test_a_minimum_is_filled_where_nothing_failed(what: str, age: float) -> None:
    rules = policy(pool(min=1)) if what == "min" else policy(headroom=(Headroom(pool="a100", gpus=1),))
    failed = doubt(tries=9, later=0, last=NOW - age, types=("1A100.22V",), locations=("FIN-01",))
    sold = offers(A1, locations=("FIN-01", "FIN-02"))
    decided = plan(world(policy=rules, offers=sold, in_vain=failed))
    assert [launch.offer.location for launch in bought(decided)] == ["FIN-02"]
    coming = machine(phase=Phase.BOOTING, intended_at=NOW - 20, location="FIN-01", pods=("default/else",))
    assert bought(plan(world(policy=rules, offers=sold, in_vain=failed, machines=(coming,)))) == []
