"""What is kept free gives way to pods that it keeps from a machine, and to no others; nor is it bought and removed in turn."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from controller.domain import names
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Plan, Retire
from controller.domain.policy import Deadlines, Headroom, Limits, NamespaceLimit
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, A8, NOW, machine, node, offers, pod, policy, pool, world

SPARE = "home-a100-spare"


def there(name: str, of: Any, *, idle: bool = True, **more: Any) -> tuple[Any, Any]:
    marks = {"gpu-autoscaler/idle-since": "2027-01-01T00:00:00Z"} if idle else {}
    known = {"ready_at": NOW - 9000, "intended_at": NOW - 9300, "ordered_at": NOW - 9300} | more
    return machine(name, of, **known), node(
        name, of.gpus, cpu=of.vcpus, memory=of.memory_gib - 10, annotations=marks
    )


def decide(*pairs: tuple[Any, Any], keep: int = 1, most: Decimal | None = None, **more: Any) -> Plan:
    kept = (Headroom(pool="a100", gpus=keep, max_price_per_hour=most),)
    rules = {key: more.pop(key) for key in ("limits", "namespaces") if key in more}
    pools = more.pop("pools", (pool(),))
    known = {"offers": offers(A1, A2, A8), "machines": [m for m, _ in pairs], "nodes": [n for _, n in pairs]}
    known = {key: tuple(value) for key, value in (known | more).items()}
    return plan(world(policy=policy(*pools, headroom=kept, **rules), **known))


def bought(decided: Plan) -> list[str]:
    return [action.offer.type.name for action in decided.actions if isinstance(action, Launch)]


def retired(decided: Plan) -> list[str]:
    return [action.machine for action in decided.actions if isinstance(action, Retire)]


@pytest.mark.parametrize("has_it", [False, True])
def test_a_pod_whose_namespace_may_not_buy_has_nothing_removed_and_bought_again(has_it: bool) -> None:
    """With the machine there its pool is full as well, without it only its namespace's limit is in the way."""
    busy = there("home-a100-busy", A1, idle=False, pods=("team/run",))
    decided = decide(
        busy,
        *([there(SPARE, A1)] if has_it else []),
        pools=(pool(max=2),),
        namespaces={"team": NamespaceLimit(gpus=1)},
        pods=(pod("run", namespace="team", node=busy[0].name), pod("more", 2, namespace="team")),
    )
    assert decided.pods["team/more"].code is Reason.LIMIT_NAMESPACE
    assert retired(decided) == []
    assert bought(decided) == ([] if has_it else [A1.name])


@pytest.mark.parametrize(
    ("asks", "pools", "limits"),
    [
        ({"gpus": 8}, (pool(max_price_per_hour=Decimal(3)),), Limits()),
        ({"gpus": 8}, (pool(),), Limits(gpus=4)),
        ({"node_selector": {names.LABEL_POOL: "b"}}, (pool(), pool("b", max=0)), Limits()),
        ({"node_selector": {names.LABEL_POOL: "b"}}, (pool(), pool("b")), Limits(launches_per_minute=0)),
    ],
    ids=[
        "too dear for its pool",
        "larger than any limit",
        "of a pool without machines",
        "waits for a minute",
    ],
)
def test_pods_that_it_could_not_help_leave_it_alone(asks: Any, pools: Any, limits: Limits) -> None:
    decided = decide(there(SPARE, A1), pools=pools, limits=limits, pods=(pod("other", **asks),))
    assert "default/other" in decided.pods
    assert decided.machines[SPARE].code is Reason.HEADROOM


def test_a_gang_that_it_keeps_from_the_limit_gets_its_place() -> None:
    marks = {names.POD_GANG: "g", names.POD_GANG_SIZE: "2"}
    gang = tuple(pod(f"g-{n}", 2, annotations=marks) for n in range(2))
    assert retired(decide(there(SPARE, A1), limits=Limits(gpus=4), pods=gang)) == [SPARE]
    stays = decide(there(SPARE, A1), limits=Limits(gpus=3), pods=gang)
    assert stays.machines[SPARE].code is Reason.HEADROOM


