"""What pods are told that the spread of their siblings keeps without a machine, most of which the same plan buys."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.kube import PodTerm, Selector, Spread
from controller.domain.plan import Launch
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, node, offers, pod, policy, pool, world

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
MINE = Selector(labels={"app": "x"})
APART = {"anti_affinity": (PodTerm(topology_key=HOST, selector=MINE),)}
GANG = {"annotations": {"gpu-autoscaler/gang": "g", "gpu-autoscaler/gang-size": "3"}}
UNEVEN = f"one more pod would exceed maxSkew 1 over {ZONE}"


def spread(**more: Any) -> dict[str, Any]:
    return {"spreads": (Spread(**({"topology_key": ZONE, "max_skew": 1, "selector": MINE} | more)),)}


HOME = node("home", 0, labels={HOST: "home", ZONE: "home"})


@pytest.mark.parametrize(
    ("asked", "nodes", "locations", "launches", "words"),
    [
        (spread(), (HOME,), ("FIN-01",), 1, UNEVEN),
        (spread(), (HOME,), ("FIN-01", "FIN-02"), 2, UNEVEN),
        (spread() | APART, (HOME,), ("FIN-01",), 1, UNEVEN),
        (spread(min_domains=3), (), ("FIN-01", "FIN-02"), 2, f"{UNEVEN} (minDomains 3)"),
        (spread() | GANG, (HOME,), ("FIN-01",), 0, UNEVEN),
    ],
)
def test_a_pod_is_told_of_the_spread_that_its_siblings_used_up(
    asked: dict[str, Any], nodes: tuple[Any, ...], locations: tuple[str, ...], launches: int, words: str
) -> None:
    pods = tuple(pod(f"p{n}", labels={"app": "x"}, **asked) for n in range(3))
    found = plan(world(pods=pods, nodes=nodes, offers=offers(A1, locations=locations)))
    assert sum(isinstance(action, Launch) for action in found.actions) == launches
    assert words in found.pods["default/p2"].message
    code = Reason.TOPOLOGY if "annotations" not in asked else Reason.GANG_INCOMPLETE
    assert found.pods["default/p2"].code is code


def test_whoever_a_limit_keeps_without_a_machine_is_told_of_the_limit_and_not_of_a_spread() -> None:
    pods = tuple(pod(f"p{n}", labels={"app": "x"}, **spread(max_skew=3)) for n in range(3))
    found = plan(world(pods=pods, nodes=(HOME,), policy=policy(pool(max=2)), offers=offers(A1)))
    assert "max" in found.pods["default/p2"].message
    assert found.pods["default/p2"].code is not Reason.TOPOLOGY


def test_explaining_leaves_the_plan_as_it_was() -> None:
    """What is planned is put on the board for the explanations, and taken off before the price is weighed."""
    some = tuple(pod(f"p{n}", labels={"app": "x"}, **spread()) for n in range(2))
    others = tuple(pod(f"q{n}", labels={"app": "y"}) for n in range(5))
    rules: dict[str, Any] = {"policy": policy(pool(), strategy="cheapest"), "offers": offers(A1)}
    served = plan(world(pods=(some[0], *others), nodes=(HOME,), **rules))
    found = plan(world(pods=(*some, *others), nodes=(HOME,), **rules))
    assert found.actions == served.actions
    assert found.price_floor is not None
