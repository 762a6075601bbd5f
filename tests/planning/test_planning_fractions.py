"""Shares of a GPU that KAI hands out: an opt-in, and the same demand never counts twice."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from controller.domain.machine import Phase
from controller.domain.plan import Launch, Plan
from controller.domain.policy import Headroom
from controller.domain.reason import Reason
from controller.planning import fractions
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, NOW, machine, node, offers, pod, policy, world

KAI = policy(fractions="kai")


def share(name: str, amount: str = "0.5", **more: Any) -> Any:
    return pod(name, 0, annotations={"gpu-fraction": amount}, **more)


def bought(decided: Plan) -> list[tuple[str, ...]]:
    return [action.pods for action in decided.actions if isinstance(action, Launch)]


def test_shares_are_demand_only_where_the_settings_say_so() -> None:
    assert plan(world(offers=offers(A1), pods=(share("a"),))).actions == ()
    assert bought(plan(world(policy=KAI, offers=offers(A1), pods=(share("a"),)))) == [("default/a",)]


@pytest.mark.parametrize(
    ("amounts", "gpus"),
    [
        (("0.5", "0.5"), 1),
        (("0.5", "0.6"), 2),
        (("0.25", "0.25", "0.25", "0.25"), 1),
        (("0.3", "0.3", "0.3", "0.3"), 2),
        (("0.1",) * 10, 1),
        (("0.9", "0.2", "0.1"), 2),
    ],
)
def test_shares_that_go_together_ask_for_one_gpu(amounts: Any, gpus: int) -> None:
    pods = tuple(share(f"p{number}", amount) for number, amount in enumerate(amounts))
    decided = plan(world(policy=KAI, offers=offers(A1), pods=pods))
    assert len(bought(decided)) == gpus
    assert sorted(key for keys in bought(decided) for key in keys) == sorted(one.key for one in pods)
    assert {why.code for why in decided.pods.values()} == {Reason.LAUNCHING}
    assert len(decided.pods) == len(pods)


@pytest.mark.parametrize(
    ("kinds", "cpus", "machines"),
    [
        ((A1,), 11000, 1),
        ((A1,), 11001, 2),  # 22 CPUs: no machine holds both
        ((A1,), 22000, 2),
        ((A1, A2), 22000, 2),  # as cheap as the one that would hold both, and each can leave alone
        ((A2,), 20000, 1),
    ],
)
def test_shares_go_together_only_where_a_machine_has_what_else_they_ask_for(
    kinds: Any, cpus: int, machines: int
) -> None:
    pods = tuple(share(name, requests={"cpu": cpus}) for name in "ab")
    decided = plan(world(policy=KAI, offers=offers(*kinds), pods=pods))
    assert len(bought(decided)) == machines
    assert {why.code for why in decided.pods.values()} == {Reason.LAUNCHING}


def test_shares_that_may_not_be_on_one_machine_do_not_share() -> None:
    pods = (share("a"), share("b", node_selector={"gpu-autoscaler/location": "FIN-01"}))
    assert len(bought(plan(world(policy=KAI, offers=offers(A1), pods=pods)))) == 2


@pytest.mark.parametrize("amount", ["", "0", "1", "1.5", "-0.5", "half", "1e-1", "0.5.5", "9" * 500])
def test_a_share_that_cannot_be_read_buys_nothing(amount: str) -> None:
    decided = plan(world(policy=KAI, offers=offers(A1), pods=(share("a", amount),)))
    assert bought(decided) == []
    assert "cannot be read" in decided.pods["default/a"].message


def test_a_share_by_memory_counts_against_the_smallest_gpu_that_may_be_bought() -> None:
    pods = tuple(pod(f"p{n}", 0, annotations={"gpu-memory": "40960"}) for n in range(3))
    assert len(bought(plan(world(policy=KAI, offers=offers(A1), pods=pods)))) == 2


def test_a_share_of_several_devices_asks_for_as_many() -> None:
    one = pod("a", 0, annotations={"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"})
    decided = plan(world(policy=KAI, offers=offers(A1, A2), pods=(one,)))
    assert [a.offer.type.gpus for a in decided.actions if isinstance(a, Launch)] == [2]


def test_utility_pods_of_the_node_scale_adjuster_do_not_count_again() -> None:
    utility = pod("u", 1, namespace="kai-scale-adjust", labels={"shared-gpu-pod-name": "a"})
    decided = plan(world(policy=KAI, offers=offers(A1), pods=(share("a"), utility)))
    assert bought(decided) == [("default/a",)]
    assert decided.pods["kai-scale-adjust/u"].code is Reason.NOT_DEMAND
    without = plan(world(offers=offers(A1), pods=(share("a"), utility)))
    assert bought(without) == [("kai-scale-adjust/u",)]


def test_what_was_bought_for_shares_is_never_bought_again_whoever_starts_first() -> None:
    pods = tuple(share(f"p{number}", "0.25") for number in range(4))
    snapshot = world(policy=KAI, offers=offers(A1), pods=pods)
    (keys,) = bought(plan(snapshot))
    there = machine("home-a100-aaaaaaaaaa", A1, Phase.BOOTING, pods=keys, intended_at=NOW)
    assert bought(plan(msgspec.structs.replace(snapshot, machines=(there,)))) == []
    ready = msgspec.structs.replace(there, phase=Phase.READY)
    reservation = pod("r", 1, namespace="kai-resource-reservation", node=there.name)
    for running in range(1, 16):
        here = tuple(
            msgspec.structs.replace(one, node=there.name, unschedulable_since=None)
            if running >> number & 1
            else one
            for number, one in enumerate(pods)
        )
        decided = plan(
            msgspec.structs.replace(
                snapshot, machines=(ready,), nodes=(node(there.name),), pods=(*here, reservation)
            )
        )
        assert bought(decided) == [], running


def test_pods_that_come_later_join_the_gpu_on_its_way_or_ask_for_another() -> None:
    there = machine("home-a100-aaaaaaaaaa", A1, Phase.BOOTING, pods=("default/a",), intended_at=NOW)
    first = share("a", created=NOW - 9)
    for amount, more in (("0.5", 0), ("0.6", 1)):
        late = share("b", amount, created=NOW)
        decided = plan(world(policy=KAI, offers=offers(A1), machines=(there,), pods=(first, late)))
        assert len(bought(decided)) == more


@pytest.mark.parametrize(
    ("amounts", "launches"), [((), 1), (("0.5",), 2), (("0.5", "0.5"), 2), (("0.6", "0.6"), 3)]
)
def test_gpus_that_shares_use_on_machines_of_the_same_plan_are_not_free(amounts: Any, launches: int) -> None:
    """One GPU is to stay free beside whatever the shares get."""
    kept = msgspec.structs.replace(KAI, headroom=(Headroom(pool="a100", gpus=1),))
    pods = tuple(share(f"p{number}", amount) for number, amount in enumerate(amounts))
    assert len(bought(plan(world(policy=kept, offers=offers(A1), pods=pods)))) == launches


def test_a_share_that_finds_no_room_on_a_gpu_leaves_it_open_to_smaller_ones() -> None:
    """The GPU was closed by it, and a third machine bought where two hold all of them."""
    pods = (share("a", requests={"cpu": 20000}), share("b", requests={"cpu": 20000}), share("c"), share("d"))
    assert len(bought(plan(world(policy=KAI, offers=offers(A1), pods=pods)))) == 2


def test_thousands_of_shares_that_fill_no_gpu_are_not_compared_with_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = [0]

    class Counting(Fraction):
        def __add__(self, other: Any) -> Any:
            looks[0] += 1
            return Counting(Fraction.__add__(self, other))

        __radd__ = __add__

    monkeypatch.setattr(fractions, "_share", lambda pod, memory: Counting("0.6"))
    pods = [share(f"p{number:04}") for number in range(1000)]
    found = fractions.whole_gpus(world(policy=KAI, offers=offers(A1), pods=tuple(pods)), pods, {})
    assert len(found.pods) == 1000
    assert looks[0] < 5000
