"""Pools whose machines never become usable: who waits with others, who has something else, and that one at a time is tried."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.cloudthings import InstanceType
from controller.domain.kube import Node, Pod
from controller.domain.machine import ONCE_READY, Machine, Phase
from controller.domain.plan import Failing, InVain, Launch, Plan, Snapshot, Tried
from controller.domain.policy import Headroom, Limits
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, A8, NOW, machine, node, offers, pod, policy, pool, world

HOUR = 3600.0
TWO = (pool("a", instance_types=("1A100.22V",)), pool("b", instance_types=("2A100.44V",)))


EVERYWHERE = ("FIN-01", "FIN-02", "FIN-03")


def doubt(
    *,
    pool: str = "a100",
    tries: int = 3,
    later: int = 2,
    last: float = NOW - 60,
    types: tuple[str, ...] = (),
    locations: tuple[str, ...] = EVERYWHERE,
    fine: dict[str, float] | None = None,
) -> dict[str, InVain]:
    """Without types nobody knows which they were."""
    numbers = tuple(range(1, tries + 1))
    failing = Failing(since=last - 9 * HOUR, last=last, tries=numbers)
    known = InVain(
        tries=tries,
        last=last,
        reason=Reason.JOIN_DEADLINE,
        firsts=numbers[len(numbers) - later :] if later else (),
        sorts={f"{kind}/{place}": failing for kind in types for place in locations},
        fine=fine or {},
    )
    return {pool: known}


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
    assert Counter(launch.pool for launch in bought(decided)) == {"a": 1, "b": 2}
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


def twice_in_vain(sort: str, ago: float, name: str = "train") -> dict[str, Any]:
    """What the ledger remembers of a pod for which two machines of that sort never became usable."""
    machines = ("home-a100-x", "home-a100-y")
    return {
        "given_up": {f"default/{name} uid-{name}": dict.fromkeys(machines, Reason.READY_DEADLINE)},
        "tried": {sort: Tried(tries=2, last=NOW - ago, machines=machines)},
        "in_vain": doubt(tries=2, later=0, last=NOW - ago, types=("1A100.22V",), locations=("FIN-01",)),
    }


@pytest.mark.parametrize("ago", [2 * HOUR, 48 * HOUR])
def test_what_is_tried_for_a_pod_is_what_did_not_fail_for_it(ago: float) -> None:
    sold = offers(A1, locations=("FIN-01", "FIN-02"))
    one = pod("train", uid="uid-train")
    snapshot = world(offers=sold, pods=(one,), **twice_in_vain("a100/1A100.22V/FIN-01", ago))
    assert [launch.offer.location for launch in bought(plan(snapshot))] == ["FIN-02"]


@pytest.mark.parametrize("what", ["min", "headroom", "pod"])
def test_what_is_tried_is_what_did_not_fail_yet_and_then_what_failed_longest_ago(what: str) -> None:
    """Of a pool that is in doubt as a whole."""
    rules = policy(
        pool(min=int(what == "min"), locations=EVERYWHERE),
        headroom=(Headroom(pool="a100", gpus=1),) if what == "headroom" else (),
    )
    types = ("1A100.22V", "2A100.44V")
    failed = doubt(last=NOW - 1e6, types=types, locations=("FIN-01", "FIN-02"))
    pods = (pod(),) if what == "pod" else ()
    decided = plan(world(policy=rules, offers=offers(A1, locations=EVERYWHERE), pods=pods, in_vain=failed))
    assert [launch.offer.location for launch in bought(decided)] == ["FIN-03"]
    known = doubt(last=NOW - 1e6, types=types)["a100"]
    longest = replace(known.sorts["1A100.22V/FIN-02"], last=NOW - 2e6)
    failed = {"a100": replace(known, sorts={**known.sorts, "1A100.22V/FIN-02": longest})}
    decided = plan(world(policy=rules, offers=offers(A1, locations=EVERYWHERE), pods=pods, in_vain=failed))
    assert [launch.offer.location for launch in bought(decided)] == ["FIN-02"]


@pytest.mark.parametrize("places", [("FIN-01",), ("FIN-01", "FIN-02")])
@pytest.mark.parametrize("later", [0, 9])
def test_of_many_pods_one_tries_what_failed_and_the_others_have_something_else(
    places: tuple[str, ...], later: int
) -> None:
    rules = policy(
        pool("a", instance_types=("1A100.22V",), max=40),
        pool("b", instance_types=("2A100.44V",), max=40),
        max_overshoot=1,
    )
    pods = tuple(pod(f"p{n}") for n in range(20))
    over = doubt(pool="a", last=NOW - 25 * HOUR, tries=12, later=later)
    decided = plan(world(policy=rules, offers=offers(A1, A2, locations=places), pods=pods, in_vain=over))
    assert sum(launch.pool == "a" for launch in bought(decided)) == 1
    assert {why.code for why in decided.pods.values()} == {Reason.LAUNCHING}


def test_where_the_others_become_too_few_pods_wait_for_the_one_that_is_tried() -> None:
    rules = policy(
        pool("a", instance_types=("1A100.22V",), max=40),
        pool("b", instance_types=("2A100.44V",), max=1),
        max_overshoot=1,
    )
    pods = tuple(pod(f"p{n}") for n in range(6))
    over = doubt(pool="a", last=NOW - 25 * HOUR, tries=12, later=9)
    decided = plan(world(policy=rules, offers=offers(A1, A2), pods=pods, in_vain=over))
    assert Counter(launch.pool for launch in bought(decided)) == {"a": 1, "b": 1}
    waiting = [why for why in decided.pods.values() if why.code is not Reason.LAUNCHING]
    assert len(waiting) == 3
    assert all("pool a: its machines did not become usable lately" in why.message for why in waiting)
    assert all("raise its max to at least 2" in why.message for why in waiting)


def test_what_was_of_use_since_is_not_in_doubt_with_what_failed_elsewhere() -> None:
    sold = offers(A1, locations=EVERYWHERE)
    failed = doubt(types=("1A100.22V",), locations=("FIN-01", "FIN-02"))
    one = (pod(),)
    assert bought(plan(world(offers=sold, pods=one, in_vain=failed))) == []  # the type may be what is wrong
    works = doubt(types=("1A100.22V",), locations=("FIN-01", "FIN-02"), fine={"1A100.22V/FIN-03": NOW - 30})
    decided = plan(world(offers=sold, pods=one, in_vain=works))
    assert [launch.offer.location for launch in bought(decided)] == ["FIN-03"]
    # But where it began to fail elsewhere after that, something came between.
    before = doubt(types=("1A100.22V",), locations=("FIN-01", "FIN-02"), fine={"1A100.22V/FIN-03": NOW - 1e6})
    assert bought(plan(world(offers=sold, pods=one, in_vain=before))) == []


def test_a_first_failure_of_what_was_of_use_is_replaced_at_once_however_often_others_failed() -> None:
    known = doubt(tries=12, later=9, types=("1A100.22V",), locations=("FIN-01",))["a100"]
    once = Failing(since=NOW - 60, last=NOW - 60, tries=(13,))
    sorts = {**known.sorts, "1A100.22V/FIN-03": once}
    failed = {
        "a100": replace(
            known, tries=13, sorts=sorts, fine={"1A100.22V/FIN-02": NOW - 90, "1A100.22V/FIN-03": NOW - 900}
        )
    }
    decided = plan(world(offers=offers(A1, locations=("FIN-01", "FIN-03")), pods=(pod(),), in_vain=failed))
    assert [launch.offer.location for launch in bought(decided)] == ["FIN-03"]


@pytest.mark.parametrize("locations", [("FIN-01",), ("FIN-01", "FIN-02")])
def test_a_gang_has_what_did_not_fail_where_that_is_enough_for_it(locations: tuple[str, ...]) -> None:
    rules = policy(pool("a", max=9), pool("b", max=2))
    failed = doubt(pool="a", last=NOW - 1e6, types=("1A100.22V",), locations=locations)
    sold = offers(A1, locations=("FIN-01", "FIN-02"))
    decided = plan(world(policy=rules, offers=sold, pods=gang(1, 1), in_vain=failed))
    assert all((launch.pool, launch.offer.location) != ("a", "FIN-01") for launch in bought(decided))
    assert len(bought(decided)) == 2
    # What is enough for each of them is not enough for all: then it has what there is.
    narrow = policy(pool("a", max=9), pool("b", max=1))
    sold = offers(A1)
    decided = plan(world(policy=narrow, offers=sold, pods=gang(1, 1, 1), in_vain=failed))
    assert len(bought(decided)) == 3


def failed_twice(ago: float, tries: int = 2, pods: tuple[str, ...] = ("train",)) -> dict[str, Any]:
    """Two machines of these pods came to nothing, both of pool a."""
    last, kind = NOW - ago, "1A100.22V/FIN-01"
    known = InVain(
        tries=tries,
        last=last,
        counted=last,
        reason=Reason.JOIN_DEADLINE,
        firsts=(1,),
        sorts={kind: Failing(since=last - 2 * HOUR, last=last, tries=tuple(range(1, tries + 1)))},
    )
    machines = {"m1": Reason.JOIN_DEADLINE, "m2": Reason.JOIN_DEADLINE}
    return {
        "in_vain": {"a": known},
        "given_up": {f"default/{name} uid-{name}": machines for name in pods},
        "tried": {f"a/{kind}": Tried(tries=2, last=last, counted=last, machines=("m1", "m2"))},
    }


def pools_of(snapshot: Snapshot) -> set[str]:
    return {launch.pool for launch in bought(plan(snapshot)) if launch.pods}


def test_who_had_machines_in_vain_may_have_a_larger_one_that_the_settings_allow() -> None:
    rules = policy(*TWO, max_overshoot=1)
    old = pod(created=NOW - 99 * HOUR, uid="uid-train")
    assert pools_of(world(policy=rules, offers=offers(A1, A2), pods=(old,), **failed_twice(9 * HOUR, 4))) == {
        "b"
    }


@pytest.mark.parametrize("more", [{}, {"gangs_in_one_location": True}])
def test_so_may_a_gang(more: dict[str, Any]) -> None:
    said = {names.POD_GANG: "g", names.POD_GANG_SIZE: "2"}
    two = ("train", "other")
    pods = tuple(pod(name, created=NOW - 99 * HOUR, annotations=said, uid=f"uid-{name}") for name in two)
    rules = policy(*TWO, max_overshoot=1, **more)
    there = world(policy=rules, offers=offers(A1, A2), pods=pods, **failed_twice(9 * HOUR, 4, two))
    assert pools_of(there) == {"b"}


def test_a_minimum_in_doubt_takes_no_pod_along_that_its_pool_failed_already() -> None:
    """It came first, and with the pod's own pause: each failure renewed both, and no other pool was ever asked."""
    rules = policy(pool("a", min=1, instance_types=(A1.name,)), pool("b", instance_types=(A1.name,)))
    old = pod(created=NOW - 99 * HOUR, uid="uid-train")
    there = world(policy=rules, offers=offers(A1), pods=(old,), **failed_twice(1.01 * HOUR))
    assert pools_of(there) == {"b"}


