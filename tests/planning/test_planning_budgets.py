"""Limits of namespaces and of the month, GPUs kept free, and that no sequence of plans ever exceeds a limit."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.domain.machine import Machine, Phase
from controller.domain.plan import Launch, Plan, Retire, Snapshot
from controller.domain.policy import Billing, Headroom, Limits, NamespaceLimit
from controller.domain.reason import Reason
from controller.domain.windows import parse_window
from controller.planning import budget
from controller.planning.choice import candidates
from controller.planning.fit import asks
from controller.planning.limits import Tally
from controller.planning.namespaces import Charges
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, A8, NOW, machine, node, offers, pod, policy, pool, world


def bought(decided: Plan) -> list[Launch]:
    return [action for action in decided.actions if isinstance(action, Launch)]


def team(namespace: str, name: str, gpus: int = 1, **more: Any) -> Any:
    return pod(name, gpus, namespace=namespace, **more)


def limited(**more: NamespaceLimit) -> Any:
    return policy(namespaces={key.replace("_", "-"): limit for key, limit in more.items()})


@pytest.mark.parametrize(
    ("limit", "launches", "words"),
    [
        (NamespaceLimit(gpus=2), 2, "namespaces.team-a.gpus is 2, 2 are charged to it"),
        (NamespaceLimit(gpus=0), 0, "raise it to at least 1"),
        (
            NamespaceLimit(price_per_hour=Decimal("2.58")),
            2,
            "namespaces.team-a.price_per_hour is 2.58, 2.58 is charged to it, and 1A100.22V would add 1.29: "
            "raise it to at least 3.87",
        ),
        (NamespaceLimit(price_per_hour=Decimal("2.57")), 1, "raise it to at least 2.58"),
        (NamespaceLimit(), 3, ""),
    ],
)
def test_a_namespace_buys_no_more_than_its_limit_and_others_go_on(
    limit: NamespaceLimit, launches: int, words: str
) -> None:
    pods = (*(team("team-a", f"p{n}") for n in range(3)), team("team-b", "b", created=NOW))
    decided = plan(world(policy=limited(team_a=limit), offers=offers(A1), pods=pods))
    assert len(bought(decided)) == launches + 1
    assert decided.pods["team-b/b"].code is Reason.LAUNCHING
    refused = [why for why in decided.pods.values() if why.code is Reason.LIMIT_NAMESPACE]
    assert len(refused) == 3 - launches
    assert all(words in why.message for why in refused)


@pytest.mark.parametrize(
    ("users", "promised", "charged"),
    [
        ((), (), {}),
        ((), ("team-a/x",), {"team-a": 4}),  # the pod is gone; the machine is still there
        ((("team-a", 1),), ("team-a/x",), {"team-a": 4}),
        ((("team-b", 3),), ("team-a/x",), {"team-a": 1, "team-b": 3}),
        ((("team-a", 1), ("team-b", 2)), (), {"team-a": 1, "team-b": 2}),  # a machine of a minimum
        ((("team-b", 4),), ("team-a/x",), {"team-b": 4}),
    ],
)
def test_a_machine_is_charged_to_its_pods_and_the_rest_to_who_opened_it(
    users: Any, promised: Any, charged: dict[str, int]
) -> None:
    there = machine("home-a100-aaaaaaaaaa", A4, pods=promised)
    pods = tuple(team(namespace, f"u{n}", gpus, node=there.name) for n, (namespace, gpus) in enumerate(users))
    none = NamespaceLimit(gpus=100)
    found = Charges(
        world(
            policy=limited(team_a=none, team_b=none),
            machines=(there,),
            nodes=(node(there.name, 4),),
            pods=pods,
        )
    )
    assert found.gpus == charged
    assert {key: float(price) for key, price in found.price.items()} == {
        key: pytest.approx(float(A4.price) * gpus / 4) for key, gpus in charged.items()
    }


def test_a_pod_does_not_join_a_new_machine_beyond_its_namespaces_limit() -> None:
    pods = (team("team-b", "b", 3), team("team-a", "a1"), team("team-a", "a2", created=NOW))
    decided = plan(world(policy=limited(team_a=NamespaceLimit(gpus=0)), offers=offers(A4), pods=pods))
    assert [launch.pods for launch in bought(decided)] == [("team-b/b",)]
    assert decided.pods["team-a/a1"].code is Reason.LIMIT_NAMESPACE


def test_a_pod_that_is_charged_nothing_shares_a_machine_though_its_namespace_has_spent_too_much() -> None:
    there = machine()
    runs = team("team-b", "runs", node=there.name)
    (slot,) = asks([team("team-b", "slot", 0)], frozenset({"nvidia.com/gpu"}))
    (opens,) = asks([team("team-a", "opens")], frozenset({"nvidia.com/gpu"}))
    limit = NamespaceLimit(gpus=0, price_per_hour=Decimal(1))
    snapshot = world(policy=limited(team_b=limit), machines=(there,), nodes=(node(there.name),), pods=(runs,))
    one = candidates(snapshot)[0]
    assert Charges(snapshot).objection(one, [opens, slot]) is None
    assert Charges(snapshot).objection(one, [slot]) is not None


def test_pods_about_to_run_on_what_is_there_count() -> None:
    there = machine("home-a100-aaaaaaaaaa", A2)
    pods = tuple(team("team-a", f"p{n}") for n in range(3))
    decided = plan(
        world(
            policy=limited(team_a=NamespaceLimit(gpus=2)),
            offers=offers(A1),
            machines=(there,),
            nodes=(node(there.name, 2, cpu=44, memory=200),),
            pods=pods,
        )
    )
    assert bought(decided) == []
    codes = [why.code for why in decided.pods.values()]
    assert (codes.count(Reason.FITS_NOW), codes.count(Reason.LIMIT_NAMESPACE)) == (2, 1)


HOUR = 3600.0
BEGIN = datetime(2027, 1, 1, tzinfo=UTC).timestamp()


def running(hours: float, of: Any = A1, now: float = NOW, **more: Any) -> Machine:
    return machine(of=of, intended_at=now - hours * HOUR, ordered_at=now - hours * HOUR, **more)


@pytest.mark.parametrize(
    ("machines", "now", "spent", "committed"),
    [
        ((), NOW, "0", "0"),
        ((running(10),), NOW, "12.90", "12.90"),
        ((running(0.5),), NOW, "0.645", "1.29"),  # the rest of its hour is reserved
        ((machine(phase=Phase.INTENDED, intended_at=NOW, ordered_at=0.0),), NOW, "0", "1.29"),
        ((machine(phase=Phase.TOMBSTONE),), NOW, "0", "0"),
        ((running(10, gone_at=NOW - 4 * HOUR),), NOW, "7.74", "7.74"),
        ((running(10, now=BEGIN + HOUR),), BEGIN + HOUR, "1.29", "1.29"),  # only this month's part
    ],
)
def test_what_machines_have_cost_this_month_and_what_they_reserve(
    machines: Any, now: float, spent: str, committed: str
) -> None:
    snapshot = world(now=now, machines=machines)
    assert budget.spent(snapshot) == pytest.approx(Decimal(spent))
    assert budget.committed(snapshot) == pytest.approx(Decimal(committed))


def test_without_refunds_a_begun_increment_is_paid() -> None:
    whole = policy(billing=Billing(increment=3600, refund_unused=False, reserve_hours=0))
    assert budget.spent(world(policy=whole, machines=(running(1.5),))) == Decimal("2.58")
    assert budget.reserved(Decimal("1.29"), whole.billing) == Decimal("1.29")


@pytest.mark.parametrize(
    ("month", "spent", "reserve", "launches"),
    [
        ("3.87", "0", 1, 3),
        ("3.86", "0", 1, 2),
        ("3.87", "1.29", 1, 2),
        ("100", "100", 1, 0),
        ("100", "100", 0, 0),
        ("100", "99.99", 0, 3),
        ("31", "0", 24, 1),
    ],
)
def test_the_months_budget_stops_purchases(month: str, spent: str, reserve: int, launches: int) -> None:
    rules = policy(limits=Limits(price_per_month=Decimal(month)), billing=Billing(reserve_hours=reserve))
    pods = tuple(pod(f"p{n}") for n in range(3))
    snapshot = world(policy=rules, offers=offers(A1), pods=pods, spent_this_month=Decimal(spent))
    decided = plan(snapshot)
    assert len(bought(decided)) == launches
    refused = [why for why in decided.pods.values() if why.code is Reason.LIMIT_BUDGET]
    assert len(refused) == 3 - launches
    if refused:
        assert decided.wake_at == budget.month_ends(NOW)
        later = plan(msgspec.structs.replace(snapshot, now=NOW + 60))
        assert later.pods == decided.pods


def test_idle_machines_go_at_once_only_where_a_used_up_budget_says_so() -> None:
    rich = Limits(price_per_month=Decimal(1000))
    poor = Limits(price_per_month=Decimal(1))
    for limits, drain, expected in ((rich, True, False), (poor, True, True), (poor, False, False)):
        rules = policy(limits=limits, billing=Billing(drain_idle=drain))
        assert budget.drains_idle(world(policy=rules, machines=(running(10),))) is expected


WORK = (parse_window("Mon-Fri 08:00-18:00 Europe/Helsinki"),)
FRIDAY = datetime(2027, 1, 15, 10, tzinfo=UTC).timestamp()
SATURDAY = FRIDAY + 24 * HOUR


def free(gpus: int = 2, *, at: float = NOW, schedule: Any = None, most: str = "", **more: Any) -> Plan:
    price = Decimal(most) if most else None
    kept = Headroom(pool="a100", gpus=gpus, schedule=schedule, max_price_per_hour=price)
    limits = more.pop("limits", Limits())
    pools, namespaces = more.pop("pools", (pool(),)), more.pop("namespaces", {})
    rules = policy(*pools, headroom=(kept,), limits=limits, namespaces=namespaces)
    return plan(world(now=at, **({"offers": offers(A1)} | more), policy=rules))


def idle(name: str, of: Any, **more: Any) -> tuple[Any, Any]:
    marks = {"gpu-autoscaler/idle-since": "2027-01-01T00:00:00Z"}
    found = machine(f"home-a100-{name * 10}", of, ready_at=NOW - 9000, **more)
    return found, node(found.name, of.gpus, cpu=of.vcpus, memory=of.memory_gib - 10, annotations=marks)


def test_gpus_are_kept_free_by_buying_what_lacks() -> None:
    assert [launch.pods for launch in bought(free(2))] == [(), ()]
    assert len(bought(free(3, offers=offers(A2)))) == 2
    on_the_way = machine("home-a100-bbbbbbbbbb", A2, Phase.BOOTING)
    assert bought(free(2, machines=(on_the_way,))) == []
    assert len(bought(free(2, machines=(on_the_way,), pods=(pod(),)))) == 1


def test_what_purchases_for_pods_leave_free_counts() -> None:
    decided = free(2, offers=offers(A4), pods=(pod("a", 2),))
    assert [launch.pods for launch in bought(decided)] == [("default/a",)]


@pytest.mark.parametrize(
    ("at", "launches", "wake"),
    [
        (FRIDAY, 2, datetime(2027, 1, 15, 16, tzinfo=UTC)),
        (SATURDAY, 0, datetime(2027, 1, 18, 6, tzinfo=UTC)),
        (datetime(2027, 7, 16, 5, tzinfo=UTC).timestamp(), 2, datetime(2027, 7, 16, 15, tzinfo=UTC)),
        (datetime(2027, 1, 15, 5, tzinfo=UTC).timestamp(), 0, datetime(2027, 1, 15, 6, tzinfo=UTC)),
    ],
)
def test_headroom_keeps_hours_and_summer_time(at: float, launches: int, wake: datetime) -> None:
    decided = free(2, at=at, schedule=WORK)
    assert len(bought(decided)) == launches
    assert decided.wake_at == wake.timestamp()


@pytest.mark.parametrize(("most", "launches"), [("2.58", 2), ("2.57", 1), ("1", 0), ("", 2)])
def test_headroom_costs_no_more_than_it_may(most: str, launches: int) -> None:
    decided = free(2, most=most)
    assert len(bought(decided)) == launches
    assert ("a100" in decided.pools) == (launches < 2)


def test_headroom_keeps_what_it_needs_and_lets_the_largest_go() -> None:
    pairs = (idle("a", A8), idle("b", A2))
    decided = free(2, machines=tuple(m for m, _ in pairs), nodes=tuple(n for _, n in pairs))
    retired = [action.machine for action in decided.actions if isinstance(action, Retire)]
    assert retired == ["home-a100-aaaaaaaaaa"]
    assert decided.machines["home-a100-bbbbbbbbbb"].code is Reason.HEADROOM
    assert bought(decided) == []


def test_what_headroom_asked_for_is_not_removed_and_bought_again() -> None:
    machines: tuple[Machine, ...] = ()
    nodes: tuple[Any, ...] = ()
    for _ in range(5):
        decided = free(3, machines=machines, nodes=nodes, offers=offers(A1, A2))
        assert not [action for action in decided.actions if isinstance(action, Retire)]
        for launch in bought(decided):
            one, where = idle("abcdefgh"[len(machines)], launch.offer.type)
            machines, nodes = (*machines, one), (*nodes, where)
    assert sum(m.gpus for m in machines) == 3


def test_a_pod_that_a_limit_keeps_waiting_gets_what_headroom_held_back() -> None:
    one, where = idle("a", A1)
    other = pool("other", instance_types=("2A100.44V",))
    decided = free(
        1,
        machines=(one,),
        nodes=(where,),
        limits=Limits(gpus=2),
        pools=(pool(instance_types=("1A100.22V",)), other),
        offers=offers(A1, A2),
        pods=(pod("big", 2),),
    )
    assert decided.pods["default/big"].code is Reason.LIMIT_GPUS
    assert [action.machine for action in decided.actions if isinstance(action, Retire)] == [one.name]


def test_headroom_never_exceeds_a_limit_together_with_pods() -> None:
    for gpus in range(6):
        decided = free(4, limits=Limits(gpus=gpus), pods=(pod("a"), pod("b")))
        assert sum(launch.offer.type.gpus for launch in bought(decided)) <= gpus


def test_headroom_never_buys_what_a_namespace_may_not() -> None:
    """Pods that may not buy would be bound to each free machine, and the next one would be bought in its place."""
    none = {"team": NamespaceLimit(gpus=0)}
    over = tuple(team("team", f"p{n}") for n in range(3))
    decided = free(1, namespaces=none, pods=over)
    assert {why.code for why in decided.pods.values()} == {Reason.LIMIT_NAMESPACE}
    assert bought(decided) == []
    assert decided.pools["a100"].code is Reason.LIMIT_NAMESPACE
    assert "team/p0" in decided.pools["a100"].message


def test_headroom_that_no_pod_of_the_limited_namespace_would_take_is_kept() -> None:
    none = {"team": NamespaceLimit(gpus=0)}
    elsewhere = team("team", "p", node_selector={"gpu-autoscaler/pool": "b"})
    there = free(1, namespaces=none, pods=(elsewhere,), pools=(pool(), pool("b")))
    assert there.pods["team/p"].code is Reason.LIMIT_NAMESPACE
    assert [launch.pool for launch in bought(there)] == ["a100"]
    large = free(1, namespaces=none, pods=(team("team", "p", 2),), offers=offers(A1, A2))
    assert [launch.offer.type.name for launch in bought(large)] == [A1.name]


AMOUNTS = st.one_of(st.none(), st.integers(0, 12))
PRICES = st.one_of(st.none(), st.decimals(0, 20, places=2))


@st.composite
def worlds_with_limits(draw: st.DrawFn) -> Snapshot:
    limits = Limits(
        machines=draw(AMOUNTS),
        gpus=draw(AMOUNTS),
        cores=draw(st.one_of(st.none(), st.integers(0, 300))),
        memory_gb=draw(st.one_of(st.none(), st.integers(0, 1500))),
        price_per_hour=draw(PRICES),
        price_per_month=draw(PRICES),
        launches_per_minute=draw(st.integers(0, 8)),
    )
    names = ("team-a", "team-b", "team-c")
    namespaces = {name: NamespaceLimit(gpus=draw(AMOUNTS), price_per_hour=draw(PRICES)) for name in names[:2]}
    gangs = draw(st.booleans())
    pods = tuple(
        team(
            draw(st.sampled_from(names)),
            f"p{number}",
            draw(st.sampled_from([1, 1, 1, 2, 3, 4, 8])),
            annotations={"gpu-autoscaler/gang": "g", "gpu-autoscaler/gang-size": "2"}
            if gangs and number < 4
            else {},
        )
        for number in range(draw(st.integers(1, 9)))
    )
    rules = policy(
        pool(max=draw(st.integers(0, 6)), max_gpus_total=draw(AMOUNTS)),
        pool("other", max=draw(st.integers(0, 3))),
        limits=limits,
        namespaces=namespaces,
        billing=Billing(reserve_hours=draw(st.integers(0, 3))),
        headroom=(Headroom(pool="other", gpus=draw(st.integers(0, 3))),),
        strategy=draw(st.sampled_from(["smallest", "cheapest", "priority"])),
    )
    kinds = draw(
        st.lists(st.sampled_from([A1, A2, A4, A8]), min_size=1, max_size=4, unique_by=lambda k: k.name)
    )
    return world(
        policy=rules, offers=offers(*kinds), pods=pods, spent_this_month=draw(st.decimals(0, 10, places=2))
    )


def exceeded(snapshot: Snapshot) -> list[str]:
    """Every limit that what is there exceeds, counted from nothing but the machines and their pods."""
    limits, there = snapshot.policy.limits, snapshot.machines
    pairs: list[tuple[str, Any, Any]] = [
        ("machines", len(there), limits.machines),
        ("gpus", sum(m.gpus for m in there), limits.gpus),
        ("cores", sum(m.vcpus for m in there), limits.cores),
        ("memory", sum(m.memory_gib for m in there), limits.memory_gb),
        ("price", sum(m.price for m in there), limits.price_per_hour),
        ("rate", sum(1 for at in snapshot.launches if at > snapshot.now - 60), limits.launches_per_minute),
    ]
    month = snapshot.spent_this_month + sum(
        m.price * max(Decimal(str(snapshot.now - m.ordered_at)) / 3600, snapshot.policy.billing.reserve_hours)
        for m in there
    )
    if there and snapshot.policy.billing.reserve_hours:
        pairs.append(("month", month, limits.price_per_month))
    for one in snapshot.policy.pools:
        mine = [m for m in there if m.pool == one.name]
        pairs += [(f"{one.name}.max", len(mine), one.max)]
        pairs += [(f"{one.name}.gpus", sum(m.gpus for m in mine), one.max_gpus_total)]
    asked = {found.key: found for found in snapshot.pods}
    for namespace, limit in snapshot.policy.namespaces.items():
        gpus, price = 0.0, 0.0
        for m in there:
            held = sum(
                asked[key].shape.requests["nvidia.com/gpu"]
                for key in m.pods
                if key.startswith(namespace + "/")
            )
            every = sum(asked[key].shape.requests["nvidia.com/gpu"] for key in m.pods)
            if m.pods and m.pods[0].startswith(namespace + "/"):
                held += m.gpus - every
            gpus, price = gpus + held, price + float(m.price) * held / m.gpus
        pairs += [(f"{namespace}.gpus", gpus, limit.gpus)]
        if limit.price_per_hour is not None:
            pairs += [(f"{namespace}.price", round(price, 6), float(limit.price_per_hour))]
    return [f"{name}: {has} of {most}" for name, has, most in pairs if most is not None and has > most]


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(worlds_with_limits(), st.lists(st.integers(0, 2**16), min_size=3, max_size=6))
def test_no_sequence_of_plans_with_any_launches_failing_ever_exceeds_a_limit(
    snapshot: Snapshot, failures: list[int]
) -> None:
    number = 0
    for step, mask in enumerate(failures):
        for index, launch in enumerate(bought(plan(snapshot))):
            if mask >> (index % 16) & 1:
                continue
            number += 1
            one = machine(
                f"home-{launch.pool}-{'abcdefghijklmnopqrstuvwxyz'[number % 26] * 9}{number}",
                launch.offer.type,
                Phase.ORDERED,
                pool=launch.pool,
                price=launch.offer.price,
                pods=launch.pods,
                intended_at=snapshot.now,
                ordered_at=snapshot.now,
            )
            snapshot = msgspec.structs.replace(
                snapshot,
                machines=(*snapshot.machines, one),
                launches=(*snapshot.launches, snapshot.now),
            )
        assert exceeded(snapshot) == []
        snapshot = msgspec.structs.replace(snapshot, now=snapshot.now + (step % 3) * 40)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(worlds_with_limits())
def test_taking_back_what_was_added_leaves_nothing_behind(snapshot: Snapshot) -> None:
    tally = Tally(snapshot)
    before = (tally.machines, tally.gpus, tally.cores, tally.memory, tally.price, tally.committed)
    for candidate in candidates(snapshot):
        inside = asks(snapshot.pods[:2], frozenset())
        tally.add(candidate, inside[:1])
        if len(inside) > 1:
            tally.join(candidate, inside[:1], inside[1])
        tally.remove(candidate, inside)
    after = (tally.machines, tally.gpus, tally.cores, tally.memory, tally.price, tally.committed)
    assert after == before
    assert not any(tally.charges.gpus.values())
    assert not any(tally.charges.price.values())


@pytest.mark.parametrize("together", [False, True])
def test_headroom_gives_way_to_pods_that_a_limit_keeps_waiting_also_where_they_need_each_other(
    together: bool,
) -> None:
    gang = {"gpu-autoscaler/gang": "g", "gpu-autoscaler/gang-size": "2"} if together else {}
    idle = tuple(machine(f"home-a100-{letter * 10}", A1, ready_at=NOW - 9000) for letter in "ab")
    since = {"gpu-autoscaler/idle-since": "2026-01-01T00:00:00Z"}
    decided = plan(
        world(
            policy=policy(headroom=(Headroom(pool="a100", gpus=2),), limits=Limits(gpus=5)),
            offers=offers(A1, A2),
            pods=tuple(pod(f"p{n}", 2, annotations=gang) for n in range(2)),
            machines=idle,
            nodes=tuple(node(one.name, annotations=since) for one in idle),
        )
    )
    assert [action.machine for action in decided.actions if isinstance(action, Retire)] == [idle[0].name]
