"""Where one pod can run: predicted machines, real nodes, and what stands in the way of both."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.domain.kube import DaemonSet, NodeTerm, PodShape, Requirement, Taint, Toleration
from controller.domain.plan import Launch, Snapshot
from controller.domain.policy import Limits
from controller.domain.reason import Reason
from controller.planning import predict
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A8, GIB, kind, node, offers, pod, policy, pool, world

GPU_TAINT = Taint("nvidia.com/gpu", "present")


def types(snapshot: Snapshot) -> list[str]:
    return [a.offer.type.name for a in plan(snapshot).actions if isinstance(a, Launch)]


def code(snapshot: Snapshot) -> Reason:
    return plan(snapshot).pods["default/train"].code


def affinity(*terms: tuple[Requirement, ...]) -> dict[str, Any]:
    return {"required_terms": tuple(NodeTerm(term) for term in terms)}


def wants(key: str, operator: str, *values: str) -> dict[str, Any]:
    return affinity((Requirement(key, operator, values),))


@pytest.mark.parametrize(
    ("requests", "bought"),
    [
        ({}, ["1A100.22V"]),
        ({"cpu": 22000}, ["1A100.22V"]),
        ({"cpu": 22001}, ["2A100.44V"]),
        ({"memory": 100 * GIB}, ["1A100.22V"]),
        ({"memory": 120 * GIB}, ["2A100.44V"]),
        ({"memory": 900 * GIB}, ["8A100.176V"]),
        ({"memory": 960 * GIB}, []),
        ({"cpu": 0, "memory": 0}, ["1A100.22V"]),
        ({"ephemeral-storage": 70 * GIB}, ["1A100.22V"]),
        ({"ephemeral-storage": 100 * GIB}, []),
        ({"hugepages-2Mi": 2 << 20}, []),
        ({"hugepages-2Mi": 0}, ["1A100.22V"]),
        ({"example.com/foo": 1}, []),
    ],
)
def test_every_resource_counts_and_zero_of_anything_fits(requests: dict[str, int], bought: list[str]) -> None:
    assert types(world(pods=(pod(requests=requests),))) == bought


@pytest.mark.parametrize(
    ("gpus", "bought"),
    [
        (1, "1A100.22V"),
        (2, "2A100.44V"),
        (3, "4A100.88V"),
        (4, "4A100.88V"),
        (5, "8A100.176V"),
        (8, "8A100.176V"),
    ],
)
def test_the_smallest_type_with_enough_gpus_is_bought(gpus: int, bought: str) -> None:
    assert types(world(pods=(pod(gpus=gpus),))) == [bought]


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        (wants("absent", "In", "x"), False),
        (wants("absent", "Exists"), False),
        (wants("absent", "NotIn", "x"), True),
        (wants("absent", "DoesNotExist"), True),
        (wants("nvidia.com/gpu.memory", "Gt", "80000"), True),
        (wants("nvidia.com/gpu.memory", "Gt", "81920"), False),
        (wants("nvidia.com/gpu.memory", "Gte", "81920"), True),
        (wants("nvidia.com/gpu.memory", "Lt", "81921"), True),
        (wants("nvidia.com/gpu.memory", "Lt", "100"), False),
        (wants("nvidia.com/gpu.product", "In", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H200"), True),
        (wants("nvidia.com/gpu.product", "In", "NVIDIA-H200"), False),
        (wants("nvidia.com/gpu.product", "Like", "NVIDIA"), False),
        (wants("kubernetes.io/hostname", "In", "gpu-1"), False),
        (wants("kubernetes.io/hostname", "NotIn", "gpu-1"), True),
        (wants("kubernetes.io/hostname", "Exists"), True),
        ({"node_selector": {"kubernetes.io/hostname": "new-machine"}}, False),
        ({"node_selector": {"kubernetes.io/hostname": ""}}, False),
        ({"node_selector": {"gpu-autoscaler/machine": "x"}}, False),
        ({"node_selector": {"gpu-autoscaler/pool": "a100"}}, True),
        ({"node_selector": {"gpu-autoscaler/pool": "h100"}}, False),
        ({"node_selector": {"gpu-autoscaler/gpu": "a100-80gb"}}, True),
        ({"node_selector": {"node.kubernetes.io/instance-type": "1A100.22V"}}, True),
        ({"node_selector": {"topology.kubernetes.io/zone": "FIN-01", "team": "ml"}}, True),
        ({"node_selector": {"topology.kubernetes.io/region": "FIN-02"}}, False),
        ({"node_selector": {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}}, True),
        ({"node_selector": {"kubernetes.io/arch": "arm64"}}, False),
        ({"required_terms": ()}, False),
        ({"required_terms": (NodeTerm(),)}, False),
        ({"required_terms": (NodeTerm(fields=(Requirement("metadata.name", "In", ("gpu-1",)),)),)}, False),
        ({"required_terms": (NodeTerm(fields=(Requirement("metadata.name", "NotIn", ("gpu-1",)),)),)}, True),
        (affinity((Requirement("team", "In", ("web",)),), (Requirement("team", "In", ("ml",)),)), True),
        (affinity((Requirement("team", "In", ("ml",)), Requirement("absent", "Exists"))), False),
    ],
)
def test_selectors_and_required_affinity_on_a_machine_that_is_not_there_yet(
    fields: dict[str, Any], fits: bool
) -> None:
    decided = world(policy=policy(pool(labels={"team": "ml"})), offers=offers(A1), pods=(pod(**fields),))
    assert bool(types(decided)) is fits
    assert code(decided) is (Reason.LAUNCHING if fits else Reason.SELECTOR)


@pytest.mark.parametrize(
    ("tolerations", "taints", "fits"),
    [
        ((), (), True),
        ((), (GPU_TAINT,), False),
        ((), (Taint("x", effect="PreferNoSchedule"),), True),
        ((), (Taint("x", effect="NoExecute"),), False),
        ((Toleration("nvidia.com/gpu", "Exists"),), (GPU_TAINT,), True),
        ((Toleration("nvidia.com/gpu", "Equal", "present"),), (GPU_TAINT,), True),
        ((Toleration("nvidia.com/gpu", "Equal", "absent"),), (GPU_TAINT,), False),
        ((Toleration("", "Exists"),), (GPU_TAINT, Taint("y", effect="NoExecute")), True),
        ((Toleration("nvidia.com/gpu", "Exists"),), (GPU_TAINT, Taint("y")), False),
        ((Toleration("nvidia.com/gpu", "Exists", "", "NoExecute"),), (GPU_TAINT,), False),
    ],
)
def test_taints_of_the_pool_keep_out_whom_they_should(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...], fits: bool
) -> None:
    decided = world(policy=policy(pool(taints=taints)), pods=(pod(tolerations=tolerations),))
    assert code(decided) is (Reason.LAUNCHING if fits else Reason.TAINT)


def daemon(name: str = "net", **more: Any) -> DaemonSet:
    return DaemonSet(namespace="kube-system", name=name, uid=name, shape=PodShape(**more))


@pytest.mark.parametrize(
    ("daemonset", "bought"),
    [
        (daemon(requests={"cpu": 1000}), "2A100.44V"),
        (daemon(requests={"cpu": 1000}, node_selector={"absent": "x"}), "1A100.22V"),
        (daemon(requests={"cpu": 1000}, node_selector={"nvidia.com/gpu.present": "true"}), "2A100.44V"),
        (daemon(requests={"cpu": 1000}, required_terms=()), "1A100.22V"),
        (daemon(requests={"memory": 1}), "1A100.22V"),
        (daemon(requests={"cpu": 45000}), "4A100.88V"),
        (daemon(), "1A100.22V"),
    ],
)
def test_daemon_sets_that_will_run_there_take_their_part(daemonset: DaemonSet, bought: str) -> None:
    assert types(world(pods=(pod(requests={"cpu": 22000}),), daemonsets=(daemonset,))) == [bought]


@pytest.mark.parametrize(
    ("tolerations", "bought"),
    [((), "1A100.22V"), ((Toleration("nvidia.com/gpu", "Exists"),), "2A100.44V")],
)
def test_a_daemon_set_that_the_taints_keep_out_takes_nothing(
    tolerations: tuple[Toleration, ...], bought: str
) -> None:
    snapshot = world(
        policy=policy(pool(taints=(GPU_TAINT,))),
        pods=(pod(requests={"cpu": 22000}, tolerations=(Toleration("", "Exists"),)),),
        daemonsets=(daemon(requests={"cpu": 1000}, tolerations=tolerations),),
    )
    assert types(snapshot) == [bought]


def test_a_daemon_set_too_big_for_every_machine_leaves_no_room_for_a_pod_that_asks_for_cpu() -> None:
    snapshot = world(pods=(pod(),), daemonsets=(daemon(requests={"cpu": 500_000}),))
    assert code(snapshot) is Reason.RESOURCES


def test_a_node_holds_as_many_pods_as_it_allows() -> None:
    there = node(gpus=8, cpu=100, memory=900)
    full = {**there.allocatable, "pods": 1}
    running = pod("daemon", 0, node="gpu-1", owner_kind="DaemonSet")
    snapshot = world(pods=(pod(), running), nodes=(node(allocatable=full),))
    assert code(snapshot) is Reason.LAUNCHING
    assert code(world(pods=(pod(),), nodes=(node(allocatable=full),))) is Reason.FITS_NOW


def test_a_node_that_does_not_tell_how_many_pods_it_holds_holds_the_usual_number() -> None:
    told = {"cpu": 22000, "memory": 100 * GIB, "nvidia.com/gpu": 1}
    assert code(world(pods=(pod(),), nodes=(node(allocatable=told),))) is Reason.FITS_NOW


def test_a_pod_that_needs_two_kinds_of_accelerator_fits_only_a_machine_with_both() -> None:
    both = pod(requests={"example.com/npu": 1})
    plain = world(
        policy=policy(pool(), pool("npu", resources={"example.com/npu": 2, "nvidia.com/mig-1g.10gb": 7})),
        pods=(both,),
    )
    assert code(plain) is Reason.TOO_LARGE
    assert "at once" in plan(plain).pods["default/train"].message
    assert types(world(policy=policy(pool(resources={"example.com/npu": 2})), pods=(both,))) == ["1A100.22V"]


def test_declared_resources_are_totals_and_replace_the_gpus_of_the_catalogue() -> None:
    mig = policy(pool(resources={"nvidia.com/mig-1g.10gb": 7}), pool("plain", max_gpus=1))
    slices = tuple(pod(f"s{n}", 0, requests={"nvidia.com/mig-1g.10gb": 1}) for n in range(8))
    launches = [
        a for a in plan(world(policy=mig, offers=offers(A1), pods=slices)).actions if isinstance(a, Launch)
    ]
    assert [(a.pool, len(a.pods)) for a in launches] == [("a100", 7), ("a100", 1)]
    (whole,) = [a for a in plan(world(policy=mig, pods=(pod(),))).actions if isinstance(a, Launch)]
    assert whole.pool == "plain"


def test_what_real_nodes_of_the_type_offered_wins_over_the_prediction() -> None:
    pods = (pod(requests={"memory": 117 * GIB}),)
    assert types(world(pods=pods)) == ["2A100.44V"]
    assert types(world(pods=pods, observed={"1A100.22V": {"cpu": 22000, "memory": 118 * GIB}})) == [
        "1A100.22V"
    ]
    seen = {"1A100.22V": {"cpu": 20000, "memory": 118 * GIB}}
    assert types(world(pods=(pod(requests={"cpu": 21000}),), observed=seen)) == ["2A100.44V"]


def test_as_many_pods_as_real_nodes_of_the_type_took_share_a_machine() -> None:
    two = world(pods=(pod("a"), pod("b")), offers=offers(A2))
    assert types(two) == ["2A100.44V"]
    assert types(msgspec.structs.replace(two, observed={"2A100.44V": {"pods": 1}})) == ["2A100.44V"] * 2


@pytest.mark.parametrize(
    ("gib", "predicted"),
    [(23, 22.3), (45, 44.0), (60, 58.8), (120, 117.8), (185, 181.8), (960, 944.7), (1480, 1456.6)],
)
def test_memory_is_predicted_one_per_cent_and_the_kubelets_reserve_below_the_model(
    gib: int, predicted: float
) -> None:
    kind_ = kind("X", 1, 10, gib, "1")
    model = gib * 63 / 64 - 320 / 1024
    assert round(model, 1) == pytest.approx(predicted, abs=0.06)
    k3s = predict.allocatable_of(policy(kubelet_reserves_memory=False), pool(), kind_)["memory"] / GIB
    plain = predict.allocatable_of(policy(), pool(), kind_)["memory"] / GIB
    assert k3s == pytest.approx(model * 0.99, abs=0.001)
    assert plain == pytest.approx((model - 100 / 1024) * 0.99, abs=0.001)


@pytest.mark.parametrize(
    ("model", "product", "memory"),
    [
        ("Tesla V100", "Tesla-V100-SXM2-16GB", "16384"),
        ("A100 40GB", "NVIDIA-A100-SXM4-40GB", "40960"),
        ("A100 80GB", "NVIDIA-A100-SXM4-80GB", "81920"),
        ("H100", "NVIDIA-H100-80GB-HBM3", "81559"),
        ("H200", "NVIDIA-H200", "143771"),
        ("B200", "NVIDIA-B200", "183359"),
        ("B300", "NVIDIA-B300-SXM6-AC", "275040"),
        ("L40S", "NVIDIA-L40S", "46068"),
        ("RTX A6000", "NVIDIA-RTX-A6000", "49140"),
        ("RTX 6000 Ada", "NVIDIA-RTX-6000-Ada-Generation", "49140"),
    ],
)
def test_the_product_label_chooses_the_type_before_any_such_node_exists(
    model: str, product: str, memory: str
) -> None:
    other = kind("OTHER", 1, 22, 120, "0.01", "Unheard-of")
    wanted = kind("WANTED", 1, 22, 120, "9.99", model)
    selector = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory}
    assert types(world(offers=offers(other, wanted), pods=(pod(node_selector=selector),))) == ["WANTED"]


def test_compatible_pods_share_and_incompatible_pods_split() -> None:
    near, far = ({"topology.kubernetes.io/zone": zone} for zone in ("FIN-01", "FIN-02"))
    sold = offers(A2, locations=("FIN-01", "FIN-02"))
    assert (
        len(types(world(offers=sold, pods=(pod("a", node_selector=near), pod("b", node_selector=near))))) == 1
    )
    assert (
        len(types(world(offers=sold, pods=(pod("a", node_selector=near), pod("b", node_selector=far))))) == 2
    )


def test_a_cpu_pod_that_tolerates_everything_buys_nothing() -> None:
    assert types(world(pods=(pod(gpus=0, tolerations=(Toleration("", "Exists"),)),))) == []


def test_a_pod_larger_than_any_machine_is_not_split_over_two() -> None:
    assert types(world(pods=(pod(gpus=16),), offers=offers(A8))) == []


HUGE = pool(resources={"hugepages-1Gi": 64 * GIB})


def test_huge_pages_that_a_pool_declares_are_taken_off_the_memory() -> None:
    asking = pod(requests={"hugepages-1Gi": 64 * GIB, "memory": 100 * GIB})
    snapshot = world(policy=policy(HUGE), offers=offers(A1), pods=(asking,))
    assert code(snapshot) is Reason.RESOURCES
    assert types(msgspec.structs.replace(snapshot, offers=offers(A2))) == ["2A100.44V"]


@pytest.mark.parametrize(("seen", "left"), [(40, 40), (118, 56)])
def test_memory_that_a_node_of_the_type_offered_is_believed_as_far_as_its_huge_pages_leave_it(
    seen: int, left: int
) -> None:
    observed = {A1.name: {"cpu": 22000, "memory": seen * GIB}}
    assert predict.allocatable_of(policy(), HUGE, A1, observed)["memory"] == left * GIB


def test_huge_pages_alone_buy_no_machine_with_gpus() -> None:
    assert types(world(policy=policy(HUGE), pods=(pod(gpus=0, requests={"hugepages-1Gi": 4 * GIB}),))) == []


@pytest.mark.parametrize("beside", ["hugepages-1Gi", "rdma/hca", "nvidia.com/gpumem", "example.com/nic"])
def test_what_comes_beside_gpus_does_not_count_in_the_order_among_pods(beside: str) -> None:
    declares = pool(resources={beside: 64 * GIB, "nvidia.com/gpu": 2})
    pods = (pod("a", 1, requests={beside: 4 * GIB}), pod("b", 2))
    snapshot = world(policy=policy(declares, limits=Limits(machines=1)), offers=offers(A2), pods=pods)
    told = plan(snapshot).pods
    assert told["default/b"].code is Reason.LAUNCHING
    assert told["default/a"].code is Reason.LIMIT_MACHINES


def test_what_stands_for_gpus_where_there_are_none_counts_in_the_order_among_pods() -> None:
    declares = pool(resources={"amd.com/gpu": 2})
    pods = (pod("a", 0, requests={"amd.com/gpu": 1}), pod("b", 0, requests={"amd.com/gpu": 2}))
    snapshot = world(policy=policy(declares, limits=Limits(machines=1)), offers=offers(A2), pods=pods)
    assert plan(snapshot).pods["default/b"].code is Reason.LAUNCHING


def test_amounts_that_are_too_large_are_told_in_the_units_of_people() -> None:
    asking = pod(requests={"hugepages-1Gi": 128 * GIB})
    words = plan(world(policy=policy(HUGE), pods=(asking,))).pods["default/train"].message
    assert "needs 128Gi" in words
    assert "has 64Gi" in words


@pytest.mark.parametrize("beside", ["nvidia.com/hostdev", "rdma/hca", "nvidia.com/gpumem"])
def test_what_a_pool_declares_beside_gpus_leaves_it_the_gpus(beside: str) -> None:
    pods = (pod("plain"), pod("wide", requests={beside: 1}))
    snapshot = world(policy=policy(pool(resources={beside: 8})), offers=offers(A1), pods=pods)
    assert types(snapshot) == ["1A100.22V", "1A100.22V"]


@pytest.mark.parametrize("other", ["nvidia.com/gpu.shared", "nvidia.com/pgpu", "nvidia.com/mig-1g.10gb"])
def test_gpus_that_a_pool_declares_in_another_form_are_there_instead_of_whole_ones(other: str) -> None:
    declares = policy(pool(resources={other: 4}))
    assert types(world(policy=declares, offers=offers(A1), pods=(pod(gpus=0, requests={other: 1}),))) == [
        "1A100.22V"
    ]
    assert types(world(policy=declares, offers=offers(A1), pods=(pod(),))) == []