@pytest.mark.parametrize("tried", [True, False])
def test_who_may_have_nothing_alone_gets_one_in_doubt_with_others_where_none_is_tried(tried: bool) -> None:
    """Beside the one that is tried it would be a second try."""
    sold = (*offers(A2, available=False), *offers(A1, A4))
    pods = tuple(pod(f"p{n}", 2) for n in range(8)) + ((pod("alone"),) if tried else ())
    rules = policy(pool(max=9), max_overshoot=0)
    types = ("1A100.22V", "2A100.44V", "4A100.88V")
    failed = doubt(last=NOW - 1e6, types=types, locations=("FIN-01", "FIN-02"))
    assert len(bought(plan(world(policy=rules, offers=sold, pods=pods)))) == 4 + tried
    (launch,) = bought(plan(world(policy=rules, offers=sold, pods=pods, in_vain=failed)))
    assert launch.pods == (("default/alone",) if tried else ("default/p0", "default/p1"))


@pytest.mark.parametrize("overshoot", [0, 1])
@pytest.mark.parametrize("kinds", [(A4,), (A4, A8), (A8,)])
def test_a_gang_whose_own_size_is_sold_out_is_one_try_of_as_many_larger_ones_as_it_needs(
    kinds: tuple[InstanceType, ...], overshoot: int
) -> None:
    sold = (*offers(A2, available=False), *offers(*kinds))
    said = {names.POD_GANG: "g", names.POD_GANG_SIZE: "4"}
    pods = tuple(
        pod(f"g{n}", 2, annotations=said, uid=f"uid-g{n}", created=NOW - 99 * HOUR) for n in range(4)
    )
    machines = dict.fromkeys(("m1", "m2"), Reason.JOIN_DEADLINE)
    last = NOW - 60 * HOUR
    types = ("1A100.22V", "2A100.44V", "4A100.88V", "8A100.176V")
    history: dict[str, Any] = {
        "in_vain": doubt(last=last, types=types, locations=("FIN-01", "FIN-02")),
        "given_up": {f"default/{one.name} uid-{one.name}": machines for one in pods},
        "tried": {"a100/4A100.88V/FIN-01": Tried(tries=2, last=last, machines=("m1", "m2"))},
    }
    rules = policy(pool(max=9), max_overshoot=overshoot)
    fresh = bought(plan(world(policy=rules, offers=sold, pods=pods)))
    again = bought(plan(world(policy=rules, offers=sold, pods=pods, **history)))
    assert [launch.offer.type.name for launch in again] == [launch.offer.type.name for launch in fresh]
    assert again