@pytest.mark.parametrize(("gpus", "count"), [(4, 0), (3, 1)])
def test_nothing_is_ordered_while_what_leaves_is_to_make_room_for_a_pod(gpus: int, count: int) -> None:
    """It would take the place that the pod is about to get; or the pod could not have it anyhow."""
    leaving = machine(SPARE, A2, Phase.DELETING, pods=(), delete_at=NOW - 30)
    decided = decide(
        (leaving, node(SPARE, 2)), limits=Limits(gpus=gpus), offers=offers(A1, A4), pods=(pod("p", 4),)
    )
    assert len(bought(decided)) == count


def test_what_became_too_dear_goes_and_the_cheaper_comes_after_it() -> None:
    """It was bought for a job, whose end leaves all of it free."""
    most = Decimal(3)
    assert retired(decide(there(SPARE, A8), most=most)) == [SPARE]
    assert bought(decide(there(SPARE, A8), most=most)) == []
    assert bought(decide(most=most)) == [A1.name]
    assert decide(there(SPARE, A2), most=most).machines[SPARE].code is Reason.HEADROOM


@pytest.mark.parametrize("pause", ["", "scale-up"])
@pytest.mark.parametrize(
    ("settings", "code"),
    [({"expire_after": 3600.0}, Reason.EXPIRED), ({"locations": ("FIN-03",)}, Reason.DRIFTED)],
)
def test_an_outdated_one_is_replaced_unless_nothing_may_be_bought(
    settings: Any, code: Reason, pause: str
) -> None:
    sold = offers(A1, locations=("FIN-01", "FIN-03"))
    decided = decide(there(SPARE, A1), pools=(pool(pause=pause, **settings),), offers=sold)
    assert decided.machines[SPARE].code is (Reason.HEADROOM if pause else code)
    assert retired(decided) == ([] if pause else [SPARE])


def test_a_plan_is_made_again_when_the_rate_eases_whatever_the_pod_is_told_first() -> None:
    pending = [
        (machine(name, A1, Phase.BOOTING, pool=of, pods=(f"default/{of}",)), f"default/{of}")
        for name, of in (("home-a100-one", "a100"), ("home-b-one", "b"))
    ]
    decided = plan(
        world(
            policy=policy(pool(max=1), pool("b", max=5), limits=Limits(launches_per_minute=2)),
            machines=tuple(m for m, _ in pending),
            pods=(pod("a100"), pod("b"), pod("late")),
            launches=(NOW - 10, NOW - 10),
        )
    )
    assert decided.pods["default/late"].code is Reason.LIMIT_MACHINES
    assert decided.wake_at == NOW + 50


def test_only_the_pool_that_a_pod_waits_for_gives_way() -> None:
    """And hardly more of its machines than have to."""
    other = there("home-b-spare", A1, pool="b")
    kept = tuple(Headroom(pool=name, gpus=gpus) for name, gpus in (("a100", 2), ("b", 1)))
    mine = [there(f"{SPARE}-{number}", A1) for number in range(2)]
    decided = plan(
        world(
            policy=policy(pool(max=2), pool("b"), headroom=kept),
            machines=tuple(m for m, _ in (*mine, other)),
            nodes=tuple(n for _, n in (*mine, other)),
            offers=offers(A1, A2),
            pods=(pod("p", 2, node_selector={names.LABEL_POOL: "a100"}),),
        )
    )
    assert len(retired(decided)) == 1
    assert retired(decided)[0].startswith(SPARE)
    assert decided.machines["home-b-spare"].code is Reason.HEADROOM
    assert bought(decided) == []


@pytest.mark.parametrize("held", [False, True])
def test_what_may_not_be_removed_gives_way_to_nobody(held: bool) -> None:
    """Else the smaller one went in its place, of no use to the pod, and another one was bought for it, for ever."""
    large, small = there(f"{SPARE}-large", A4), there(f"{SPARE}-small", A1)
    if held:
        marks = {**large[1].annotations, "gpu-autoscaler/do-not-disrupt": "true"}
        large = large[0], msgspec.structs.replace(large[1], annotations=marks)
    decided = decide(
        large,
        small,
        keep=5,
        pools=(pool(min=1), pool("b")),
        limits=Limits(gpus=5),
        offers=offers(A1, A4),
        pods=(pod("p", 4, node_selector={names.LABEL_POOL: "b"}),),
    )
    assert retired(decided) == ([] if held else [f"{SPARE}-large"])
    assert bought(decided) == []


