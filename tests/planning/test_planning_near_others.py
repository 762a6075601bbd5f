"""Pods that must be near others, which wait as well: whoever comes first in the order of planning, all get their place."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from controller.domain.kube import PodTerm, Selector, Spread
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import placements, plan
from tests.planning.test_planning_verified import hosts
from tests.planning.verifier import objections
from tests.planning.worlds import A1, A2, A100S, machine, node, offers, pod, policy, pool, world

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GANG = {"gpu-autoscaler/gang": "llm", "gpu-autoscaler/gang-size": "2"}
EVENLY = Spread(topology_key=ZONE, max_skew=1, selector=Selector(labels={"app": "s"}))
TRIO = GANG | {"gpu-autoscaler/gang-size": "3"}


def near(app: str, key: str = ZONE) -> dict[str, Any]:
    return {"affinity": (PodTerm(topology_key=key, selector=Selector(labels={"app": app})),)}


def is_(app: str, **more: Any) -> dict[str, Any]:
    return {"labels": {"app": app}} | more


def bought(snapshot: Snapshot) -> list[str]:
    return sorted(a.offer.type.name for a in plan(snapshot).actions if isinstance(a, Launch))


def wrong(snapshot: Snapshot) -> list[str]:
    """What the scheduler would say against the places of this plan."""
    made = placements(snapshot)
    asking = {each.key: each for each in snapshot.pods}
    there, new = hosts(snapshot, made)
    return objections(there, [(asking[one.pod], one.place) for one in made], new=new)


@pytest.mark.parametrize(
    ("pods", "sold", "types"),
    [
        pytest.param(
            (
                pod("a", annotations=GANG, **is_("w", **near("l"))),
                pod("z", annotations=GANG, **is_("l")),
            ),
            (A1,),
            ["1A100.22V", "1A100.22V"],
            id="a member in the location of a later one",
        ),
        pytest.param(
            (
                pod("a", annotations=TRIO, **is_("a", **near("b"))),
                pod("b", annotations=TRIO, **is_("b", **near("c"))),
                pod("c", annotations=TRIO, **is_("c")),
            ),
            (A1,),
            ["1A100.22V", "1A100.22V", "1A100.22V"],
            id="a member near one that is near a third",
        ),
        pytest.param(
            (
                pod("a", 3, annotations=GANG, **is_("w", **near("l", HOST))),
                pod("z", 1, annotations=GANG, **is_("l")),
            ),
            A100S,
            ["4A100.88V"],
            id="a larger member on the host of a smaller one",
        ),
        pytest.param(
            (pod("a", 3, **is_("w", **near("l", HOST))), pod("z", 1, **is_("l"))),
            A100S,
            ["4A100.88V"],
            id="a larger pod on the host of a smaller one",
        ),
        pytest.param(
            (
                pod("a", 5, **is_("a", **near("b", HOST))),
                pod("b", 2, **is_("b", **near("c", HOST))),
                pod("c", **is_("c")),
            ),
            A100S,
            ["8A100.176V"],
            id="three on one host",
        ),
        pytest.param(
            (
                pod("a", annotations=GANG, **is_("w", **near("l"))),
                pod("b", annotations=GANG, **is_("w", **near("l"))),
                pod("z", **is_("l")),
            ),
            (A1,),
            ["1A100.22V", "1A100.22V", "1A100.22V"],
            id="a gang near a pod that is none of it",
        ),
    ],
)
def test_a_pod_near_one_that_is_planned_later_gets_its_machine(
    pods: tuple[Any, ...], sold: tuple[Any, ...], types: list[str]
) -> None:
    for order in permutations(pods):
        snapshot = world(pods=order, offers=offers(*sold))
        assert bought(snapshot) == types
        assert wrong(snapshot) == []


def test_a_gang_of_which_a_member_can_be_near_nobody_is_still_not_bought() -> None:
    pods = (
        pod("a", annotations=TRIO, **is_("a", **near("nobody"))),
        pod("b", annotations=TRIO, **is_("b", **near("c"))),
        pod("c", annotations=TRIO, **is_("c")),
    )
    assert bought(world(pods=pods)) == []


def test_nothing_is_bought_beyond_limits_for_whoever_is_asked_again() -> None:
    pods = (pod("a", 3, **is_("w", **near("l", HOST))), pod("z", 1, **is_("l")))
    assert bought(world(pods=pods, policy=policy(pool(max_gpus=2)))) == ["1A100.22V"]


def at(name: str, gpus: int, zone: str = "FIN-01", **more: Any) -> Any:
    return node(name, gpus, labels={HOST: name, ZONE: zone}, **more)


NEAR_PAIR = (pod("a", 2, **is_("w", **near("l"))), pod("z", **is_("l")))
ONE_LOCATION = GANG | {"gpu-autoscaler/gang-one-location": "true"}
COMING = machine(of=A2, phase=Phase.BOOTING)


@pytest.mark.parametrize(
    ("pods", "there"),
    [
        pytest.param(NEAR_PAIR, {"nodes": (at("n1", 1), at("n2", 2))}, id="both on nodes"),
        pytest.param(NEAR_PAIR, {"nodes": (at("n1", 1),), "machines": (COMING,)}, id="a machine on its way"),
        pytest.param(
            (pod("a", 2, **is_("w", **near("l", HOST))), pod("z", **is_("l"))),
            {"nodes": (at("n1", 4),)},
            id="both on one host",
        ),
        pytest.param(
            (
                pod("a", 2, annotations=GANG, **is_("w", **near("l"))),
                pod("z", annotations=GANG, **is_("l")),
            ),
            {"nodes": (at("n1", 1), at("n2", 2))},
            id="a gang",
        ),
        pytest.param(
            (
                pod("a", 2, annotations=ONE_LOCATION, **is_("w", **near("l"))),
                pod("z", annotations=ONE_LOCATION, **is_("l")),
            ),
            {"nodes": (at("n0", 2, "FIN-02"), at("n1", 1), at("n2", 2))},
            id="a gang in one location",
        ),
        pytest.param(
            (
                pod("a", 4, annotations=GANG, **is_("w", **near("l"))),
                pod("b", 2, annotations=GANG, **is_("w", **near("l"))),
                pod("z", **is_("l")),
            ),
            {"nodes": (at("n1", 1), at("n2", 2), at("n4", 4))},
            id="a gang near a pod that is none of it",
        ),
        pytest.param(
            (
                pod("a", 4, **is_("a", **near("b"))),
                pod("b", 2, **is_("b", **near("c"))),
                pod("c", **is_("c")),
            ),
            {"nodes": (at("n1", 1), at("n2", 2), at("n4", 4))},
            id="near one that is near a third",
        ),
        pytest.param(
            (
                pod("a", 2, **is_("s", spreads=(EVENLY,))),
                pod("b", 2, **is_("s", spreads=(EVENLY,))),
                pod("z", 1, **is_("s", spreads=(EVENLY,))),
            ),
            {"nodes": (at("n1", 1, "FIN-02"), at("n2", 4))},
            id="spread with a smaller one",
        ),
    ],
)
def test_a_pod_near_one_that_gets_a_place_that_exists_gets_one_too(
    pods: tuple[Any, ...], there: dict[str, Any]
) -> None:
    for order in permutations(pods):
        snapshot = world(pods=order, **there)
        assert bought(snapshot) == []
        assert {why.code for why in plan(snapshot).pods.values()} <= {Reason.FITS_NOW, Reason.ON_THE_WAY}
        assert snapshot.machines or wrong(snapshot) == []  # what is on its way is no host yet


def test_a_machine_is_bought_for_whoever_finds_no_place_beside_the_others_still() -> None:
    pods = (*NEAR_PAIR, pod("b", 2, **is_("w", **near("l"))))
    assert bought(world(pods=pods, nodes=(at("n1", 1), at("n2", 2)))) == ["2A100.44V"]