def members(name: str, count: int, *, gpus: int = 2, **more: Any) -> tuple[Pod, ...]:
    """Of a gang of two."""
    said = {names.POD_GANG: name, names.POD_GANG_SIZE: "2"}
    return tuple(pod(f"{name}{n}", gpus, annotations=said, **more) for n in range(count))


@pytest.mark.parametrize("what", ["two gangs", "one more than a gang needs"])
def test_what_is_left_on_the_last_machine_of_a_gangs_try_is_for_others_without_whom_it_is_too_large(
    what: str,
) -> None:
    old, last = NOW - 99 * HOUR, NOW - 60 * HOUR
    there: dict[str, Any] = {}
    if what == "two gangs":
        waiting, large = (*members("g", 2, created=old), *members("k", 2, created=old + 9)), A8
    else:
        busy = machine(of=A8, joined_at=NOW - 800, ready_at=NOW - 700)
        there = {"nodes": (node(busy.name, 8, cpu=176, memory=900),), "machines": (busy,)}
        running = members("g", 2, gpus=4, created=old, node=busy.name)
        more = members("g", 3, created=old)[2:]
        waiting, large = (*more, pod("alone", 2, created=old + 9)), A4
        there["pods"] = (*running, *waiting)
    machines = dict.fromkeys(("m1", "m2"), Reason.JOIN_DEADLINE)
    history: dict[str, Any] = {
        "in_vain": doubt(last=last, types=tuple(k.name for k in (A1, A2, A4, A8)), locations=EVERYWHERE[:2]),
        "given_up": {one.identity: machines for one in waiting if one.shape.annotations},
        "tried": {f"a100/{large.name}/FIN-01": Tried(tries=2, last=last, machines=("m1", "m2"))},
    }
    sold = (*offers(A2, available=False), *offers(large))
    rules = policy(pool(max=9), max_overshoot=1)
    (launch,) = bought(plan(world(policy=rules, offers=sold, **({"pods": waiting} | there | history))))
    assert launch.offer.type == large
    assert set(launch.pods) == {one.key for one in waiting}