def test_a_pod_that_comes_before_a_minimum_gets_what_was_kept_free() -> None:
    busy = there("home-a100-busy", A2, idle=False, pods=("default/run",))
    decided = decide(
        busy,
        there(SPARE, A1),
        pools=(pool(), pool("b", min=1)),
        limits=Limits(machines=2),
        pods=(pod("run", 2, node=busy[0].name), pod("p", 2, node_selector={names.LABEL_POOL: "a100"})),
    )
    assert retired(decided) == [SPARE]


def test_outdated_ones_are_replaced_one_after_the_other() -> None:
    pairs = [there(f"{SPARE}-{number}", A1) for number in range(3)]
    settings = {"pools": (pool(expire_after=3600.0),), "keep": 3, "offers": offers(A1)}
    assert len(retired(decide(*pairs, **settings))) == 1
    machines = (*(m for m, _ in pairs[:2]), machine(f"{SPARE}-2", A1, Phase.BOOTING))
    booting = decide(*pairs[:2], machines=machines, nodes=tuple(n for _, n in pairs[:2]), **settings)
    assert retired(booting) == []
    assert {why.code for name, why in booting.machines.items() if name != f"{SPARE}-2"} == {Reason.HEADROOM}


@pytest.mark.parametrize("ago", [60, 3 * 86400])
def test_a_delete_that_hangs_for_days_holds_nobody_up(ago: int) -> None:
    hangs = machine("home-b-old", A2, Phase.DELETING, pool="b", pods=(), delete_at=NOW - ago)
    waiting = pod("p", 2, node_selector={names.LABEL_POOL: "b"})
    rules = {"pools": (pool(), pool("b")), "limits": Limits(machines=2), "pods": (waiting,)}
    decided = decide(there(SPARE, A1), (hangs, node(hangs.name, 2)), **rules)
    assert retired(decided) == ([] if ago == 60 else [SPARE])


def test_one_in_its_cooldown_is_given_up_as_well_and_nothing_ordered_beside_it() -> None:
    marks = {"gpu-autoscaler/idle-since": datetime.fromtimestamp(NOW - 60, UTC).isoformat()}
    spare, its_node = there(SPARE, A1)
    late = spare, msgspec.structs.replace(its_node, annotations=marks)
    decided = decide(late, keep=2, limits=Limits(gpus=4), offers=offers(A1, A4), pods=(pod("p", 4),))
    assert (retired(decided), bought(decided)) == ([], [])
    assert decided.machines[SPARE].code is Reason.COOLDOWN
    assert decided.wake_at == NOW + 540


def test_an_outdated_one_stays_where_nothing_is_sold_in_its_place() -> None:
    sold = tuple(msgspec.structs.replace(offer, available=False) for offer in offers(A1))
    decided = decide(there(SPARE, A1), pools=(pool(expire_after=3600.0),), offers=sold)
    assert decided.machines[SPARE].code is Reason.HEADROOM


@pytest.mark.parametrize("grace", [0.0, 2.0, 600.0])
def test_nothing_is_ordered_beside_a_drain_that_ends_in_seconds(grace: float) -> None:
    leaving = machine(SPARE, A1, Phase.DRAINING, pods=(), drain_at=NOW - 8)
    waiting = pod("p", 2, node_selector={names.LABEL_POOL: "b"})
    rules = policy(
        pool(), pool("b"), limits=Limits(gpus=2), headroom=(Headroom(pool="a100", gpus=1),),
        deadlines=Deadlines(eviction_grace=grace),
    )  # fmt: skip
    found = plan(
        world(
            policy=rules,
            machines=(leaving,),
            nodes=(node(SPARE, 1),),
            offers=offers(A1, A2),
            pods=(waiting,),
        )
    )
    assert bought(found) == []


def test_what_may_go_now_is_given_up_before_what_may_go_later() -> None:
    marks = {"gpu-autoscaler/idle-since": datetime.fromtimestamp(NOW - 60, UTC).isoformat()}
    young, its_node = there(f"{SPARE}-young", A2)
    late = young, msgspec.structs.replace(its_node, annotations=marks)
    waiting = pod("p", node_selector={names.LABEL_POOL: "b"})
    rules = {"pools": (pool(), pool("b")), "limits": Limits(machines=2), "pods": (waiting,)}
    decided = decide(late, there(SPARE, A1), keep=3, **rules)
    assert retired(decided) == [SPARE]
    assert decided.machines[f"{SPARE}-young"].code is Reason.HEADROOM


