"""The workloads are what they say they are."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from controller.domain.resources import GPU
from controller.sandbox.bench.planner import gpu, karpenter
from controller.sandbox.bench.planner.workload import classes


def test_karpenters_types_have_two_gib_and_ten_pods_for_each_cpu_and_are_sold_five_times() -> None:
    base = karpenter.workload(10).base
    assert len(base.offers) == 2000
    third = [offer for offer in base.offers if offer.type.vcpus == 3]
    assert {(offer.location, offer.market) for offer in third} == {
        ("zone-1", "on-demand"), ("zone-2", "on-demand"), ("zone-3", "on-demand"),
        ("zone-1", "spot"), ("zone-2", "spot"),
    }  # fmt: skip
    assert {offer.price for offer in third} == {3 * Decimal("0.3147483648")}
    assert base.observed["type-3"] == {"cpu": 2900, "memory": 6 * 2**30 - 10 * 2**20, "pods": 30}


def test_karpenters_pods_are_fifths_and_the_rest_is_plain() -> None:
    kinds: Counter[str] = Counter()
    for pod in karpenter.workload(1003).waiting():
        shape = pod.shape
        rule = [*shape.spreads, *shape.affinity, *shape.anti_affinity]
        what = "spread" if shape.spreads else "affine" if shape.affinity else "apart"
        kinds[f"{what} {rule[0].topology_key.rpartition('/')[2]}" if rule else "plain"] += 1
    assert kinds == {
        "plain": 203, "spread zone": 200, "spread hostname": 200, "affine zone": 200, "apart hostname": 200,
    }  # fmt: skip


def test_every_pod_asks_for_what_makes_it_demand_and_for_amounts_of_the_table() -> None:
    pods = karpenter.workload(1000).waiting()
    assert {pod.shape.requests["cpu"] for pod in pods} == {100, 250, 500, 1000, 1500}
    assert {pod.shape.requests["memory"] >> 20 for pod in pods} == {100, 256, 512, 1024, 2048, 4096}
    assert {pod.shape.requests[karpenter.SLOT] for pod in pods} == {1}


def test_an_affine_pod_is_drawn_to_its_own_kind_and_never_waits_for_another() -> None:
    affine = [pod.shape for pod in karpenter.workload(1000).waiting() if pod.shape.affinity]
    assert all(term.selector and term.selector.matches(s.labels) for s in affine for term in s.affinity)


def test_a_workload_is_the_same_each_time_and_its_shapes_are_made_anew() -> None:
    for work in (karpenter.workload(300), gpu.workload(300, nodes=20)):
        first, second = work.waiting(), work.waiting()
        assert first == second
        assert not {id(pod.shape) for pod in first} & {id(pod.shape) for pod in second}


def test_gpu_pods_come_in_the_sizes_told_and_ask_for_a_share_of_a_machine() -> None:
    pods = gpu.workload(5000, nodes=0).waiting()
    sizes = Counter(pod.shape.requests[GPU] for pod in pods)
    assert {size: round(count / len(pods), 1) for size, count in sizes.items()} == {
        1: 0.6,
        2: 0.2,
        4: 0.1,
        8: 0.1,
    }
    assert classes(pods) > 2000


def test_four_of_five_gpus_are_in_use_on_the_nodes_and_nothing_has_more_than_its_node_has() -> None:
    base = gpu.workload(1, nodes=1000).base
    there = {node.name: dict(node.allocatable) for node in base.nodes}
    every = sum(node[GPU] for node in there.values())
    for pod in base.pods:
        for name, units in pod.shape.requests.items():
            there[pod.node][name] -= units
    assert all(left >= 0 for node in there.values() for left in node.values())
    assert 0.78 < 1 - sum(node[GPU] for node in there.values()) / every < 0.82
    assert len(base.machines) == 500
    assert {machine.name for machine in base.machines} < set(there)


def test_there_are_as_many_offers_as_asked_for_however_many() -> None:
    for count in (12, 100, 1000):
        offers = gpu.offered(count)
        assert len({offer.key for offer in offers}) == len(offers) == count