def test_of_two_things_that_speak_against_it_the_one_with_the_longer_pause_counts() -> None:
    sort = "1A100.22V/FIN-01"

    def known(tries: int, ago: float) -> InVain:
        numbers, last = tuple(range(1, tries + 1)), NOW - ago * HOUR
        failing = Failing(since=last - 9 * HOUR, last=last, tries=numbers)
        reason = Reason.JOIN_DEADLINE
        return InVain(
            tries=tries, last=last, counted=last, reason=reason, firsts=numbers, sorts={sort: failing}
        )

    never = {"a100": known(12, 6)}
    for in_vain in (never, never | {f"a100{ONCE_READY}": known(2, 2)}):
        found = plan(world(offers=offers(A1), pods=(pod(),), in_vain=in_vain))
        assert not any(isinstance(action, Launch) for action in found.actions)


def up(number: int, since: float, *, silent: bool = False) -> tuple[Machine, Node, Pod]:
    """A machine that became usable then, with its pod; `silent`: its Node fell silent half an hour later."""
    name = f"home-a100-{'abcdefgh'[number] * 10}"
    labels = {"kubernetes.io/hostname": name, names.LABEL_INSTANCE_TYPE: A1.name}
    ready_since = since + 1800 if silent else since
    there = node(name, 1, labels=labels, ready=not silent, ready_since=ready_since, created=since - 60)
    mine = machine(name, intended_at=since - 300, ready_at=since, pods=(f"default/job{number}",))
    return mine, there, pod(f"job{number}", node=name)


