"""What a pool's minimum orders beside pods that wait: it is room for them, and never in their way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.plan import InVain, Launch, Plan
from controller.domain.policy import Headroom, Limits, NamespaceLimit
from controller.domain.reason import Reason
from controller.planning import drafts
from controller.planning.planner import placements, plan
from tests.planning.mixed import mixed
from tests.planning.worlds import A1, A2, A4, A8, A100S, NOW, kind, machine, offers, pod, policy, pool, world

CHEAP = kind("1V100.6V", 1, 22, 120, "0.14", "V100")


def bought(decided: Plan) -> list[tuple[str, str, tuple[str, ...]]]:
    found = [action for action in decided.actions if isinstance(action, Launch)]
    return sorted((one.pool, one.offer.type.name, one.pods) for one in found)


def types(decided: Plan) -> list[str]:
    return [kind for _, kind, _ in bought(decided)]


@pytest.mark.parametrize(
    ("of", "limits"),
    [
        ({"max": 1}, {}),
        ({"max_gpus_total": 2}, {}),
        ({}, {"machines": 1}),
        ({}, {"gpus": 2}),
        ({}, {"cores": 44}),
        ({}, {"memory_gb": 240}),
        ({}, {"price_per_hour": Decimal("2.60")}),
        ({}, {"price_per_month": Decimal("2.60")}),
        ({}, {"launches_per_minute": 1}),
    ],
)
def test_a_minimum_takes_no_pods_place_within_a_limit(of: dict[str, Any], limits: dict[str, Any]) -> None:
    """It bought a machine that is too small for the pod, and kept it for ever."""
    rules = policy(pool(min=1, **of), limits=Limits(**limits))
    decided = plan(world(policy=rules, offers=offers(A1, A2), pods=(pod("two", 2),)))
    assert bought(decided) == [("a100", "2A100.44V", ("default/two",))]
    assert decided.pods["default/two"].code is Reason.LAUNCHING
    assert not decided.pools


def test_what_is_bought_for_pods_then_keeps_the_minimum() -> None:
    rules = policy(pool(min=1, max=1))
    there = machine(of=A2, pods=("default/two",))
    assert bought(plan(world(policy=rules, offers=offers(A1, A2), machines=(there,)))) == []


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (1, ["1A100.22V"]),
        (2, ["2A100.44V"]),
        (4, ["1A100.22V", "4A100.88V"]),
        (8, ["1A100.22V", "8A100.176V"]),
    ],
)
def test_a_large_machine_is_not_kept_for_a_minimum_that_a_small_one_would_keep(
    gpus: int, expected: list[str]
) -> None:
    """What the small one costs while the pod runs is less than what the large one would cost when it is idle."""
    assert types(plan(world(policy=policy(pool(min=1)), pods=(pod(gpus=gpus),)))) == expected


def test_a_machine_that_pods_need_elsewhere_keeps_the_minimum() -> None:
    there = pod(node_selector={names.LABEL_ZONE: "FIN-02"})
    decided = plan(
        world(policy=policy(pool(min=1)), offers=offers(A1, locations=("FIN-01", "FIN-02")), pods=(there,))
    )
    assert bought(decided) == [("a100", "1A100.22V", ("default/train",))]


def test_only_what_the_minimum_lacks_beside_the_machines_for_pods_is_ordered() -> None:
    decided = plan(world(policy=policy(pool(min=3, max=3)), pods=(pod("two", 2), pod("four", 4))))
    assert bought(decided) == [
        ("a100", "1A100.22V", ()),
        ("a100", "2A100.44V", ("default/two",)),
        ("a100", "4A100.88V", ("default/four",)),
    ]


def test_what_a_minimum_orders_anyhow_is_room_for_pods_though_it_yields_elsewhere() -> None:
    """The large pod needs the only slot of its pool; the small one needs nothing but the other pool's minimum."""
    rules = policy(
        pool("a", min=1, max=1, instance_types=(A1.name, A2.name)),
        pool("b", min=1, instance_types=(A1.name,)),
        pool("c", instance_types=(CHEAP.name,)),
        strategy="cheapest",
    )
    decided = plan(world(policy=rules, offers=offers(A1, A2, CHEAP), pods=(pod("one"), pod("two", 2))))
    assert bought(decided) == [
        ("a", "2A100.44V", ("default/two",)),
        ("b", "1A100.22V", ("default/one",)),
    ]


def test_a_minimum_that_yields_to_pods_of_other_pools_tells_which_limit_is_in_its_way() -> None:
    rules = policy(
        pool("a", min=1, instance_types=(A1.name,)),
        pool("b", instance_types=(A2.name,)),
        limits=Limits(gpus=2),
    )
    decided = plan(world(policy=rules, offers=offers(A1, A2), pods=(pod("two", 2),)))
    assert bought(decided) == [("b", "2A100.44V", ("default/two",))]
    assert decided.pools["a"].code is Reason.LIMIT_GPUS
    assert decided.pools["a"].message.startswith("pool a keeps min: 1, and less is there: limits.gpus is 2")


