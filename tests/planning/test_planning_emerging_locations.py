"""A plan brings locations and hosts into being itself; pods that are to be spread evenly must bear that.

The random sets are those of the comparison with the real scheduler, planned here without one.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from controller.domain.kube import Pod, Selector, Spread
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Plan, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.e2e.controlplane.differential import draw_sets, oracle, replayed
from tests.e2e.controlplane.differential.chance import Chance
from tests.e2e.controlplane.differential.sets import Carried, names_of
from tests.e2e.controlplane.differential.worlds import NAMESPACES
from tests.planning.worlds import A1, A2, A4, NOW, kind, machine, node, offers, pod, policy, pool, world

ZONE = "topology.kubernetes.io/zone"
BEFORE = "2026-01-01T00:00:00Z"
WAITS = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": BEFORE}


def there(row: dict[str, Any], uid: str, status: dict[str, Any] | None = None) -> dict[str, Any]:
    found = deepcopy(row)
    found["metadata"] |= {"uid": uid, "creationTimestamp": BEFORE}
    return found | ({"status": status} if status is not None else {})


def of_set(seed: str) -> Carried:
    chance = Chance(seed)
    around, pods, offered = draw_sets.world(chance), draw_sets.waiting(chance), draw_sets.offers(chance)
    pending = {"phase": "Pending", "conditions": [WAITS]}
    listed = {
        "nodes": [there(row, f"n{at}") for at, row in enumerate(around.nodes)],
        "pods": [there(row, f"b{at}", {"phase": "Running"}) for at, row in enumerate(around.pods)]
        + [there(row, f"p{at}", pending) for at, row in enumerate(pods)],
        "namespaces": [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACES.items()],
    }
    more: dict[str, Any] = {"settings": draw_sets.settings(), "offers": offered}
    snapshot = oracle.picture(listed, [], more)
    made = plan(snapshot)
    planned = {pod: name for name, launch in names_of(made).items() for pod in launch.pods}
    return Carried(snapshot, made, planned, {}, pods, [])


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_every_pod_of_a_plan_can_be_bound_once_all_of_its_machines_are_there(first: int) -> None:
    for number in range(first, first + 20):
        assert replayed.objections(of_set(f"emerging-{number}")) == [], number


@pytest.mark.parametrize("seed", ["381404-58", "x-25", "x-59", "x-110", "x-214", "x-475", "x-515", "x-552"])
def test_sets_of_which_pods_were_once_planned_that_could_not_be_bound(seed: str) -> None:
    assert replayed.objections(of_set(seed)) == []


DEARER = kind("1A100.30V", 1, 30, 120, "1.50")
EVENLY = (Spread(max_skew=1, topology_key=ZONE, hard=True, selector=Selector(labels={"app": "even"})),)


def spread_beside(*others: Any) -> Snapshot:
    """Four pods of two GPUs, in the one location that has such machines."""
    even = tuple(
        pod(
            f"even-{n}",
            2,
            labels={"app": "even"},
            spreads=EVENLY,
            node_selector={"gpu-autoscaler/pool": "a100"},
        )
        for n in range(4)
    )
    return world(
        policy=policy(pool()),
        pods=(*even, *others),
        nodes=(node("old", 0, labels={ZONE: "FIN-03"}),),
        offers=offers(A2, DEARER, locations=("FIN-01",)) + offers(A1, locations=("FIN-02",)),
    )


def launched(made: Plan) -> list[tuple[str, str]]:
    return sorted((a.offer.type.name, a.offer.location) for a in made.actions if isinstance(a, Launch))


def test_a_machine_for_somebody_else_is_bought_where_it_opens_no_further_location() -> None:
    made = plan(spread_beside(pod("alone", 1)))
    assert launched(made) == [("1A100.30V", "FIN-01")] + [("2A100.44V", "FIN-01")] * 4


def test_who_must_be_in_a_further_location_waits_until_the_others_are_bound_and_is_told_so() -> None:
    made = plan(spread_beside(pod("there", 1, node_selector={ZONE: "FIN-02"})))
    assert launched(made) == [("2A100.44V", "FIN-01")] * 4
    assert made.pods["default/there"].code is Reason.TOPOLOGY
    assert "it is bought once they are" in made.pods["default/there"].message


BOOTING = machine(
    "home-a100-aaaaaaaaaa", A4, Phase.BOOTING, pods=("default/even-0", "default/even-1"), intended_at=NOW - 1
)
WIDE = kind("8WIDE", 8, 48, 256, "2.00", "V100")


def even(name: str, gpus: int) -> Pod:
    only = {"gpu-autoscaler/pool": "a100"}
    return pod(name, gpus, labels={"app": "even"}, spreads=EVENLY, node_selector=only)


def on_their_way(*others: Pod, **more: Any) -> Snapshot:
    """Two pods of two GPUs have their places on one machine, in the only location of their pool so far."""
    values: dict[str, Any] = {
        "pods": (even("even-0", 2), even("even-1", 2), *others),
        "machines": (BOOTING,),
        "offers": offers(DEARER, locations=("FIN-01",)) + offers(A1, locations=("FIN-02",)),
    }
    return world(**(values | more))


@pytest.mark.parametrize("largest", [(), (even("even-2", 8),)])
def test_nobody_opens_a_further_location_while_others_wait_for_a_machine(largest: tuple[Pod, ...]) -> None:
    """Also where the largest of those others gets no machine at all."""
    made = plan(on_their_way(pod("alone", 1), *largest))
    assert launched(made) == [("1A100.30V", "FIN-01")]
    assert {made.pods[f"default/even-{n}"].code for n in (0, 1)} == {Reason.ON_THE_WAY}


@pytest.mark.parametrize(("place", "found"), [("FIN-01", ["8WIDE"]), ("FIN-02", ["1A100.30V"] * 3)])
def test_a_bargain_opens_no_further_location_while_others_wait_for_a_machine(
    place: str, found: list[str]
) -> None:
    three = (pod(f"p{n}", 1, requests={"cpu": 14_000}) for n in range(3))
    sold = offers(DEARER, locations=("FIN-01",)) + offers(WIDE, locations=(place,))
    made = plan(on_their_way(*three, offers=sold, policy=policy(strategy="cheapest")))
    assert [name for name, _ in launched(made)] == found