@pytest.mark.parametrize(("others", "count"), [((NOW - 5 * 24 * HOUR,), 4), ((), 1)])
def test_machines_that_are_silent_for_days_hold_nobody_up_once_another_one_has_held(
    others: tuple[float, ...], count: int
) -> None:
    """They stay, for work may go on there, and were counted anew in each plan."""
    silent = [up(number, NOW - (20 - number) * 24 * HOUR, silent=True) for number in range(2)]
    there = [*silent, *(up(2 + number, since) for number, since in enumerate(others))]
    machines, nodes, pods = zip(*there, strict=True)
    waiting = tuple(pod(f"w{number}") for number in range(4))
    found = plan(
        world(
            policy=policy(pool(max=100)),
            offers=offers(A1),
            machines=machines,
            nodes=nodes,
            pods=(*pods, *waiting),
        )
    )
    assert len(bought(found)) == count


def gang_of(name: str, size: int, created: float, **more: Any) -> tuple[Pod, ...]:
    marks = {names.POD_GANG: name, names.POD_GANG_SIZE: str(size)}
    return tuple(pod(f"{name}-{n}", created=created, annotations=marks, **more) for n in range(size))


def failed(kind: str, tries: int) -> InVain:
    failing = Failing(since=NOW - 49 * HOUR, last=NOW - 30 * HOUR, tries=tuple(range(1, tries + 1)))
    return InVain(
        tries=tries, last=NOW - 30 * HOUR, counted=NOW - 30 * HOUR, reason=Reason.JOIN_DEADLINE, firsts=(1, 2),
        sorts={f"{kind}/FIN-01": failing}, fine={"1A100.22V/FIN-01": NOW - 5 * HOUR} if kind != A1.name else {},
    )  # fmt: skip


def test_a_gang_without_a_turn_keeps_no_place_from_one_that_has_it() -> None:
    home, there, _ = up(0, NOW - 5 * HOUR)
    elder, younger = gang_of("elder", 3, NOW - 50 * HOUR), gang_of("younger", 4, NOW - 40 * HOUR)
    vain = dict.fromkeys(("v1", "v2"), Reason.JOIN_DEADLINE)
    known = Tried(tries=5, last=NOW - 30 * HOUR, counted=NOW - 30 * HOUR, machines=("v1", "v2"))
    found = plan(
        world(
            policy=policy(pool(max=2), max_overshoot=1),
            offers=offers(A1, A2),
            machines=(home,),
            nodes=(there,),
            pods=(*elder, *younger),
            in_vain={"a100": failed(A2.name, 5)},
            given_up={one.identity: vain for one in elder},
            tried={"a100/2A100.44V/FIN-01": known},
        )
    )
    assert {key.split("/")[1].split("-")[0] for a in bought(found) for key in a.pods} == {"elder"}


@pytest.mark.parametrize("ages", [(50, 40), (40, 50)])
def test_a_gang_that_would_need_machines_of_several_pools_takes_the_turn_of_each(
    ages: tuple[int, int],
) -> None:
    selects = {names.LABEL_POOL: "b"}
    pods = (
        *gang_of("any", 8, NOW - ages[0] * HOUR),
        *gang_of("bound", 8, NOW - ages[1] * HOUR, node_selector=selects),
    )
    found = plan(
        world(
            policy=policy(pool("a", max=1), pool("b", max=100)),
            offers=offers(A1),
            pods=pods,
            in_vain={"a": failed(A1.name, 6), "b": failed(A1.name, 6)},
        )
    )
    assert len(bought(found)) == 8


