"""Who is left out where limits leave room for some pods only: never who has waited for longer than another like it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.domain.kube import PodTerm, Selector, Spread
from controller.domain.plan import Launch, Plan
from controller.domain.policy import Limits, NamespaceLimit, Policy
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, NOW, offers, pod, policy, pool, world

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WEB = {"app": "web"}
APART = {"labels": WEB, "anti_affinity": (PodTerm(topology_key=HOST, selector=Selector(labels=WEB)),)}
SPREAD = {"labels": WEB, "spreads": (Spread(topology_key=HOST, selector=Selector(labels=WEB)),)}
NEAR = {"labels": WEB, "affinity": (PodTerm(topology_key=ZONE, selector=Selector(labels=WEB)),)}
RULES: dict[str, dict[str, Any]] = {"": {}, "apart": APART, "spread": SPREAD}


def served(decided: Plan) -> list[str]:
    return sorted(key.partition("/")[2] for a in decided.actions if isinstance(a, Launch) for key in a.pods)


@pytest.mark.parametrize(
    "limited",
    [
        policy(limits=Limits(gpus=1)),
        policy(limits=Limits(machines=1)),
        policy(limits=Limits(cores=22)),
        policy(limits=Limits(price_per_hour=Decimal("1.29"))),
        policy(limits=Limits(price_per_hour=Decimal("1.29")), strategy="cheapest"),
        policy(limits=Limits(launches_per_minute=1)),
        policy(pool(max=1)),
        policy(namespaces={"default": NamespaceLimit(gpus=1)}),
    ],
)
@pytest.mark.parametrize("young", [{}, {"requests": {"cpu": 2000}}, APART, SPREAD, NEAR])
def test_the_pod_that_waits_for_longer_is_served_whatever_the_other_asks_for(
    limited: Policy, young: dict[str, Any]
) -> None:
    pods = (pod("young", **young), pod("old", created=NOW - 9000))
    assert served(plan(world(policy=limited, offers=offers(A1), pods=pods))) == ["old"]


@pytest.mark.parametrize(
    ("young", "expected"),
    [
        ({"priority": 1}, ["older", "young"]),
        ({"gpus": 2}, ["young"]),
        ({"annotations": {"gpu-autoscaler/gang": "g", "gpu-autoscaler/gang-size": "1"}}, ["older", "young"]),
        ({"requests": {"cpu": 2000}}, ["old", "older"]),
    ],
)
def test_priority_gangs_and_gpus_come_before_age(young: dict[str, Any], expected: list[str]) -> None:
    pods = (pod("young", **young), pod("old", created=NOW - 8000), pod("older", created=NOW - 9000))
    limited = policy(limits=Limits(gpus=2))
    assert served(plan(world(policy=limited, offers=offers(A1, A2), pods=pods))) == expected


def test_nobody_is_served_first_for_whom_more_pods_would_be_left_out() -> None:
    old = pod("old", created=NOW - 9000, node_selector={"node.kubernetes.io/instance-type": A1.name})
    others = tuple(pod(f"p{n}", requests={"cpu": 20_000}) for n in range(4))
    limited = policy(limits=Limits(machines=1))
    decided = plan(world(policy=limited, offers=offers(A1, A4), pods=(old, *others)))
    assert served(decided) == ["p0", "p1", "p2", "p3"]
    assert decided.pods["default/old"].code is Reason.LIMIT_MACHINES


@pytest.mark.parametrize("limit", [Limits(machines=2), Limits(gpus=4)])
@pytest.mark.parametrize("rules", [{}, NEAR])
def test_those_whose_turn_it_is_are_packed_as_well_as_if_nobody_else_waited(
    limit: Limits, rules: dict[str, Any]
) -> None:
    sizes = (10_000, 10_000, 30_000, 30_000)  # one by one, these would need three machines
    old = tuple(
        pod(f"p{n}", created=NOW - 9000 + n, requests={"cpu": cpu}, **rules) for n, cpu in enumerate(sizes)
    )
    young = tuple(pod(f"young{n}", requests={"cpu": 31_000}, **rules) for n in range(3))
    decided = plan(world(policy=policy(limits=limit), offers=offers(A2), pods=(*old, *young)))
    assert served(decided) == ["p0", "p1", "p2", "p3"]


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    pods=st.lists(
        st.tuples(
            st.integers(0, 2),  # priority
            st.integers(10, 9000),  # age
            st.integers(1, 20),  # CPUs
            st.sampled_from(sorted(RULES)),  # rules about other pods
            st.sampled_from(["team-a", "team-b"]),
        ),
        max_size=8,
    ),
    room=st.integers(0, 5),
    each=st.booleans(),
)
def test_of_pods_that_need_a_machine_each_the_first_in_line_are_served_and_no_other(
    pods: list[tuple[int, int, int, str, str]], room: int, each: bool
) -> None:
    """`each`: the limit is one of each namespace, not of all."""
    waiting = tuple(
        pod(
            f"p{n}",
            namespace=space,
            priority=urgent,
            created=NOW - age,
            requests={"cpu": 1000 * cpu},
            **RULES[rule],
        )
        for n, (urgent, age, cpu, rule, space) in enumerate(pods)
    )
    limit = (
        policy(namespaces=dict.fromkeys(("team-a", "team-b"), NamespaceLimit(gpus=room)))
        if each
        else policy(limits=Limits(gpus=room))
    )
    line = sorted(waiting, key=lambda one: (-one.shape.priority, one.created, one.key))
    lines = [[one for one in line if not each or one.namespace == space] for space in ("team-a", "team-b")]
    expected = {one.name for of in (lines if each else lines[:1]) for one in of[:room]}
    assert set(served(plan(world(policy=limit, offers=offers(A1), pods=waiting)))) == expected
