"""One explanation for every waiting pod and every machine: a stable code, and the number to change."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.kube import NodeTerm, PodTerm, Requirement, Selector, Taint
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, Refusal
from controller.domain.policy import Headroom, Limits
from controller.domain.reason import SENTENCES, Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A8, GIB, NOW, kind, machine, node, offers, pod, policy, pool, world


def why(key: str = "default/train", /, **more: Any) -> Explanation:
    return plan(world(**more)).pods[key]


def test_every_reason_has_a_sentence_and_a_code_in_lower_case_with_underscores() -> None:
    assert set(SENTENCES) == set(Reason)
    assert all(reason.value.replace("_", "").isalpha() and reason.value.islower() for reason in Reason)


def test_the_codes_that_users_depend_on_are_there() -> None:
    binding = (
        "place_taken prediction_wrong surplus no_capacity quota no_funds limit_gpus limit_machines limit_price "
        "too_large selector affinity taint topology volume resources gang_incomplete dra_unsupported paused "
        "not_leader launch_deadline join_deadline gpu_deadline gpu_lost in_use min_size cooldown pdb do_not_disrupt"
    )
    assert set(binding.split()) <= {reason.value for reason in Reason}


@pytest.mark.parametrize(
    ("asked", "world_", "message"),
    [
        (
            {"gpus": 16},
            {},
            "it needs 16 nvidia.com/gpu on one machine; the largest machine that the pools may buy has 8 "
            "(8A100.176V, pool a100): ask for at most 8, or allow larger types",
        ),
        (
            {"gpus": 4},
            {"policy": policy(pool(max_gpus=2))},
            "it needs 4 nvidia.com/gpu on one machine; the largest machine that the pools may buy has 2 "
            "(2A100.44V, pool a100): ask for at most 2, or allow larger types",
        ),
        (
            {"gpus": 0, "requests": {"nvidia.com/mig-1g.10gb": 1}},
            {},
            "it needs 1 nvidia.com/mig-1g.10gb; no machine that the pools may buy has any: declare it under a "
            "pool's resources, or ask for another",
        ),
    ],
)
def test_a_pod_that_can_never_fit_is_told_the_number_that_would_have_to_change(
    asked: dict[str, Any], world_: dict[str, Any], message: str
) -> None:
    assert why(pods=(pod(**asked),), **world_) == Explanation(Reason.TOO_LARGE, message)


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ({"memory": 2000 * GIB}, "even 8A100.176V, the machine of pool a100 that comes closest, is too small: memory: needs 2000Gi, has 935.1Gi"),
        ({"cpu": 200_000}, "even 8A100.176V, the machine of pool a100 that comes closest, is too small: cpu: needs 200, has 176"),
        ({"cpu": 176_500}, "even 8A100.176V, the machine of pool a100 that comes closest, is too small: cpu: needs 176500m, has 176"),
        ({"example.com/x": 1}, "even 1A100.22V, the machine of pool a100 that comes closest, is too small: example.com/x: needs 1, has 0"),
    ],
)  # fmt: skip
def test_a_pod_too_large_beside_its_gpus_is_told_what_the_closest_machine_has(
    requests: dict[str, int], message: str
) -> None:
    assert why(pods=(pod(requests=requests),)) == Explanation(Reason.RESOURCES, message)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"node_selector": {"team": "web"}}, "the pod asks for team=web; machines of pool a100 have team=ml"),
        ({"node_selector": {"disk": "ssd"}}, "the pod asks for disk=ssd; machines of pool a100 have no label disk"),
        ({"required_terms": (NodeTerm((Requirement("team", "NotIn", ("ml",)),)),)}, "the pod asks for team NotIn [ml]; machines of pool a100 have team=ml"),
        ({"required_terms": (NodeTerm((Requirement("a=b", "Exists"),)),)}, "the pod asks for a=b Exists; machines of pool a100 have no label a=b"),
        ({"required_terms": ()}, "the pod asks for a node affinity without any term; it matches no node at all"),
        ({"node_selector": {"kubernetes.io/hostname": "gpu-1"}}, "the pod asks for kubernetes.io/hostname=gpu-1; a new machine has a name of its own, so none is bought for it"),
        ({"required_terms": (NodeTerm(fields=(Requirement("metadata.name", "In", ("gpu-1",)),)),)}, "the pod asks for metadata.name In [gpu-1]; a new machine has a name of its own, so none is bought for it"),
        ({"required_terms": (NodeTerm(labels=(Requirement("x", "Exists"),), fields=(Requirement("metadata.name", "NotIn", ("a",)),)),)}, "the pod asks for x Exists; machines of pool a100 have no label x"),
    ],
)  # fmt: skip
def test_a_selector_that_nothing_matches_names_both_sides(asked: dict[str, Any], message: str) -> None:
    told = why(policy=policy(pool(labels={"team": "ml"})), pods=(pod(**asked),))
    assert told == Explanation(Reason.SELECTOR, message)


def test_a_taint_that_is_not_tolerated_is_named() -> None:
    told = why(policy=policy(pool(taints=(Taint("nvidia.com/gpu", "present"),))), pods=(pod(),))
    assert told == Explanation(
        Reason.TAINT,
        "the pod does not tolerate nvidia.com/gpu=present:NoSchedule, which machines of pool a100 carry",
    )


TAINTED = pool("tainted", taints=(Taint("x"),))
SMALL = pool("small", max_gpus=1)


@pytest.mark.parametrize(
    ("pools", "asked", "code"),
    [
        ((SMALL, TAINTED), {"gpus": 2}, Reason.TAINT),  # one is too small, the other only tainted
        ((SMALL,), {"gpus": 2}, Reason.TOO_LARGE),
        ((SMALL, pool("web", labels={"a": "b"})), {"gpus": 2, "node_selector": {"a": "c"}}, Reason.SELECTOR),
        ((TAINTED, pool("plain")), {"requests": {"cpu": 999_000}}, Reason.RESOURCES),
        ((TAINTED, pool("dear", max_price_per_hour=Decimal("0.01"))), {}, Reason.LIMIT_PRICE),
    ],
)
def test_the_furthest_stage_that_any_machine_reached_is_told(
    pools: Any, asked: dict[str, Any], code: Reason
) -> None:
    assert why(policy=policy(*pools), pods=(pod(**asked),)).code is code


def test_without_pools_without_offers_and_with_offers_that_no_pool_may_buy() -> None:
    assert (
        plan(world(policy=replace(policy(), pools=()), pods=(pod(),))).pods["default/train"].code
        is Reason.NO_POOLS
    )
    assert why(offers=(), pods=(pod(),)).code is Reason.NO_CAPACITY
    none = why(policy=policy(pool("h", gpu_models=("H100",), locations=("FIN-01",))), pods=(pod(),))
    assert none.message == "the catalogue offers nothing that the pools may buy (h): check their types"


@pytest.mark.parametrize(
    ("sold", "refusals", "code", "words"),
    [
        (
            offers(A1, available=False),
            (),
            Reason.NO_CAPACITY,
            "1A100.22V is not available in FIN-01 (on-demand)",
        ),
        (
            offers(A1),
            (Refusal(offer="1A100.22V/FIN-01/on-demand", reason=Reason.QUOTA, until=NOW + 60),),
            Reason.QUOTA,
            "A quota of the cloud project is exhausted; it is tried again later",
        ),
        (offers(replace(A1, images=("x",))), (), Reason.IMAGE_NOT_SUPPORTED, "accepts none of the images"),
    ],
)
def test_what_hinders_a_purchase_now_is_told(sold: Any, refusals: Any, code: Reason, words: str) -> None:
    told = why(offers=sold, refusals=refusals, pods=(pod(),))
    assert told.code is code
    assert words in told.message


def test_every_offer_refused_is_one_clear_explanation_and_no_purchase() -> None:
    sold = offers(A1, A2, A8, locations=("FIN-01", "FIN-02"))
    refused = tuple(Refusal(offer=o.key, reason=Reason.NO_FUNDS, until=NOW + 99) for o in sold)
    decided = plan(world(offers=sold, refusals=refused, pods=(pod("a"), pod("b"))))
    assert decided.actions == ()
    assert {told.code for told in decided.pods.values()} == {Reason.NO_FUNDS}


def test_pods_of_one_kind_are_told_the_same() -> None:
    decided = plan(world(pods=tuple(pod(f"p{n}", 16) for n in range(3))))
    assert len({told.message for told in decided.pods.values()}) == 1


@pytest.mark.parametrize(
    ("one", "code", "words"),
    [
        (machine(phase=Phase.INTENDED), Reason.STARTING, "intended, for no pod in particular"),
        (machine(phase=Phase.BOOTING, pods=("a/b", "c/d")), Reason.STARTING, "booting, for a/b, c/d"),
        (machine(phase=Phase.DRAINING), Reason.DRAINING, "drained"),
        (machine(phase=Phase.DELETING), Reason.DELETING, "deleted"),
        (
            machine(phase=Phase.DRAINING, reason=Reason.IDLE, note="idle since noon"),
            Reason.IDLE,
            "idle since noon",
        ),
        (machine(phase=Phase.DELETING, reason=Reason.JOIN_DEADLINE), Reason.JOIN_DEADLINE, "never joined"),
        (machine(phase=Phase.TOMBSTONE), Reason.UNKNOWN_OUTCOME, "proven never"),
        (machine(phase=Phase.READY), Reason.IN_USE, "its Node is not there"),
    ],
)
def test_every_machine_is_explained_by_its_phase(one: Machine, code: Reason, words: str) -> None:
    told = plan(world(machines=(one,))).machines[one.name]
    assert told.code is code
    assert words in told.message


@pytest.mark.parametrize(
    ("least", "free", "words"),
    [
        (1, 0, "booting, for its pool's minimum"),
        (0, 1, "booting, for its pool's headroom"),
        (1, 1, "booting, for its pool's minimum or headroom"),
        (0, 0, "booting, for no pod in particular"),
    ],
)
def test_a_machine_on_its_way_for_no_pod_is_told_what_asks_for_it(least: int, free: int, words: str) -> None:
    one = machine(phase=Phase.BOOTING)
    rules = policy(pool(min=least), headroom=(Headroom(pool="a100", gpus=free), Headroom(pool="b", gpus=1)))
    assert plan(world(policy=rules, machines=(one,))).machines[one.name].message == words


@pytest.mark.parametrize(
    ("there", "code", "words"),
    [
        ({}, Reason.COOLDOWN, "idle since 08:00:00 UTC; goes after 08:10:00 UTC (scale_down.cooldown)"),
        ({"annotations": {"gpu-autoscaler/idle-since": "2027-01-15T07:49:00Z"}}, Reason.IDLE, "longer than scale_down.cooldown (600 s)"),
    ],
)  # fmt: skip
def test_an_idle_machine_is_told_when_it_goes(there: dict[str, Any], code: Reason, words: str) -> None:
    one = machine()
    told = plan(world(machines=(one,), nodes=(node(one.name, **there),))).machines[one.name]
    assert told.code is code
    assert words in told.message


def test_a_cooldown_of_ages_is_told_too() -> None:
    one = machine()
    decided = plan(world(policy=policy(cooldown=1e12), machines=(one,), nodes=(node(one.name),)))
    assert decided.machines[one.name].code is Reason.COOLDOWN


def test_a_pod_that_gets_a_machine_is_told_which_and_what_it_costs() -> None:
    assert why(pods=(pod(),)).message == (
        "pool a100 launches 1A100.22V in FIN-01 (on-demand, 1.29 an hour) for it"
    )


def test_the_reason_codes_of_limits_stay_apart() -> None:
    codes = [
        why(policy=policy(limits=limits), offers=offers(kind("X", 2, 50, 200, "3")), pods=(pod(),)).code
        for limits in (
            Limits(machines=0),
            Limits(gpus=1),
            Limits(price_per_hour=Decimal(1)),
            Limits(launches_per_minute=0),
        )
    ]
    assert codes == [Reason.LIMIT_MACHINES, Reason.LIMIT_GPUS, Reason.LIMIT_PRICE, Reason.LIMIT_RATE]


def of_pools(asked: dict[str, Any], *pools: Any, **more: Any) -> tuple[Reason, list[str]]:
    found = why(policy=policy(*pools, **more), pods=(pod(**asked),))
    return found.code, found.message.split("; pool ")


def test_of_every_pool_the_nearest_machine_is_told_and_what_is_in_its_way() -> None:
    dear = pool("dear", max_price_per_hour=Decimal("0.01"))
    code, words = of_pools(
        {"gpus": 2}, SMALL, TAINTED, dear, pool("web", labels={"a": "b"}, pause="scale-up")
    )
    assert code is Reason.LIMIT_PRICE
    assert words[0].startswith("2A100.44V costs 2.58 an hour; max_price_per_hour of pool dear is 0.01")
    assert words[1:] == [
        "small: its largest machine has 1 nvidia.com/gpu (1A100.22V)",
        "tainted: the pod does not tolerate x:NoSchedule, which machines of pool tainted carry",
        "web: scale-up of pool web is paused",
    ]


def test_a_limit_of_all_is_told_once_and_what_else_rules_a_pool_out_beside_it() -> None:
    limits = Limits(gpus=1)
    code, words = of_pools({"gpus": 2}, pool("a"), pool("b"), SMALL, limits=limits)
    assert code is Reason.LIMIT_GPUS
    assert len(words) == 2
    assert words[1] == "small: its largest machine has 1 nvidia.com/gpu (1A100.22V)"


def test_a_full_pool_and_another_that_is_too_small() -> None:
    full = pool("full", max=0)
    code, words = of_pools({"gpus": 2}, full, SMALL)
    assert code is Reason.LIMIT_MACHINES
    assert words[0].startswith("pool full has 0 of at most 0 machines")
    assert words[1].startswith("small: its largest machine has 1")


def test_a_pool_for_which_nothing_is_sold_is_named_and_many_pools_are_counted() -> None:
    gone = [pool(f"gone-{n}", instance_types=("X",)) for n in range(6)]
    code, words = of_pools({"gpus": 16}, pool("a"), *gone)
    assert code is Reason.TOO_LARGE
    assert words[2] == "gone-1: the catalogue offers nothing that it may buy"
    assert words[-1].endswith("; 2 more pools do not help either")


def test_beside_a_pool_for_which_nothing_is_sold_the_largest_machine_of_all_is_told() -> None:
    pools = (pool("a", max_gpus=2), pool("none", gpu_models=("B300",)))
    told = why(pods=(pod(gpus=4),), policy=policy(*pools)).message
    assert told.startswith(
        "it needs 4 nvidia.com/gpu on one machine; the largest machine that the pools may buy has 2 (2A100.44V, pool a): "
    )
    slices = why(pods=(pod(gpus=0, requests={"nvidia.com/mig-1g.10gb": 1}),), policy=policy(*pools)).message
    assert slices.startswith("it needs 1 nvidia.com/mig-1g.10gb; no machine that the pools may buy has any")


def test_the_values_that_a_label_has_in_a_pool_are_told() -> None:
    told = why(
        offers=offers(A1, locations=("FIN-01", "FIN-03")),
        pods=(pod(node_selector={"topology.kubernetes.io/zone": "x"}),),
    )
    assert told.message == (
        "the pod asks for topology.kubernetes.io/zone=x; "
        "machines of pool a100 have topology.kubernetes.io/zone=FIN-01, FIN-03"
    )


ZONE, TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
APART = (*offers(A1, locations=("FIN-01",)), *offers(A2, locations=("FIN-02",)))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"node_selector": {ZONE: "FIN-01", TYPE: A2.name}},
            f"the pod asks for {TYPE}={A2.name}; machines of pool a100 with {ZONE}=FIN-01 have {TYPE}={A1.name}",
        ),
        (
            {"node_selector": {ZONE: "FIN-02", TYPE: A2.name, "disk": "ssd"}},
            f"the pod asks for disk=ssd; machines of pool a100 with {TYPE}={A2.name} and {ZONE}=FIN-02 have no label disk",
        ),
        (
            {"node_selector": {"disk": "ssd"}, "required_terms": (NodeTerm((Requirement(ZONE, "In", ("x",)),)),)},
            f"the pod asks for disk=ssd and {ZONE} In [x]; machines of pool a100 have no label disk and {ZONE}=FIN-01, FIN-02",
        ),
        (
            {"required_terms": (NodeTerm((Requirement(ZONE, "In", ("FIN-02",)), Requirement("disk", "Exists"))), NodeTerm((Requirement(ZONE, "In", ("x",)), Requirement("disk", "Exists"))))},
            "the pod asks for disk Exists; machines of pool a100 have no label disk",
        ),
        (
            {"node_selector": {ZONE: "x"}, "required_terms": (NodeTerm(),)},
            "the pod asks for a node affinity without any term; it matches no node at all",
        ),
    ],
)  # fmt: skip
def test_of_several_conditions_those_are_told_that_the_nearest_machine_does_not_meet(
    asked: dict[str, Any], message: str
) -> None:
    assert why(offers=APART, pods=(pod(**asked),)) == Explanation(Reason.SELECTOR, message)


def test_what_is_sold_out_where_other_pods_want_it_is_told_as_that() -> None:
    labels = {"app": "w"}
    there = node("c", 0, labels={"kubernetes.io/hostname": "c", "topology.kubernetes.io/zone": "FIN-01"})
    near = PodTerm(topology_key="topology.kubernetes.io/zone", selector=Selector(labels=labels))
    sold_out = Refusal(offer="1A100.22V/FIN-01/on-demand", reason=Reason.NO_CAPACITY, until=NOW + 9)
    told = why(
        offers=offers(A1, locations=("FIN-01", "FIN-02")),
        refusals=(sold_out,),
        pods=(pod("run", 0, node="c", labels=labels), pod(affinity=(near,))),
        nodes=(there,),
    )
    assert told.code is Reason.NO_CAPACITY
    assert "1A100.22V in FIN-01" in told.message
