"""Rows of the cases that every autoscaler must get right: fit, choice, topology and volumes, as literals."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controller.domain.kube import (
    HostPort,
    Namespace,
    NodeTerm,
    Pod,
    PodTerm,
    PodVolume,
    PreferredTerm,
    Requirement,
    Selector,
    Spread,
    StorageClass,
    Taint,
    Toleration,
    Volume,
    VolumeClaim,
)
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Snapshot
from controller.domain.policy import Limits
from controller.domain.reason import Reason
from controller.planning.feasible import feasible_nodes
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, GIB, NOW, machine, node, offers, pod, policy, pool, world

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = Selector(labels={"app": "web"})
ZONES = ("FIN-01", "FIN-02", "FIN-03")


def launches(snapshot: Snapshot) -> list[Launch]:
    return [action for action in plan(snapshot).actions if isinstance(action, Launch)]


def places(snapshot: Snapshot) -> dict[str, int]:
    found: Counter[str] = Counter()
    for launch in launches(snapshot):
        found[launch.offer.location] += len(launch.pods)
    return dict(sorted(found.items()))


def code(snapshot: Snapshot, key: str = "default/train") -> Reason:
    return plan(snapshot).pods[key].code


def several(number: int, **more: Any) -> tuple[Pod, ...]:
    return tuple(pod(f"p{n}", labels={"app": "web"}, **more) for n in range(number))


def spread(key: str, **more: Any) -> dict[str, Any]:
    return {"spreads": (Spread(topology_key=key, selector=WEB, **more),)}


def anti(key: str, **more: Any) -> dict[str, Any]:
    return {"anti_affinity": (PodTerm(topology_key=key, selector=WEB, **more),)}


def near(key: str, **more: Any) -> dict[str, Any]:
    return {"affinity": (PodTerm(topology_key=key, selector=WEB, **more),)}


def placed(name: str, zone: str, gpus: int = 8, **more: Any) -> Any:
    return node(name, gpus, labels={HOST: name, ZONE: zone}, cpu=176, memory=900, **more)


SOLD = offers(A1, A2, A4, locations=ZONES)


@pytest.mark.parametrize(
    ("second", "bought"), [({}, 0), ({"gpus": 4}, 1), ({"node_selector": {"x": "y"}}, 0)]
)
def test_case_08_a_second_pod_that_fits_the_machine_on_its_way_buys_nothing(
    second: dict[str, Any], bought: int
) -> None:
    coming = machine(of=A2, phase=Phase.BOOTING, pods=("default/first",))
    assert len(launches(world(machines=(coming,), pods=(pod("first"), pod("second", **second))))) == bought


@pytest.mark.parametrize(("zone", "bought"), [("FIN-01", []), ("FIN-02", [("FIN-02", ("default/second",))])])
def test_case_08_a_second_pod_whose_selector_conflicts_gets_a_machine_of_its_own(
    zone: str, bought: list[tuple[str, tuple[str, ...]]]
) -> None:
    coming = machine(of=A2, phase=Phase.BOOTING, pods=("default/first",), location="FIN-01")
    pods = (pod("first"), pod("second", node_selector={ZONE: zone}))
    found = launches(world(machines=(coming,), offers=SOLD, pods=pods))
    assert [(a.offer.location, a.pods) for a in found] == bought


def test_case_14_free_capacity_on_a_node_of_others_is_used_first() -> None:
    ready = machine(of=A1)
    decided = plan(world(machines=(ready,), nodes=(node(ready.name), node("theirs")), pods=(pod(),)))
    assert "theirs" in decided.pods["default/train"].message


def test_case_18_a_selector_on_the_hostname_of_no_node_never_buys() -> None:
    assert code(world(pods=(pod(node_selector={HOST: "nobody"}),))) is Reason.SELECTOR


def test_case_20_preferences_give_way_and_prefer_no_schedule_gives_way_last() -> None:
    wish = PreferredTerm(10, NodeTerm((Requirement(ZONE, "In", ("FIN-02",)),)))
    assert places(world(offers=SOLD, pods=(pod(preferred_terms=(wish,)),))) == {"FIN-02": 1}
    nowhere = PreferredTerm(10, NodeTerm((Requirement(ZONE, "In", ("ICE-01",)),)))
    assert len(launches(world(offers=SOLD, pods=(pod(preferred_terms=(nowhere,)),)))) == 1
    soft = Taint("slow", effect="PreferNoSchedule")
    pools = (pool("a", taints=(soft,)), pool("b"))
    assert [a.pool for a in launches(world(policy=policy(*pools), pods=(pod(),)))] == ["b"]
    assert [a.pool for a in launches(world(policy=policy(pools[0]), pods=(pod(),)))] == ["a"]


def prefers(*weights: tuple[int, str]) -> dict[str, Any]:
    """Each a weight and the locations that it is for, with blanks between."""
    return {
        "preferred_terms": tuple(
            PreferredTerm(weight, NodeTerm((Requirement(ZONE, "In", tuple(zones.split())),)))
            for weight, zones in weights
        )
    }


@pytest.mark.parametrize(
    ("weights", "sold", "expected"),
    [
        (((100, "FIN-03"), (50, "FIN-02")), "FIN-01 FIN-02 FIN-03", "FIN-03"),
        (((50, "FIN-02"), (100, "FIN-03")), "FIN-01 FIN-02 FIN-03", "FIN-03"),
        (((100, "FIN-03"), (50, "FIN-02")), "FIN-01 FIN-02", "FIN-02"),
        (((100, "ICE-01"), (50, "FIN-03"), (20, "FIN-02")), "FIN-01 FIN-02", "FIN-02"),
        (((100, "ICE-01"), (50, "FIN-03")), "FIN-01 FIN-02", "FIN-01"),
        (((60, "FIN-03"), (40, "FIN-02"), (30, "FIN-02")), "FIN-01 FIN-02 FIN-03", "FIN-02"),
        (((60, "FIN-03"), (40, "FIN-02"), (20, "FIN-02")), "FIN-02 FIN-01 FIN-03", "FIN-02"),
        (((60, "FIN-02 FIN-03"), (10, "FIN-03 FIN-01")), "FIN-01 FIN-02 FIN-03", "FIN-03"),
        (((60, "FIN-02 FIN-03"), (10, "FIN-01")), "FIN-01 FIN-03", "FIN-03"),
        ((*((100 - n, f"ICE-{n}") for n in range(12)), (1, "FIN-02")), "FIN-01 FIN-02", "FIN-02"),
    ],
)
def test_case_20_of_several_preferences_those_count_that_can_be_met_by_the_sum_of_their_weights(
    weights: tuple[tuple[int, str], ...], sold: str, expected: str
) -> None:
    zones = tuple(sold.split())
    there = offers(A1, locations=zones)
    gone = offers(A1, locations=tuple({"FIN-03", "ICE-01"} - set(zones)), available=False)
    asking = pod(**prefers(*weights))
    assert places(world(offers=there + gone, pods=(asking,))) == {expected: 1}
    nodes = tuple(placed(f"n{number}", zone) for number, zone in enumerate(zones))
    decided = plan(world(nodes=nodes, pods=(asking,)))
    name = next(node.name for node in nodes if node.labels[ZONE] == expected)
    assert f"node {name} has room" in decided.pods["default/train"].message


def test_case_20_a_pod_goes_where_the_scheduler_puts_it_and_leaves_the_other_node_to_who_needs_it() -> None:
    nodes = (placed("a", "FIN-01", 1), placed("b", "FIN-02", 1))
    first = pod("p1", requests={"cpu": 2000}, **prefers((100, "FIN-03"), (50, "FIN-02")))
    snapshot = world(nodes=nodes, pods=(first, pod("p2", node_selector={ZONE: "FIN-01"})))
    assert launches(snapshot) == []


def test_case_20_no_sum_of_preferences_outweighs_prefer_no_schedule() -> None:
    soft = (Taint("slow", effect="PreferNoSchedule"),)
    nodes = (placed("a", "FIN-01"), placed("b", "FIN-02", taints=soft))
    decided = plan(world(nodes=nodes, pods=(pod(**prefers((100, "FIN-02"), (50, "FIN-02"))),)))
    assert "node a has room" in decided.pods["default/train"].message


@pytest.mark.parametrize(
    ("ports", "fits"),
    [
        ((HostPort(80),), False),
        ((HostPort(80, "UDP"),), True),
        ((HostPort(81),), True),
        ((HostPort(80, "TCP", "10.0.0.1"),), False),
    ],
)
def test_case_25_host_ports(ports: tuple[HostPort, ...], fits: bool) -> None:
    there = pod("there", 0, node="gpu-1", host_ports=(HostPort(80),))
    asking = pod(host_ports=ports)
    assert feasible_nodes(world(nodes=(node(),), pods=(there, asking)), asking) == (
        ("gpu-1",) if fits else ()
    )


def test_case_25_pods_with_one_host_port_go_to_different_machines() -> None:
    pods = several(2, host_ports=(HostPort(80),))
    assert [len(a.pods) for a in launches(world(offers=offers(A2), pods=pods))] == [1, 1]


def test_case_30_a_gpu_limit_of_one_and_only_two_gpu_types_buys_nothing() -> None:
    assert (
        code(world(policy=policy(limits=Limits(gpus=1)), offers=offers(A2), pods=(pod(),)))
        is Reason.LIMIT_GPUS
    )


def test_case_35_zone_spread_with_skew_one_alternates_over_locations() -> None:
    assert places(world(offers=SOLD, pods=several(6, **spread(ZONE)))) == dict.fromkeys(ZONES, 2)
    assert sorted(places(world(offers=SOLD, pods=several(4, **spread(ZONE)))).values()) == [1, 1, 2]


def test_case_35_hostname_spread_is_a_node_each() -> None:
    assert [len(a.pods) for a in launches(world(offers=offers(A4), pods=several(3, **spread(HOST))))] == [
        1,
        1,
        1,
    ]


def test_case_35_schedule_anyway_gives_way() -> None:
    sold = offers(A4, locations=("FIN-01",))
    assert places(world(offers=sold, pods=several(3, **spread(HOST, hard=False)))) == {"FIN-01": 3}


def test_case_35_min_domains_unmet_leaves_pods_out() -> None:
    sold = offers(A1, locations=("FIN-01", "FIN-02"))
    decided = plan(world(offers=sold, pods=several(3, **spread(ZONE, min_domains=3))))
    assert Counter(why.code for why in decided.pods.values()) == {Reason.LAUNCHING: 2, Reason.TOPOLOGY: 1}


@pytest.mark.parametrize(
    ("other", "allowed"),
    [
        ({}, ("b",)),
        ({"phase": "Succeeded"}, ("a", "b")),
        ({"deleting_at": NOW + 5}, ("a", "b")),
        ({"labels": {"app": "db"}}, ("a", "b")),
        ({"namespace": "other"}, ("a", "b")),
    ],
)
def test_case_36_only_matching_running_pods_count(other: dict[str, Any], allowed: tuple[str, ...]) -> None:
    nodes = (placed("a", "FIN-01"), placed("b", "FIN-02"))
    there = pod("there", 0, node="a", **({"labels": {"app": "web"}} | other))
    asking = pod(labels={"app": "web"}, **spread(ZONE))
    assert feasible_nodes(world(nodes=nodes, pods=(there, asking)), asking) == allowed


def test_case_37_hostname_anti_affinity_of_n_pods_is_n_nodes() -> None:
    assert [len(a.pods) for a in launches(world(offers=offers(A4), pods=several(5, **anti(HOST))))] == [1] * 5


def test_case_37_inverse_anti_affinity_of_pods_that_run_is_respected() -> None:
    there = pod("there", 0, node="a", **anti(ZONE))
    asking = pod(labels={"app": "web"})
    nodes = (placed("a", "FIN-01"), placed("b", "FIN-02"))
    assert feasible_nodes(world(nodes=nodes, pods=(there, asking)), asking) == ("b",)
    assert "FIN-01" not in places(world(nodes=nodes[:1], offers=SOLD, pods=(there, asking)))


def test_case_37_affinity_to_a_pod_that_does_not_exist_buys_nothing() -> None:
    assert code(world(pods=(pod(**near(ZONE)),))) is Reason.AFFINITY


def test_case_37_self_affinity_opens_one_domain() -> None:
    found = places(world(offers=SOLD, pods=several(5, **near(ZONE))))
    assert list(found.values()) == [5]


def test_case_37_affinity_goes_where_the_other_pod_is() -> None:
    there = pod("there", 0, node="cpu", labels={"app": "web"})
    snapshot = world(nodes=(placed("cpu", "FIN-03", 0),), offers=SOLD, pods=(there, pod(**near(ZONE))))
    assert places(snapshot) == {"FIN-03": 1}


@pytest.mark.parametrize(
    ("term", "nodes"),
    [
        ({}, ()),
        ({"namespaces": ("team",)}, ("a",)),
        ({"namespace_selector": Selector()}, ("a",)),
        ({"namespace_selector": Selector(labels={"kind": "ml"})}, ("a",)),
        ({"namespace_selector": Selector(labels={"kind": "web"})}, ()),
    ],
)
def test_case_37_namespace_selectors(term: dict[str, Any], nodes: tuple[str, ...]) -> None:
    there = pod("there", 0, node="a", namespace="team", labels={"app": "web"})
    asking = pod(**near(ZONE, **term))
    snapshot = world(
        nodes=(placed("a", "FIN-01"), placed("b", "FIN-02")),
        pods=(there, asking),
        namespaces=(Namespace(name="team", labels={"kind": "ml"}), Namespace(name="default")),
    )
    assert feasible_nodes(snapshot, asking) == nodes


def claimed(**more: Any) -> dict[str, Any]:
    return {"volume_claims": (VolumeClaim(**({"namespace": "default", "name": "data"} | more)),)}


def at(zone: str, **more: Any) -> Volume:
    return Volume(name="pv", terms=(NodeTerm((Requirement(ZONE, "In", (zone,)),)),), **more)


DATA = {"volumes": (PodVolume(claim="data"),)}


def test_case_38_a_bound_volume_pins_its_location() -> None:
    snapshot = world(
        offers=SOLD, pods=(pod(**DATA),), volumes=(at("FIN-02"),), **claimed(phase="Bound", volume="pv")
    )
    assert places(snapshot) == {"FIN-02": 1}


def test_case_38_a_volume_where_nothing_is_sold_is_told() -> None:
    snapshot = world(
        offers=SOLD, pods=(pod(**DATA),), volumes=(at("ICE-01"),), **claimed(phase="Bound", volume="pv")
    )
    assert code(snapshot) is Reason.VOLUME


def test_case_38_allowed_topologies_of_a_storage_class_pin() -> None:
    fast = StorageClass(
        name="fast",
        provisioner="csi",
        waits_for_consumer=True,
        allowed=(NodeTerm((Requirement(ZONE, "In", ("FIN-03",)),)),),
    )
    snapshot = world(
        offers=SOLD, pods=(pod(**DATA),), storage_classes=(fast,), **claimed(storage_class="fast")
    )
    assert places(snapshot) == {"FIN-03": 1}


def test_case_38_a_local_volume_of_a_host_that_is_gone_ignores_the_hostname() -> None:
    local = Volume(name="pv", local=True, terms=(NodeTerm((Requirement(HOST, "In", ("gone",)),)),))
    snapshot = world(pods=(pod(**DATA),), volumes=(local,), **claimed(phase="Bound", volume="pv"))
    assert len(launches(snapshot)) == 1


@pytest.mark.parametrize(
    "claim",
    [
        {"name": "other"},
        {"phase": "Lost"},
        {"phase": "Bound", "volume": "pv", "deleting": True},
        {"phase": "Pending", "storage_class": "unknown"},
    ],
)
def test_case_38_a_claim_that_is_missing_going_or_lost_buys_nothing(claim: dict[str, Any]) -> None:
    snapshot = world(pods=(pod(**DATA),), volumes=(at("FIN-01"),), **claimed(**claim))
    assert code(snapshot) is Reason.VOLUME
    assert launches(snapshot) == []


def test_case_38_one_bad_claim_does_not_stop_the_others() -> None:
    snapshot = world(pods=(pod(**DATA), pod("fine")))
    assert [a.pods for a in launches(snapshot)] == [("default/fine",)]


def test_case_19_compatible_pods_share_and_others_split() -> None:
    open_ = Toleration("", "Exists")
    pods = (
        pod("a", node_selector={ZONE: "FIN-01"}),
        pod("b", node_selector={ZONE: "FIN-02"}),
        pod("c", tolerations=(open_,)),
    )
    assert len(launches(world(offers=offers(A2, locations=ZONES), pods=pods))) == 2


def test_case_28_many_small_pods_are_still_the_smallest_set() -> None:
    pods = several(3)
    assert [len(a.pods) for a in launches(world(offers=offers(A1, A2, A4), pods=pods))] == [1, 1, 1]
    assert sum(a.offer.type.gpus for a in launches(world(offers=offers(A2, A4), pods=pods))) == 4


def test_case_17_numbers_are_compared_and_values_outside_the_pool_never_match() -> None:
    def on(operator: str, *values: str) -> Reason:
        term = NodeTerm((Requirement("nvidia.com/gpu.memory", operator, values),))
        return code(world(pods=(pod(required_terms=(term,)),)))

    assert on("Gt", "80000") is Reason.LAUNCHING
    assert on("Lt", "80000") is Reason.SELECTOR
    assert on("In", "1") is Reason.SELECTOR


@pytest.mark.parametrize(
    ("operator", "value", "buys"),
    [
        ("In", "x", False),
        ("Exists", "", False),
        ("NotIn", "x", True),
        ("DoesNotExist", "", True),
        ("Gt", "0", False),
        ("Lt", "9", False),
    ],
)
def test_case_17_an_undefined_key_meets_only_what_asks_for_its_absence(
    operator: str, value: str, buys: bool
) -> None:
    condition = Requirement("nobody/says", operator, (value,) if value else ())
    asking = pod(required_terms=(NodeTerm((condition,)),))
    assert code(world(pods=(asking,))) is (Reason.LAUNCHING if buys else Reason.SELECTOR)
    there = world(nodes=(node(),), pods=(asking,))
    assert feasible_nodes(there, asking) == (("gpu-1",) if buys else ())


@pytest.mark.parametrize(
    ("operator", "value", "buys"),
    [
        ("Gt", "81919", True),
        ("Gt", "81920", False),
        ("Gte", "81920", True),
        ("Gte", "81921", False),
        ("Lt", "81921", True),
        ("Lt", "81920", False),
        ("Lte", "81920", True),
        ("Lte", "81919", False),
        ("Gt", "much", False),
        ("Lt", "9e9", False),
    ],
)
def test_case_17_bounds_include_their_value_or_not(operator: str, value: str, buys: bool) -> None:
    term = NodeTerm((Requirement("nvidia.com/gpu.memory", operator, (value,)),))
    expected = Reason.LAUNCHING if buys else Reason.SELECTOR
    assert code(world(pods=(pod(required_terms=(term,)),))) is expected


def test_case_20_of_required_terms_any_one_is_enough_and_the_last_one_stays() -> None:
    terms = [NodeTerm((Requirement(ZONE, "In", (zone,)),)) for zone in ("ICE-01", "FIN-09", "FIN-02")]
    sold = offers(A1, locations=ZONES)
    for some in (terms, terms[::-1], terms[2:]):
        assert places(world(offers=sold, pods=(pod(required_terms=tuple(some)),))) == {"FIN-02": 1}
    assert code(world(offers=sold, pods=(pod(required_terms=tuple(terms[:2])),))) is Reason.SELECTOR
    assert code(world(offers=sold, pods=(pod(required_terms=(NodeTerm(),)),))) is Reason.SELECTOR


def test_case_24_a_pod_bigger_than_any_type_is_told_so() -> None:
    assert code(world(pods=(pod(requests={"memory": 5000 * GIB}),))) is Reason.RESOURCES


@pytest.mark.parametrize(("overshoot", "bought"), [(0, []), (1, ["2A100.44V"]), (7, ["2A100.44V"])])
def test_a_pod_gets_no_larger_machine_merely_because_the_small_one_is_sold_out(
    overshoot: int, bought: list[str]
) -> None:
    sold = (*offers(A1, available=False), *offers(A2, A4))
    snapshot = world(policy=policy(max_overshoot=overshoot), offers=sold, pods=(pod(),))
    assert [a.offer.type.name for a in launches(snapshot)] == bought
    if not bought:
        told = plan(snapshot).pods["default/train"]
        assert told.code is Reason.NO_CAPACITY
        assert "max_overshoot to at least 1" in told.message


def test_pods_that_fill_a_larger_machine_together_get_it() -> None:
    sold = (*offers(A1, available=False), *offers(A2, A4))
    assert [a.offer.type.name for a in launches(world(offers=sold, pods=several(2)))] == ["2A100.44V"]


def test_priority_follows_the_list_of_pools() -> None:
    pools = (pool("a"), pool("b"))
    snapshot = world(policy=policy(*pools, strategy="priority", priorities=("b",)), pods=(pod(),))
    assert [a.pool for a in launches(snapshot)] == ["b"]


def test_case_34_a_gang_that_cannot_be_completed_buys_nothing_and_leaves_its_places_to_others() -> None:
    gang = {"gpu-autoscaler/gang": "g", "gpu-autoscaler/gang-size": "3"}
    members = tuple(pod(f"g{n}", annotations=gang, priority=5) for n in range(3))
    snapshot = world(
        policy=policy(limits=Limits(machines=1, gpus=1)),
        offers=offers(A1),
        nodes=(node(),),
        pods=(*members, pod("alone")),
    )
    decided = plan(snapshot)
    assert {decided.pods[p.key].code for p in members} == {Reason.GANG_INCOMPLETE}
    assert decided.pods["default/alone"].code is Reason.FITS_NOW
    assert launches(snapshot) == []
    assert "only 2 would get a place" in decided.pods["default/g0"].message