@pytest.mark.parametrize("silent", [False, True])
def test_a_silent_node_of_another_pool_brings_no_doubt_back(silent: bool) -> None:
    """A machine that has held for long was counted as if what a later one had shown were not known."""
    day = 24 * HOUR
    held, there, runs = up(0, NOW - 30 * day)
    failing = Failing(since=NOW - 10 * day, last=NOW - 9 * day, tries=(1, 2))
    known = InVain(
        tries=2, last=NOW - 9 * day, counted=NOW - 9 * day, reason=Reason.READY_DEADLINE, firsts=(1, 2),
        sorts={"8A100.176V/FIN-03": failing}, fine={"1A100.22V/FIN-01": NOW - 2 * day},
    )  # fmt: skip
    other, node_of_it, pod_of_it = up(1, NOW - 20 * day, silent=silent)
    found = plan(
        world(
            policy=policy(pool(max=100), pool("other", max=1)),
            offers=offers(A1),
            machines=(held, replace(other, pool="other")),
            nodes=(there, node_of_it),
            pods=(runs, pod_of_it, *(pod(f"w{number}") for number in range(4))),
            in_vain={f"a100{ONCE_READY}": known},
        )
    )
    assert len(bought(found)) == 4


def stuck_gang(**more: Any) -> tuple[Pod, ...]:
    """Two of its pods fit; what they need beside them fits nowhere."""
    marks = {names.POD_GANG: "stuck", names.POD_GANG_SIZE: "3"}
    of_it: dict[str, Any] = {"created": NOW - 60 * HOUR, "annotations": marks, "priority": 10}
    driver = pod("stuck-driver", 0, requests={"cpu": 9_000_000}, **of_it)
    return *(pod(f"stuck-{n}", **of_it, **more) for n in range(2)), driver


@pytest.mark.parametrize("others", ["a pod", "a gang"])
@pytest.mark.parametrize("doubted", [False, True])
def test_a_gang_that_cannot_start_takes_no_turn_and_no_limit_from_others(others: str, doubted: bool) -> None:
    """What is left out may have been in the way of the turn that was passed on, too."""
    of_a: dict[str, Any] = {"node_selector": {names.LABEL_POOL: "a"}}
    late = NOW - 50 * HOUR
    waiting = gang_of("train", 2, late, **of_a) if others == "a gang" else (pod(created=late, **of_a),)
    found = plan(
        world(
            policy=policy(pool("a", max=100), pool("b", max=100), limits=Limits(gpus=2)),
            offers=offers(A1),
            pods=(*stuck_gang(node_selector={names.LABEL_POOL: "b"}), *waiting),
            in_vain={"a": failed(A1.name, 3)} if doubted else {},
        )
    )
    assert sorted(key for order in bought(found) for key in order.pods) == sorted(p.key for p in waiting)


def test_a_gang_has_the_pool_that_works_once_another_one_that_cannot_start_is_left_out() -> None:
    found = plan(
        world(
            policy=policy(pool("a", max=9), pool("b", max=2)),
            offers=offers(A1),
            pods=(*stuck_gang(node_selector={names.LABEL_POOL: "b"}), *gang_of("train", 2, NOW - 50 * HOUR)),
            in_vain={"a": failed(A1.name, 3)},
        )
    )
    assert [order.pool for order in bought(found)] == ["b", "b"]


@pytest.mark.parametrize(("held", "count"), [(None, 1), (NOW - 90 * HOUR, 1), (NOW - HOUR, 5)])
def test_what_held_before_the_first_failure_is_no_proof_for_a_minimum(held: float | None, count: int) -> None:
    failing = {
        "1A100.22V/FIN-01": Failing(since=NOW - 60 * HOUR, last=NOW - 30 * HOUR, tries=(1, 2, 3)),
        "2A100.44V/FIN-02": Failing(since=NOW - 60 * HOUR, last=NOW - 30 * HOUR, tries=(4, 5, 6)),
    }
    known = InVain(
        tries=6, last=NOW - 30 * HOUR, counted=NOW - 30 * HOUR, reason=Reason.READY_DEADLINE, firsts=(1, 2),
        sorts=failing, fine={"1A100.22V/FIN-03": held} if held is not None else {},
    )  # fmt: skip
    found = plan(
        world(
            policy=policy(pool("a", max=20, min=5)),
            offers=offers(A1, locations=("FIN-01", "FIN-03")),
            in_vain={f"a{ONCE_READY}": known},
        )
    )
    assert len(bought(found)) == count


