"""Offers are judged once for as long as nothing that they are made of changes, and never longer than that."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.kube import DaemonSet, PodShape, Toleration
from controller.domain.plan import Refusal, Snapshot
from controller.domain.reason import Reason
from controller.planning import bargains, choice, shop
from controller.planning.cheapening import cheapened
from controller.planning.choice import candidates
from controller.planning.planner import plan
from controller.planning.shop import shop_of
from tests.planning.worlds import A1, A2, GIB, NOW, kind, machine, node, offers, pod, policy, pool, world

DAEMON = DaemonSet(
    namespace="kube-system",
    name="hungry",
    uid="hungry",
    shape=PodShape(requests={"cpu": 21_500}, tolerations=(Toleration("", "Exists"),)),
)


def smaller(snapshot: Snapshot) -> Snapshot:
    """The figures are one map that whoever learns goes on writing to."""
    snapshot.observed["1A100.22V"] = {"cpu": 500, "memory": GIB}  # type: ignore[index]
    return snapshot


def refused(snapshot: Snapshot) -> Snapshot:
    sold_out = Refusal(
        offer=snapshot.offers[0].key, reason=Reason.NO_CAPACITY, until=NOW + 60, message="sold out"
    )
    return replace(snapshot, refusals=(*snapshot.refusals, sold_out))


CHANGES: dict[str, Callable[[Snapshot], Snapshot]] = {
    "a refusal": refused,
    "figures of a real node": smaller,
    "a DaemonSet that takes much": lambda s: replace(s, daemonsets=(DAEMON,)),
    "labels of a real node": lambda s: replace(
        s,
        machines=(machine(node_uid="uid-home-a100-aaaaaaaaaa"),),
        nodes=(node("home-a100-aaaaaaaaaa", labels={"nvidia.com/gpu.product": "NVIDIA-OTHER"}),),
    ),
    "settings": lambda s: replace(s, policy=policy(pool(max_price_per_hour=Decimal(1)))),
    "types with less in them": lambda s: replace(
        s, offers=tuple(replace(o, type=replace(o.type, memory_gib=1, vcpus=1)) for o in s.offers)
    ),
    "a pause": lambda s: replace(s, policy=replace(s.policy, pause="scale-up")),
    "what is sold": lambda s: replace(s, offers=s.offers[1:]),
    "nothing": lambda s: s,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("gpus", [1, 99])
def test_a_plan_after_a_change_is_the_one_of_somebody_who_never_saw_what_was_before(
    change: str, gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world(pods=(pod(gpus=gpus),), observed={})
    assert bool(plan(before).actions) == (gpus == 1)
    changed = CHANGES[change](before)
    found = plan(refused(changed)), plan(changed)
    for module in (choice, shop):
        monkeypatch.setattr(module, "_latest", None)
    fresh = replace(changed, policy=replace(changed.policy), offers=(*changed.offers,))
    assert found[1] == plan(fresh)
    monkeypatch.setattr(shop, "_latest", None)
    assert found[0] == plan(refused(fresh))


def test_why_a_pod_fits_nothing_is_said_anew_for_each_shape() -> None:
    snapshot = world(pods=(pod(gpus=99), pod("small", requests={"cpu": 10**7})))
    told = plan(snapshot).pods
    again = plan(replace(snapshot, now=NOW + 5)).pods
    assert told == again
    assert len({why.message for why in told.values()}) == 2


def test_a_refusal_that_has_ended_hinders_nothing_although_it_is_still_listed() -> None:
    snapshot = refused(world(pods=(pod(),)))
    later = replace(snapshot, now=NOW + 61)
    assert plan(snapshot) != plan(later)
    assert plan(later).actions == plan(replace(later, refusals=())).actions


def test_the_same_offers_are_judged_once_however_many_pods_come_and_go() -> None:
    snapshot = world(pods=(pod(),))
    options = candidates(snapshot)
    more = replace(snapshot, pods=(pod(), pod("another")), now=NOW + 5)
    assert candidates(more) is options
    assert shop_of(more, options) is shop_of(snapshot, options)


def waiting(*gpus: int) -> tuple[Any, ...]:
    return tuple(pod(f"p{n}", many, requests={"cpu": 9000}) for n, many in enumerate(gpus))


def test_the_cheapest_machines_for_the_very_same_pods_are_looked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def counting(pods: Any, *more: Any, **others: Any) -> Any:
        asked.append(len(pods))
        return cheapened(pods, *more, **others)

    monkeypatch.setattr(bargains, "cheapened", counting)
    monkeypatch.setattr(shop, "_latest", None)
    # One of the first size holds a pod for less, one of the largest all of them for the least.
    sold = offers(A1, A2, kind("4CHEAP.88V", 4, 88, 480, "2.60"))
    begun = world(policy=policy(strategy="cheapest"), pods=waiting(1, 1, 2), offers=sold)
    first = plan(begun)
    for again in (begun, replace(begun, now=NOW + 10, pods=begun.pods[::-1])):
        assert plan(again) == first
        assert asked == [3]
    fewer = replace(begun, policy=replace(begun.policy, max_overshoot=1))
    other = replace(begun, offers=(*sold[:2], replace(sold[2], available=False)))
    for changed in (
        replace(begun, pods=waiting(1, 1, 1)),
        replace(begun, pods=waiting(2, 2)),
        other,
        fewer,
    ):
        asked.clear()
        decided = plan(changed)
        assert asked
        monkeypatch.setattr(shop, "_latest", None)
        assert plan(changed) == decided
        plan(begun)