def test_the_slot_of_a_minimum_goes_to_the_most_urgent_pod() -> None:
    rules = policy(pool(min=1, max=1))
    pods = (pod("urgent", 1, priority=100), pod("a", 2), pod("b", 2))
    decided = plan(world(policy=rules, offers=offers(A1, A2), pods=pods))
    assert decided.pods["default/urgent"].code is Reason.LAUNCHING


def test_a_gang_that_needs_the_slots_of_a_minimum_gets_them_all() -> None:
    said = {names.POD_GANG: "g", names.POD_GANG_SIZE: "2"}
    pods = tuple(pod(f"g{n}", 2, annotations=said) for n in range(2))
    rules = policy(pool(min=2, max=2))
    decided = plan(world(policy=rules, offers=offers(A1, A2), pods=pods))
    assert bought(decided) == [("a100", "2A100.44V", ("default/g0",)), ("a100", "2A100.44V", ("default/g1",))]


def test_a_gang_that_does_not_come_together_leaves_the_minimum_as_it_is() -> None:
    said = {names.POD_GANG: "g", names.POD_GANG_SIZE: "3"}
    pods = tuple(pod(f"g{n}", 2, annotations=said) for n in range(3))
    decided = plan(world(policy=policy(pool(min=2, max=2)), offers=offers(A1, A2), pods=pods))
    assert bought(decided) == [("a100", "1A100.22V", ())] * 2
    assert {why.code for why in decided.pods.values()} == {Reason.GANG_INCOMPLETE}


@pytest.mark.parametrize("pods", [(pod("two", 2),), (pod("two", 2), pod("one"))])
def test_of_machines_in_doubt_one_is_tried_for_a_pod_or_for_the_minimum(pods: Any) -> None:
    known = {"a100": InVain(tries=2, last=NOW - 7200, reason=Reason.JOIN_DEADLINE)}
    rules = policy(pool(min=2, max=2))
    assert len(bought(plan(world(policy=rules, offers=offers(A1, A2), pods=pods, in_vain=known)))) == 1


def test_a_pod_whose_namespace_may_buy_nothing_uses_a_machine_of_the_minimum() -> None:
    rules = policy(pool(min=1), namespaces={"default": NamespaceLimit(gpus=0)})
    decided = plan(world(policy=rules, pods=(pod("one"), pod("two", 2))))
    assert bought(decided) == [("a100", "1A100.22V", ("default/one",))]
    assert decided.pods["default/two"].code is Reason.LIMIT_NAMESPACE


def test_headroom_is_bought_beside_what_is_left_of_a_minimum() -> None:
    """A machine that nobody needs yet counts as free, in whatever turn it was ordered."""
    rules = policy(pool(min=2, max=9), headroom=(Headroom(pool="a100", gpus=1),))
    decided = plan(world(policy=rules, offers=offers(A1, A2), pods=(pod("two", 2),)))
    assert Counter(types(decided)) == {"1A100.22V": 1, "2A100.44V": 1}


@pytest.mark.parametrize("seed", range(30))
def test_no_minimum_leaves_a_pod_without_a_place_that_it_would_have_had(seed: int) -> None:
    """Those that are left then are no more, nor more urgent."""
    draw, snapshot = Random(seed), mixed(seed)

    def left(least: Sequence[int]) -> list[int]:
        pools = [replace(p, min=few, max=4) for p, few in zip(snapshot.policy.pools, least, strict=True)]
        seen = replace(snapshot, policy=replace(snapshot.policy, pools=tuple(pools)))
        placed = {one.pod for one in placements(seen)}
        return sorted(
            (p.shape.priority for p in seen.pods if not p.node and p.key not in placed), reverse=True
        )

    least = [draw.randint(0, 3) for _ in snapshot.policy.pools]
    assert left(least) <= left([0] * len(least))


def test_nothing_is_planned_twice_where_no_minimum_lacks_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    real = drafts.make

    def counted(*args: Any) -> Any:
        made.append(args)
        return real(*args)

    monkeypatch.setattr(drafts, "make", counted)
    there = machine(of=A8, pods=("default/else",))
    snapshot = world(policy=policy(pool(min=1)), machines=(there,), offers=offers(*A100S), pods=(pod(),))
    plan(snapshot)
    assert len(made) == 1
    plan(replace(snapshot, machines=()))
    assert len(made) == 2  # its machine is room enough
    plan(replace(snapshot, machines=(), pods=(pod(gpus=4),), offers=offers(A1, A4)))
    assert len(made) > 3
