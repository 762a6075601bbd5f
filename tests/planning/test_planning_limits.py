"""Limits are never exceeded; what would exceed them is bought in part, and the number to change is named."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from controller.domain.machine import Phase
from controller.domain.plan import Launch, Plan
from controller.domain.policy import Headroom, Limits, NamespaceLimit
from controller.domain.reason import Reason
from controller.planning.budget import month_ends
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A8, GIB, NOW, kind, machine, node, offers, pod, policy, pool, world


def bought(decided: Plan) -> int:
    return sum(isinstance(action, Launch) for action in decided.actions)


def three(**more: Any) -> tuple[Any, ...]:
    return tuple(pod(f"p{n}", **more) for n in range(3))


@pytest.mark.parametrize(
    ("limits", "machines", "placed", "code", "words"),
    [
        (
            Limits(machines=2),
            0,
            2,
            Reason.LIMIT_MACHINES,
            "limits.machines is 2 and 2 are there: raise it to at least 3",
        ),
        (Limits(machines=2), 2, 0, Reason.LIMIT_MACHINES, "raise it to at least 3"),
        (Limits(machines=0), 0, 0, Reason.LIMIT_MACHINES, "limits.machines is 0"),
        (Limits(gpus=2), 0, 2, Reason.LIMIT_GPUS, "limits.gpus is 2, 2 are there"),
        (Limits(gpus=2), 1, 1, Reason.LIMIT_GPUS, "raise it to at least 3"),
        (Limits(price_per_hour=Decimal("2.58")), 0, 2, Reason.LIMIT_PRICE, "raise it to at least 3.87"),
        (Limits(price_per_hour=Decimal("2.57")), 0, 1, Reason.LIMIT_PRICE, "raise it to at least 2.58"),
        (
            Limits(price_per_hour=Decimal(0)),
            0,
            0,
            Reason.LIMIT_PRICE,
            "costs 1.29: raise it to at least 1.29",
        ),
        (Limits(launches_per_minute=2), 0, 2, Reason.LIMIT_RATE, "limits.launches_per_minute is 2"),
    ],
)
def test_a_limit_is_kept_and_names_the_number_that_would_have_to_change(
    limits: Limits, machines: int, placed: int, code: Reason, words: str
) -> None:
    there = tuple(machine(f"home-a100-{'abc'[n] * 10}") for n in range(machines))
    full = tuple(node(m.name) for m in there)
    users = tuple(pod(f"u{n}", node=m.name) for n, m in enumerate(there))
    decided = plan(
        world(
            policy=policy(limits=limits), offers=offers(A1), machines=there, nodes=full, pods=three() + users
        )
    )
    assert bought(decided) == placed
    refused = [why for why in decided.pods.values() if why.code is not Reason.LAUNCHING]
    assert {why.code for why in refused} == {code}
    assert all(words in why.message for why in refused)
    assert len(refused) == 3 - placed


def test_a_gpu_limit_of_one_where_only_two_gpus_can_be_bought_buys_none_and_says_so() -> None:
    decided = plan(world(policy=policy(limits=Limits(gpus=1)), offers=offers(A2), pods=(pod(),)))
    assert bought(decided) == 0
    why = decided.pods["default/train"]
    assert why.code is Reason.LIMIT_GPUS
    assert "limits.gpus is 1" in why.message
    assert "(2A100.44V) has 2: raise it to at least 2" in why.message


def test_a_limit_on_gpus_that_is_used_up_keeps_nobody_from_a_machine_without_any() -> None:
    cpu, gpu = kind("CPU.8V", 0, 8, 32, "0.20", ""), kind("1V100.6V", 1, 6, 32, "0.10", "V100")
    slots = pool(instance_types=(cpu.name, gpu.name), min_gpu_memory_gb=0, resources={"example.com/slot": 4})
    asking = pod("p", 0, requests={"example.com/slot": 1})
    for limits, name in ((Limits(), gpu.name), (Limits(gpus=0), cpu.name)):
        decided = plan(
            world(
                policy=policy(slots, limits=limits, strategy="cheapest"),
                offers=offers(cpu, gpu),
                pods=(asking,),
            )
        )
        assert [action.offer.type.name for action in decided.actions if isinstance(action, Launch)] == [name]


def test_the_pools_own_maximum_is_named_with_the_pool() -> None:
    decided = plan(world(policy=policy(pool(max=1)), offers=offers(A1), pods=three()))
    assert bought(decided) == 1
    last = decided.pods["default/p2"]
    assert (last.code, last.message) == (
        Reason.LIMIT_MACHINES,
        "pool a100 has 1 of at most 1 machines: raise its max to at least 2",
    )


def test_a_second_pool_goes_on_where_the_first_is_full() -> None:
    decided = plan(
        world(policy=policy(pool("one", max=1), pool("two", max=5)), offers=offers(A1), pods=three())
    )
    assert sorted(a.pool for a in decided.actions if isinstance(a, Launch)) == ["one", "two", "two"]


@pytest.mark.parametrize(
    ("phase", "gone_at", "counts"),
    [
        (Phase.INTENDED, 0.0, True),
        (Phase.READY, 0.0, True),
        (Phase.DRAINING, 0.0, True),
        (Phase.DELETING, 0.0, True),
        (Phase.DELETING, NOW - 5, False),
        (Phase.TOMBSTONE, NOW - 5, False),
    ],
)
def test_everything_that_may_cost_money_counts_also_what_fails_or_leaves(
    phase: Phase, gone_at: float, counts: bool
) -> None:
    old = machine(
        phase=phase, gone_at=gone_at, reason=Reason.LAUNCH_FAILED if phase is Phase.DELETING else None
    )
    user = pod("user", node=old.name)
    decided = plan(
        world(
            policy=policy(limits=Limits(machines=1)),
            machines=(old,),
            nodes=(node(old.name),) if phase is Phase.READY else (),
            pods=(pod(gpus=8), user),
        )
    )
    assert bought(decided) == (0 if counts else 1)


@pytest.mark.parametrize(
    ("launched", "placed"), [([], 2), ([NOW - 5], 1), ([NOW - 5, NOW - 59], 0), ([NOW - 60, NOW - 61], 2)]
)
def test_launches_of_the_last_minute_count(launched: list[float], placed: int) -> None:
    decided = plan(
        world(
            policy=policy(limits=Limits(launches_per_minute=2)),
            offers=offers(A1),
            launches=tuple(launched),
            pods=three(),
        )
    )
    assert bought(decided) == placed


def test_the_plan_wakes_when_the_limit_of_launches_eases() -> None:
    limited = policy(limits=Limits(launches_per_minute=2))
    decided = plan(world(policy=limited, launches=(NOW - 40, NOW - 20), pods=(pod(),)))
    assert decided.wake_at == NOW + 20


def test_the_most_urgent_pods_are_placed_where_not_all_can_be() -> None:
    urgent = pod("z-urgent", priority=1000)
    decided = plan(world(policy=policy(limits=Limits(gpus=1)), pods=(*three(), urgent)))
    assert decided.pods["default/z-urgent"].code is Reason.LAUNCHING
    assert bought(decided) == 1


def test_a_minimum_does_not_override_a_limit() -> None:
    assert bought(plan(world(policy=policy(pool(min=3), limits=Limits(machines=2))))) == 2


@pytest.mark.parametrize(
    ("of_pool", "more"),
    [
        ({}, {"limits": Limits(gpus=1)}),
        ({"max_gpus_total": 1}, {}),
        ({}, {"namespaces": {"default": NamespaceLimit(gpus=1)}}),
    ],
)
def test_a_machine_without_gpus_is_bought_though_more_gpus_are_there_than_allowed(
    of_pool: dict[str, Any], more: dict[str, Any]
) -> None:
    """It was told that a machine with 0 GPUs is too much."""
    cpu = kind("CPU.8V.32G", 0, 8, 32, "0.08", "")
    either = {"instance_types": (A2.name, cpu.name), "min_gpu_memory_gb": 0}
    slots = pool(resources={"example.com/slot": 4}, **either, **of_pool)
    there = machine(of=A2)
    runs = pod("runs", 2, node=there.name, requests={"example.com/slot": 4})
    pods = (runs, pod("slot", 0, requests={"example.com/slot": 1}), pod("gpu"))
    decided = plan(
        world(
            policy=policy(slots, **more),
            offers=offers(A2, cpu),
            machines=(there,),
            nodes=(node(there.name, 2),),
            pods=pods,
        )
    )
    assert decided.pods["default/slot"].code is Reason.LAUNCHING
    assert decided.pods["default/gpu"].code in (Reason.LIMIT_GPUS, Reason.LIMIT_NAMESPACE)
    assert bought(decided) == 1


def test_a_machine_of_less_gpus_leaves_the_rest_of_the_limit_to_others() -> None:
    pods = (pod("a", 3), pod("b", 3), pod("c", 2), pod("d", 1))
    decided = plan(world(policy=policy(limits=Limits(gpus=9)), pods=pods))
    assert sorted(a.offer.type.name for a in decided.actions if isinstance(a, Launch)) == [
        "1A100.22V",
        "8A100.176V",
    ]


def test_a_price_above_the_pools_names_the_least_price_that_would_do() -> None:
    decided = plan(
        world(policy=policy(pool(max_price_per_hour=Decimal(1))), offers=offers(A8, A2, A1), pods=(pod(),))
    )
    why = decided.pods["default/train"]
    assert why.code is Reason.LIMIT_PRICE
    assert why.message.endswith("max_price_per_hour of pool a100 is 1.00: raise it to at least 1.29")


@pytest.mark.parametrize("pause", ["scale-up", "all"])
def test_a_pause_buys_nothing_not_even_a_minimum(pause: str) -> None:
    for paused in (policy(pool(min=1), pause=pause), policy(pool(min=1, pause=pause))):
        decided = plan(world(policy=paused, pods=(pod(),)))
        assert bought(decided) == 0
        assert decided.pods["default/train"].code is Reason.PAUSED


@pytest.mark.parametrize("pause", ["scale-down", "garbage", ""])
def test_other_pauses_do_not_stop_purchases(pause: str) -> None:
    assert bought(plan(world(policy=policy(pause=pause), pods=(pod(),)))) == 1


def test_a_paused_pool_leaves_the_pod_to_another() -> None:
    decided = plan(world(policy=policy(pool("one", pause="all"), pool("two")), pods=(pod(),)))
    assert [a.pool for a in decided.actions if isinstance(a, Launch)] == ["two"]


@pytest.mark.parametrize(
    ("of", "limits", "sold", "code", "words"),
    [
        ({}, Limits(machines=0), offers(A1), Reason.LIMIT_MACHINES, "limits.machines is 0"),
        ({}, Limits(price_per_hour=Decimal(1)), offers(A1), Reason.LIMIT_PRICE, "raise it to at least 1.29"),
        ({}, Limits(), offers(A1, available=False), Reason.NO_CAPACITY, "1A100.22V is not available in FIN-01"),
        ({}, Limits(), (), Reason.NO_CAPACITY, "the catalogue offers nothing that it may buy"),
        ({"max_price_per_hour": Decimal(1)}, Limits(), offers(A1), Reason.LIMIT_PRICE, "raise it to at least 1.29"),
        ({"pause": "scale-up"}, Limits(), offers(A1), Reason.PAUSED, "scale-up of pool a100 is paused"),
    ],
)  # fmt: skip
def test_nobody_waits_for_a_minimum_or_free_gpus_so_the_pool_tells_what_is_in_their_way(
    of: dict[str, Any], limits: Limits, sold: Any, code: Reason, words: str
) -> None:
    for rules in (
        policy(pool(min=1, **of), limits=limits),
        policy(pool(**of), limits=limits, headroom=(Headroom(pool="a100", gpus=1),)),
    ):
        why = plan(world(policy=rules, offers=sold)).pools["a100"]
        assert why.code is code
        assert words in why.message


def test_the_rest_of_a_minimum_is_looked_at_as_soon_as_the_limit_on_launches_allows() -> None:
    decided = plan(
        world(policy=policy(pool(min=2), limits=Limits(launches_per_minute=2)), launches=(NOW - 20,))
    )
    assert bought(decided) == 1
    assert decided.pools["a100"].code is Reason.LIMIT_RATE
    assert decided.wake_at == NOW + 40


def test_a_gang_is_looked_at_again_as_soon_as_a_limit_that_time_lifts_allows_all_of_it() -> None:
    gang = {"gpu-autoscaler/gang": "g", "gpu-autoscaler/gang-size": "2"}
    pods = tuple(pod(f"g{n}", annotations=gang) for n in range(2))
    at_once = policy(limits=Limits(launches_per_minute=2))
    decided = plan(world(policy=at_once, offers=offers(A1), launches=(NOW - 20,), pods=pods))
    assert {why.code for why in decided.pods.values()} == {Reason.GANG_INCOMPLETE}
    assert decided.wake_at == NOW + 40
    poor = policy(limits=Limits(price_per_month=Decimal(2)))
    assert plan(world(policy=poor, offers=offers(A1), pods=pods)).wake_at == month_ends(NOW)


def test_a_gang_that_wants_more_launches_than_a_minute_may_have_is_told_so() -> None:
    """It waited for ever, told that the rest follows within a minute."""
    gang = {"gpu-autoscaler/gang": "g", "gpu-autoscaler/gang-size": "4"}
    pods = tuple(pod(f"g{n}", annotations=gang) for n in range(4))
    rules = policy(limits=Limits(launches_per_minute=2))
    for before in ((), (NOW - 20,)):
        decided = plan(world(policy=rules, offers=offers(A1), launches=before, pods=pods))
        for why in decided.pods.values():
            assert why.code is Reason.GANG_INCOMPLETE
            assert "limits.launches_per_minute is 2" in why.message
            assert "within a minute" not in why.message
            assert "raise it" in why.message


@pytest.mark.parametrize("strategy", ["smallest", "cheapest"])
@pytest.mark.parametrize(
    ("most", "limits"),
    [
        (10, Limits()),
        (1, Limits()),
        (10, Limits(machines=1)),
        (10, Limits(gpus=2)),
        (10, Limits(price_per_hour=Decimal("5.63"))),
        (10, Limits(launches_per_minute=1)),
    ],
)
def test_a_limit_that_the_plan_without_limits_keeps_takes_nobodys_place(
    strategy: str, most: int, limits: Limits
) -> None:
    """The smallest machine for the first pod alone would use up the limit, and the second one would wait."""
    sold = offers(
        kind("1S", 1, 22, 30, "0.62"), kind("2S", 2, 12, 60, "1.26"), kind("2L", 2, 20, 120, "5.63")
    )
    waiting = (
        pod("large", 1, requests={"cpu": 500, "memory": 70 * GIB}),
        pod("small", 1, requests={"cpu": 7000, "memory": 5 * GIB}),
    )
    rules = policy(pool(max=most), limits=limits, strategy=strategy)
    decided = plan(world(pods=waiting, offers=sold, policy=rules))
    bought = [(a.offer.type.name, a.pods) for a in decided.actions if isinstance(a, Launch)]
    assert [(name, set(pods)) for name, pods in bought] == [("2L", {"default/large", "default/small"})]
