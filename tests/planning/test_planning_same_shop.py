"""Offers are judged once for as long as nothing that they are made of changes, and never longer than that."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from msgspec.structs import replace

from controller.domain.kube import DaemonSet, PodShape, Toleration
from controller.domain.plan import Refusal, Snapshot
from controller.domain.reason import Reason
from controller.planning.choice import candidates
from controller.planning.planner import plan
from controller.planning.shop import shop_of
from tests.planning.worlds import GIB, NOW, machine, node, pod, policy, pool, world

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
    "a pause": lambda s: replace(s, policy=replace(s.policy, pause="scale-up")),
    "what is sold": lambda s: replace(s, offers=s.offers[1:]),
    "nothing": lambda s: s,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_after_a_change_is_the_one_of_somebody_who_never_saw_what_was_before(change: str) -> None:
    before = world(pods=(pod(),), observed={})
    assert plan(before).actions
    changed = CHANGES[change](before)
    found = plan(changed)
    fresh = replace(changed, policy=replace(changed.policy), offers=(*changed.offers,))
    assert found == plan(fresh)


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