@pytest.mark.parametrize(
    ("limits", "count"), [({"gpus": 2}, 1), ({"gpus": 1}, 0), ({"price_per_hour": Decimal(2)}, 0)]
)
def test_outdated_ones_stay_where_none_could_be_bought_in_their_place(limits: Any, count: int) -> None:
    pairs = [there(f"{SPARE}-{number}", A1) for number in range(2)]
    settings = {"pools": (pool(expire_after=3600.0),), "limits": Limits(**limits), "offers": offers(A1)}
    assert len(retired(decide(*pairs, keep=3, **settings))) == count


AGED = {"pools": (pool(expire_after=3600.0),), "offers": offers(A1)}


def test_an_outdated_one_waits_for_the_others_that_this_plan_orders() -> None:
    decided = decide(there(SPARE, A1), keep=2, **AGED)
    assert (bought(decided), retired(decided)) == ([A1.name], [])
    assert "until the others of pool a100 are Ready" in decided.machines[SPARE].message


@pytest.mark.parametrize(
    ("most", "sold", "why"),
    [
        (16, (*offers(A1, available=False), *offers(A8)), "set planning.max_overshoot"),
        (1, offers(A1), "have fewer GPUs (1)"),
        (0, offers(A8), "raise its max"),
        (16, (), "the catalogue offers nothing"),
    ],
    ids=["only larger ones", "only smaller ones", "over its limit", "nothing"],
)
def test_an_outdated_one_stays_where_as_much_could_not_be_bought(most: int, sold: Any, why: str) -> None:
    of = A8 if most <= 1 else A1
    decided = decide(
        there(SPARE, of), keep=of.gpus, pools=(pool(max=most, expire_after=3600.0),), offers=sold
    )
    assert (bought(decided), retired(decided)) == ([], [])
    told = decided.machines[SPARE]
    assert told.code is Reason.HEADROOM
    assert "older than expire_after" in told.message
    assert "without it no other would be bought" in told.message
    assert why in told.message, told.message


@pytest.mark.parametrize(
    ("keep", "more", "pairs"),
    [
        (3, {"pools": (pool(max=2, expire_after=3600.0),)}, 2),
        (3, {"pools": (pool(min=2, max=2, expire_after=3600.0),)}, 2),
        (8, {"offers": (*offers(A1), *offers(A8, available=False))}, 2),
        (8, {"offers": offers(A1, A8), "limits": Limits(gpus=1)}, 1),
    ],
)
def test_what_headroom_lacks_anyhow_keeps_no_outdated_one(keep: int, more: Any, pairs: int) -> None:
    there_are = [there(f"{SPARE}-{number}", A1) for number in range(pairs)]
    decided = decide(*there_are, keep=keep, **({**AGED, "pools": (pool(max=2, expire_after=3600.0),)} | more))
    assert len(retired(decided)) == 1, decided.machines


@pytest.mark.parametrize(
    ("sold", "going"), [(offers(A1, A8), 1), ((*offers(A1), *offers(A8, available=False)), 0)]
)
def test_a_limit_on_machines_leaves_no_less_free_than_before(sold: Any, going: int) -> None:
    """Eight small ones would be enough; only one is allowed."""
    known = {"limits": Limits(machines=1), "pools": AGED["pools"], "offers": sold}
    assert len(retired(decide(there(SPARE, A8), keep=8, **known))) == going


def test_as_many_are_ordered_as_the_limit_on_machines_allows_of_the_right_size() -> None:
    assert bought(decide(keep=8, limits=Limits(machines=1), offers=offers(A1, A8))) == [A8.name]


def test_when_the_rate_allows_another_one_again_the_outdated_one_is_looked_at() -> None:
    decided = decide(there(SPARE, A1), limits=Limits(launches_per_minute=1), launches=(NOW - 20,), **AGED)
    assert retired(decided) == []
    assert decided.wake_at == NOW + 40


def test_an_outdated_one_stays_while_scale_up_is_paused() -> None:
    decided = decide(
        there(SPARE, A1), pools=(pool(expire_after=3600.0, pause="scale-up"),), offers=offers(A1)
    )
    assert retired(decided) == []
    assert "scale-up is paused" in decided.machines[SPARE].message