@pytest.mark.parametrize(("why", "count"), [(Reason.LAUNCH_DEADLINE, 1), (Reason.JOIN_DEADLINE, 0)])
def test_a_sort_that_the_cloud_starts_too_late_takes_no_turn_from_another(why: Reason, count: int) -> None:
    """It is ordered again and again for a minimum, say. How machines join is the same for all of a pool."""
    sorts = {A1.name: ("m1", "m2"), A2.name: ("m3", "m4")}
    at = NOW - 9 * HOUR
    found = plan(
        world(
            policy=policy(pool(min=1)),
            offers=offers(A1, A2),
            machines=(machine("home-a100-again", A1, Phase.BOOTING, intended_at=NOW - 60),),
            pods=(pod("small"), pod("large", 2)),
            given_up={
                f"default/{name} uid-{name}": dict.fromkeys(sorts[of.name], why)
                for name, of in (("small", A1), ("large", A2))
            },
            tried={
                f"a100/{kind}/FIN-01": Tried(tries=2, last=at, counted=at, machines=machines)
                for kind, machines in sorts.items()
            },
        )
    )
    assert len([order for order in bought(found) if "default/large" in order.pods]) == count


@pytest.mark.parametrize("why", [Reason.LAUNCH_DEADLINE, Reason.JOIN_DEADLINE])
def test_of_pods_whose_machines_came_too_late_one_at_a_time_is_tried(why: Reason) -> None:
    """The one that is tried now has its place, on the machine that is on its way for it."""
    pods = tuple(pod(f"p{number}", created=NOW - 20 * HOUR) for number in range(4))
    vain = {one.identity: {f"{one.name}-{number}": why for number in range(2)} for one in pods}
    names_of = tuple(name for found in vain.values() for name in found)
    at = NOW - 9 * HOUR
    known: dict[str, Any] = {
        "offers": offers(A1),
        "pods": pods,
        "given_up": vain,
        "tried": {"a100/1A100.22V/FIN-01": Tried(tries=2, last=at, counted=at, machines=names_of)},
    }
    assert len(bought(plan(world(**known)))) == 1
    again = machine("home-a100-again", A1, Phase.BOOTING, intended_at=NOW - 60, pods=("default/p0",))
    assert bought(plan(world(**known, machines=(again,)))) == []


@pytest.mark.parametrize(
    ("pools", "at", "asks"),
    [
        ((pool("a", locations=("FIN-01", "FIN-02")), pool("b", locations=("FIN-03",))), "FIN-01", {}),
        ((pool("a"),), "FIN-03", {"node_selector": {names.LABEL_ZONE: "FIN-03"}}),
    ],
    ids=["has another pool", "has one location"],
)
def test_who_had_machines_too_late_waits_for_none_of_another_sort(pools: Any, at: str, asks: Any) -> None:
    """One of others is on its way, and too late, at any time of the day."""
    waiting, late = pod("waiting", created=NOW - 20 * HOUR, **asks), Reason.LAUNCH_DEADLINE
    of_others = {"pool": "a", "location": "FIN-02", "intended_at": NOW - 300, "pods": ("default/other",)}
    own = Tried(tries=2, last=NOW - 9 * HOUR, counted=NOW - 9 * HOUR, machines=("v1", "v2"))
    others = Tried(tries=1, last=NOW - 2 * HOUR, counted=NOW - 2 * HOUR, machines=("w",))
    decided = plan(
        world(
            policy=policy(*pools),
            offers=offers(A1, locations=EVERYWHERE),
            pods=(waiting, pod("other", node_selector={names.LABEL_ZONE: "FIN-02"})),
            machines=(machine("home-a-coming", A1, Phase.ORDERED, **of_others),),
            given_up={waiting.identity: {"v1": late, "v2": late}, "default/gone uid": {"w": late}},
            tried={f"a/1A100.22V/{at}": own, "a/1A100.22V/FIN-02": others},
        )
    )
    assert [order.pods for order in bought(decided)] == [("default/waiting",)]
