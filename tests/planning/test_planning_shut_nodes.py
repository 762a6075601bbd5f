"""Nodes that take no pods but those that tolerate it: cordoned, or not Ready. There the scheduler binds them."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.kube import PodTerm, Selector, Spread, Taint, Toleration
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Snapshot
from controller.domain.policy import Headroom
from controller.domain.reason import Reason
from controller.domain.switching import Own, Switch
from controller.planning.planner import plan
from tests.planning.worlds import A1, NOW, machine, node, offers, pod, policy, pool, world

CORDON, NOT_READY, UNREACHABLE = (
    f"node.kubernetes.io/{name}" for name in ("unschedulable", "not-ready", "unreachable")
)
EVERYTHING = Toleration("", "Exists")
# What every pod is given by the admission of the API server.
USUAL = tuple(Toleration(key, "Exists", effect="NoExecute") for key in (NOT_READY, UNREACHABLE))
CORDONED: dict[str, Any] = {"unschedulable": True}
MARKED: dict[str, Any] = CORDONED | {"taints": (Taint(CORDON),)}
DOWN: dict[str, Any] = {"ready": False, "ready_since": NOW - 60}
UNHEARD: dict[str, Any] = DOWN | {"taints": (Taint(UNREACHABLE), Taint(UNREACHABLE, effect="NoExecute"))}
ZONE = "topology.kubernetes.io/zone"


def bought(snapshot: Snapshot) -> int:
    return sum(isinstance(action, Launch) for action in plan(snapshot).actions)


def home(**more: Any) -> Any:
    return node(
        "home", labels={"kubernetes.io/hostname": "home", ZONE: "home"} | more.pop("labels", {}), **more
    )


@pytest.mark.parametrize(
    ("there", "tolerations", "launches"),
    [
        (CORDONED, (EVERYTHING,), 0),
        (MARKED, (EVERYTHING,), 0),
        (MARKED, (Toleration(CORDON, "Exists"),), 0),
        (CORDONED, (Toleration(CORDON, "Exists", effect="NoExecute"),), 1),
        (CORDONED, (), 1),
        (MARKED, USUAL, 1),
        (MARKED | {"taints": (Taint(CORDON), Taint("gpu"))}, (Toleration(CORDON, "Exists"),), 1),
        (DOWN, (EVERYTHING,), 0),
        (DOWN, (Toleration(NOT_READY, "Exists"),), 0),
        (DOWN, (), 1),
        (DOWN, USUAL, 1),
        (UNHEARD, (EVERYTHING,), 0),
        (UNHEARD, (Toleration(UNREACHABLE, "Exists"),), 0),
        (UNHEARD, (Toleration(NOT_READY, "Exists"),), 1),
        (UNHEARD, USUAL, 1),
        (DOWN | MARKED, (Toleration(CORDON, "Exists"),), 1),
        (DOWN | MARKED, (EVERYTHING,), 0),
        (DOWN | {"ready_since": NOW - 301}, (EVERYTHING,), 1),
        (DOWN | {"ready_since": None}, (EVERYTHING,), 1),
        (CORDONED | {"deleting": True}, (EVERYTHING,), 1),
        (DOWN | {"deleting": True}, (EVERYTHING,), 1),
        (DOWN | {"labels": {"gpu-autoscaler/pool": "a100"}}, (EVERYTHING,), 1),
    ],
)  # fmt: skip
def test_a_shut_node_is_room_for_pods_that_tolerate_it_and_for_nobody_else(
    there: dict[str, Any], tolerations: tuple[Toleration, ...], launches: int
) -> None:
    snapshot = world(pods=(pod(tolerations=tolerations),), nodes=(home(**there),))
    assert bought(snapshot) == launches
    code = Reason.LAUNCHING if launches else Reason.FITS_NOW
    assert plan(snapshot).pods["default/train"].code is code


def test_a_shut_node_takes_as_many_as_it_has_room_for() -> None:
    pods = tuple(pod(name, tolerations=(EVERYTHING,)) for name in "abc")
    assert bought(world(pods=pods, nodes=(home(**MARKED),))) == 2
    assert bought(world(pods=(*pods, pod("r", node="home")), nodes=(home(**MARKED),))) == 3


def test_what_is_terminating_on_a_cordoned_node_makes_room_there() -> None:
    old = pod("old", node="home", deleting_at=NOW + 20)
    found = plan(world(pods=(pod(tolerations=(EVERYTHING,)), old), nodes=(home(**MARKED),)))
    assert found.pods["default/train"].code is Reason.GPUS_FREED_SOON


def test_a_node_that_is_not_ready_is_counted_on_no_longer_than_a_boot_takes() -> None:
    found = plan(world(pods=(pod(tolerations=(EVERYTHING,)),), nodes=(home(**DOWN),)))
    assert found.wake_at == NOW - 60 + 300


def test_open_nodes_are_taken_before_shut_ones() -> None:
    nodes = (home(**MARKED), node("open"))
    found = plan(world(pods=(pod(tolerations=(EVERYTHING,)), pod("other")), nodes=nodes))
    assert not found.actions
    assert "open" in found.pods["default/other"].message


@pytest.mark.parametrize("phase", [Phase.READY, Phase.DRAINING, Phase.DELETING])
def test_a_shut_node_of_ours_is_no_such_room(phase: Phase) -> None:
    ours = machine(of=A1, phase=phase, surplus=True)
    labels = {"kubernetes.io/hostname": ours.name}
    for there in (CORDONED, MARKED, UNHEARD):
        snapshot = world(
            pods=(pod(tolerations=(EVERYTHING,)),),
            nodes=(node(ours.name, labels=labels, **there),),
            machines=(ours,),
        )
        assert bought(snapshot) == 1


def test_the_node_of_a_switched_machine_that_is_off_is_no_such_room() -> None:
    switch = Switch(name="home", gpus=1)
    snapshot = world(
        policy=policy(pool(), switches=(switch,)),
        offers=(switch.offer, *offers(A1)),
        own={"home": Own(power="off")},
        pods=(pod(tolerations=(EVERYTHING,)),),
        nodes=(home(**DOWN),),
    )
    assert [a.offer.type.name for a in plan(snapshot).actions if isinstance(a, Launch)] == [
        switch.offer.type.name
    ]


def test_headroom_is_not_found_on_shut_nodes() -> None:
    snapshot = world(
        policy=policy(pool(), headroom=(Headroom(pool="a100", gpus=1),)),
        pods=(pod("waits", tolerations=(EVERYTHING,)),),
        nodes=(home(gpus=2, **MARKED),),
    )
    assert bought(snapshot) == 1


@pytest.mark.parametrize(("taints", "launches"), [((), 0), ((Taint(CORDON),), 0)])
def test_rules_about_other_pods_hold_on_shut_nodes_too(taints: tuple[Taint, ...], launches: int) -> None:
    apart = {"anti_affinity": (PodTerm(topology_key=ZONE, selector=Selector(labels={"app": "x"})),)}
    one = pod("one", labels={"app": "x"}, tolerations=(EVERYTHING,), **apart)
    there = home(unschedulable=True, taints=taints)
    assert bought(world(pods=(one,), nodes=(there,))) == launches
    runs = pod("runs", 0, node="home", labels={"app": "x"})
    assert bought(world(pods=(one, runs), nodes=(there,))) == 1


def test_where_pods_are_spread_a_cordoned_node_counts_as_its_taints_say() -> None:
    """The scheduler looks at the taint, which may not be there yet, and not at the mark."""
    evenly = Spread(topology_key=ZONE, max_skew=1, selector=Selector(labels={"app": "x"}), honors_taints=True)
    runs = pod("runs", 0, node="b", labels={"app": "x"})
    asked = pod("asked", labels={"app": "x"}, spreads=(evenly,))
    b = node("b", 1, labels={"kubernetes.io/hostname": "b", ZONE: "b"})
    for taints, code in (((), Reason.LAUNCHING), ((Taint(CORDON),), Reason.FITS_NOW)):
        there = home(unschedulable=True, taints=taints)
        assert plan(world(pods=(runs, asked), nodes=(there, b))).pods["default/asked"].code is code
