"""Rows of the cases that every autoscaler must get right: capacity on the way, prediction and price, as literals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.kube import DaemonSet, LimitRange, NodeTerm, PodShape, Requirement, Taint, Toleration
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Launch, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, GIB, NOW, kind, machine, node, offers, pod, policy, pool, world

NAME = "home-a100-aaaaaaaaaa"
LABELS = {"kubernetes.io/hostname": NAME, "topology.kubernetes.io/zone": "FIN-01"}
NOTHING_YET = {"cpu": 22000, "memory": 110 * GIB, "pods": 110}
JOINING = Taint("ignore-taint.cluster-autoscaler.kubernetes.io/gpu-autoscaler-joining")


def launches(snapshot: Snapshot) -> list[Launch]:
    return [action for action in plan(snapshot).actions if isinstance(action, Launch)]


def types(snapshot: Snapshot) -> list[str]:
    return sorted(launch.offer.type.name for launch in launches(snapshot))


@pytest.mark.parametrize(
    ("phase", "reason", "bought"),
    [
        (Phase.ORDERED, None, 0),
        (Phase.BOOTING, None, 0),
        (Phase.BOOTING, Reason.JOIN_DEADLINE, 1),
        (Phase.DELETING, None, 1),
        (Phase.DELETING, Reason.LAUNCH_DEADLINE, 1),
        (Phase.TOMBSTONE, None, 1),
    ],
)
def test_case_09_a_machine_on_its_way_that_is_being_terminated_is_replaced(
    phase: Phase, reason: Reason | None, bought: int
) -> None:
    coming = machine(phase=phase, reason=reason, pods=("default/train",))
    assert len(launches(world(pods=(pod(),), machines=(coming,)))) == bought


def young(
    phase: Phase, taint: Taint | None = None, ready_for: float = 0.0, **fields: Any
) -> tuple[int, Reason]:
    """What is bought, and told, with one machine of ours whose Node has just come."""
    taints = (taint,) if taint is not None else ()
    there = node(NAME, labels=LABELS, taints=taints, **fields)
    since = NOW - ready_for if phase is Phase.READY else 0.0
    snapshot = world(pods=(pod(),), machines=(machine(phase=phase, ready_at=since),), nodes=(there,))
    return len(launches(snapshot)), plan(snapshot).pods["default/train"].code


@pytest.mark.parametrize(
    ("phase", "taint", "ready_for", "told"),
    [
        (Phase.JOINED, Taint("node.kubernetes.io/not-ready"), 0, (0, Reason.ON_THE_WAY)),
        (Phase.JOINED, JOINING, 0, (0, Reason.ON_THE_WAY)),
        (Phase.STARTED, JOINING, 0, (0, Reason.ON_THE_WAY)),
        (Phase.READY, JOINING, 599, (0, Reason.ON_THE_WAY)),
        (Phase.READY, JOINING, 601, (1, Reason.LAUNCHING)),
    ],
)
def test_case_10_a_registered_node_that_is_not_ready_counts_and_our_startup_taint_until_the_deadline(
    phase: Phase, taint: Taint, ready_for: float, told: tuple[int, Reason]
) -> None:
    assert young(phase, taint, ready_for, ready=phase is Phase.READY) == told


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
@pytest.mark.parametrize("key", ["node.cilium.io/agent-not-ready", "example.com/anything", "nvidia.com/gpu"])
@pytest.mark.parametrize(("phase", "ready_for", "bought"), [
    (Phase.BOOTING, 0, 0), (Phase.JOINED, 0, 0), (Phase.STARTED, 0, 0), (Phase.READY, 599, 0), (Phase.READY, 601, 1),
])  # fmt: skip
def test_case_11_any_taint_on_a_young_node_of_ours_is_a_startup_taint(
    key: str, effect: str, phase: Phase, ready_for: float, bought: int
) -> None:
    assert young(phase, Taint(key, effect=effect), ready_for)[0] == bought


@pytest.mark.parametrize(
    ("phase", "allocatable", "lost_for", "bought"),
    [
        (Phase.JOINED, NOTHING_YET, 0, 0),
        (Phase.JOINED, NOTHING_YET | {"nvidia.com/gpu": 0}, 0, 0),
        (Phase.STARTED, {}, 0, 0),
        (Phase.READY, NOTHING_YET | {"nvidia.com/gpu": 0}, 599, 0),
        (Phase.READY, NOTHING_YET | {"nvidia.com/gpu": 0}, 601, 1),
    ],
)
def test_case_12_gpus_that_are_reported_as_none_or_not_yet_buy_no_second_machine_before_the_deadline(
    phase: Phase, allocatable: dict[str, int], lost_for: float, bought: int
) -> None:
    ours = machine(
        phase=phase, ready_at=NOW - 5000, gpus_lost_at=NOW - lost_for if phase is Phase.READY else 0.0
    )
    there = node(NAME, labels=LABELS, allocatable=allocatable)
    assert len(launches(world(pods=(pod(),), machines=(ours,), nodes=(there,)))) == bought


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        (1, [Reason.FITS_NOW]),
        (2, [Reason.FITS_NOW, Reason.ON_THE_WAY]),
        (3, [Reason.FITS_NOW, Reason.ON_THE_WAY, Reason.LAUNCHING]),
    ],
)
def test_case_13_ready_nodes_are_filled_before_those_on_their_way_and_those_before_new_ones(
    pods: int, told: list[Reason]
) -> None:
    snapshot = world(
        pods=tuple(pod(f"p{n}", created=NOW - 9 + n) for n in range(pods)),
        nodes=(node("z-last-by-name"),),
        machines=(machine(phase=Phase.BOOTING),),
    )
    assert [plan(snapshot).pods[f"default/p{n}"].code for n in range(pods)] == told


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase.on_the_way])
@pytest.mark.parametrize("gpus", [(1,), (1, 1), (4, 2), (8, 1, 1)])
def test_case_15_while_a_purchase_is_in_progress_another_look_buys_nothing_more(
    gpus: tuple[int, ...], phase: Phase
) -> None:
    waiting = tuple(pod(f"p{n}", units, created=NOW - 9) for n, units in enumerate(gpus))
    first = launches(world(pods=waiting))
    ordered = tuple(
        machine(f"home-a100-{'abcd'[n] * 10}", a.offer.type, phase, pods=a.pods, intended_at=NOW)
        for n, a in enumerate(first)
    )
    assert first
    assert launches(world(pods=waiting, machines=ordered)) == []


@pytest.mark.parametrize("seconds", [0, 1, 5, 30, 600])
def test_case_16_a_scheduler_that_lags_behind_a_ready_node_makes_nobody_buy_again(seconds: float) -> None:
    ready = machine(pods=("default/train",), ready_at=NOW - seconds)
    snapshot = world(pods=(pod(created=NOW - 1000),), machines=(ready,), nodes=(node(NAME, labels=LABELS),))
    assert launches(snapshot) == []
    assert plan(snapshot).pods["default/train"].code is Reason.FITS_NOW


H1 = kind("1H100.30V", 1, 30, 180, "2.29", "H100")


def product(*values: str) -> dict[str, Any]:
    return {"required_terms": (NodeTerm((Requirement("nvidia.com/gpu.product", "In", values),)),)}


@pytest.mark.parametrize(
    ("values", "bought"),
    [
        (("NVIDIA-A100-SXM4-80GB",), ["1A100.22V"]),
        (("NVIDIA-H100-80GB-HBM3",), ["1H100.30V"]),
        (("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"), ["1A100.22V"]),
        (("Tesla-T4",), []),
    ],
)
def test_case_21_the_product_label_chooses_the_type_with_no_node_alive(
    values: tuple[str, ...], bought: list[str]
) -> None:
    assert types(world(offers=offers(A1, H1), pods=(pod(**product(*values)),))) == bought


def test_case_21_the_first_real_node_verifies_the_product() -> None:
    """A machine that was bought for the product and is another one does not take the pod: one more, and no third."""
    waiting = pod(created=NOW - 5000, **product("NVIDIA-A100-SXM4-80GB"))
    wrong = node(NAME, labels=LABELS | {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    told = []
    for bought_before in (0, 1):
        snapshot = world(
            pods=(waiting,),
            offers=offers(A1, A2),
            nodes=(wrong,),
            machines=(machine(pods=(waiting.key,), ready_at=NOW - 900, intended_at=NOW - 4000),),
            disappointed={waiting.identity: ("earlier",)} if bought_before else {},
        )
        told.append((len(launches(snapshot)), plan(snapshot).pods[waiting.key].code))
    assert told == [(1, Reason.LAUNCHING), (0, Reason.PREDICTION_WRONG)]


CPU = kind("CPU.8V.32G", 0, 8, 32, "0.08", "")


@pytest.mark.parametrize(
    ("pools", "bought"),
    [
        ((pool(),), []),
        ((pool(instance_types=("1A100.22V",), min_gpu_memory_gb=0),), []),
        ((pool("cpu", instance_types=("CPU.8V.32G",), min_gpu_memory_gb=0),), []),
        (
            (
                pool(
                    "cpu",
                    instance_types=("CPU.8V.32G",),
                    min_gpu_memory_gb=0,
                    resources={"example.com/slot": 4},
                ),
            ),
            ["CPU.8V.32G"],
        ),
    ],
)
def test_case_22_a_cpu_pod_that_tolerates_everything_buys_only_where_a_pool_says_so(
    pools: tuple[Any, ...], bought: list[str]
) -> None:
    """A pool says so by declaring a resource of which the pod asks for one."""
    declares = any(each.resources for each in pools)
    waiting = pod(
        gpus=0,
        requests={"example.com/slot": 1} if declares else {},
        tolerations=(Toleration("", "Exists"),),
    )
    assert types(world(policy=policy(*pools), offers=offers(A1, CPU), pods=(waiting,))) == bought


@pytest.mark.parametrize(
    ("requests", "bought"),
    [
        ({"nvidia.com/gpu": 2}, ["2A100.44V"]),
        ({"nvidia.com/gpu": 1, "example.com/fpga": 0}, ["1A100.22V"]),
        ({"nvidia.com/gpu": 0}, []),
        ({"nvidia.com/gpu": 1, "cpu": 0, "memory": 0, "ephemeral-storage": 0}, ["1A100.22V"]),
    ],
)
def test_case_23_zero_quantities_are_fine(requests: dict[str, int], bought: list[str]) -> None:
    assert types(world(pods=(pod(gpus=0, requests=requests),))) == bought


def daemon(cpu: int, **more: Any) -> DaemonSet:
    shape = PodShape(
        requests={"cpu": cpu, **more.pop("requests", {})},
        tolerations=more.pop("tolerations", (Toleration("", "Exists"),)),
        **more,
    )
    return DaemonSet(namespace="kube-system", name=f"d{cpu}", uid=f"d{cpu}", shape=shape)


@pytest.mark.parametrize(
    ("daemons", "taints", "bought"),
    [
        ((), (), ["1A100.22V"]),
        ((daemon(1000),), (), ["1A100.22V"]),
        ((daemon(1001),), (), ["2A100.44V"]),
        ((daemon(500), daemon(501)), (), ["2A100.44V"]),
        ((daemon(90000),), (), []),
        ((daemon(90000, node_selector={"no": "such"}),), (), ["1A100.22V"]),
        ((daemon(90000, node_selector={"gpu-autoscaler/gpu": "h100"}),), (), ["1A100.22V"]),
        ((daemon(90000, tolerations=()),), (Taint("nvidia.com/gpu", "present"),), ["1A100.22V"]),
        ((daemon(10, requests={"memory": 200 * GIB}),), (), ["2A100.44V"]),
    ],
)
def test_case_26_daemons_are_added_for_each_type_that_they_will_run_on(
    daemons: tuple[DaemonSet, ...], taints: tuple[Taint, ...], bought: list[str]
) -> None:
    waiting = pod(requests={"cpu": 21000}, tolerations=(Toleration("nvidia.com/gpu", "Exists"),))
    snapshot = world(
        policy=policy(pool(taints=taints)), offers=offers(A1, A2), pods=(waiting,), daemonsets=daemons
    )
    assert types(snapshot) == bought


@pytest.mark.parametrize(("default", "bought"), [(1000, ["1A100.22V"]), (1001, ["2A100.44V"])])
def test_case_26_the_limit_range_of_their_namespace_applies_to_daemons(
    default: int, bought: list[str]
) -> None:
    silent = DaemonSet(
        namespace="kube-system",
        name="silent",
        uid="silent",
        shape=PodShape(tolerations=(Toleration("", "Exists"),)),
        unset={"cpu": 1},
    )
    usual = LimitRange(namespace="kube-system", name="usual", default_requests={"cpu": default})
    snapshot = world(
        offers=offers(A1, A2),
        pods=(pod(requests={"cpu": 21000}),),
        daemonsets=(silent,),
        limit_ranges=(usual,),
    )
    assert types(snapshot) == bought


def test_case_26_an_unexpected_daemon_pod_never_makes_the_remainder_negative() -> None:
    """The Node is full beyond its size; the next pod gets a machine of its own, and nothing is miscounted."""
    huge = pod("surprise", 0, node=NAME, owner_kind="DaemonSet", requests={"cpu": 50000})
    ours: Machine = machine(ready_at=NOW - 5000)
    there = node(NAME, labels=LABELS)
    snapshot = world(pods=(pod(), huge), machines=(ours,), nodes=(there,))
    assert types(snapshot) == ["1A100.22V"]
    gone = replace(snapshot, pods=(pod(),))
    assert types(gone) == []


@pytest.mark.parametrize(
    ("requests", "resources", "bought"),
    [
        ({"example.com/npu": 1}, {}, []),
        ({"example.com/npu": 1}, {"example.com/npu": 1}, ["1A100.22V"]),
        ({"example.com/npu": 2}, {"example.com/npu": 1}, []),
        ({"nvidia.com/mig-1g.10gb": 1}, {"nvidia.com/mig-1g.10gb": 7}, []),
    ],
)
def test_case_27_two_kinds_of_accelerator_at_once_need_a_machine_with_both(
    requests: dict[str, int], resources: dict[str, int], bought: list[str]
) -> None:
    pools = policy(pool(resources=resources), pool("other", resources={"example.com/other": 1}))
    assert types(world(policy=pools, offers=offers(A1), pods=(pod(requests=requests),))) == bought


D = Decimal


def sold(*rows: tuple[str, str, str, str]) -> tuple[Any, ...]:
    """Type, location, market, price."""
    found = []
    for name, location, market, price in rows:
        of = kind(name, 1, 22, 120, price, spot=D(price))
        found += offers(of, locations=(location,), markets=(market,))
    return tuple(found)


@pytest.mark.parametrize(
    ("rows", "bought"),
    [
        ([("a", "FIN-01", "spot", "0.50"), ("a", "FIN-03", "spot", "0.45")], ("FIN-03", "spot")),
        ([("a", "FIN-01", "spot", "0.50"), ("b", "FIN-03", "on-demand", "0.45")], ("FIN-03", "on-demand")),
        ([("a", "FIN-01", "on-demand", "0.50"), ("b", "FIN-03", "spot", "0.45")], ("FIN-03", "spot")),
        ([("a", "FIN-03", "on-demand", "0.50"), ("a", "FIN-01", "on-demand", "0.50")], ("FIN-01", "on-demand")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("strategy", ["smallest", "cheapest"])
def test_case_29_the_cheapest_among_locations_and_markets_wins(
    rows: list[tuple[str, str, str, str]], bought: tuple[str, str], strategy: str
) -> None:
    snapshot = world(
        policy=policy(pool(market="prefer_spot"), strategy=strategy), offers=sold(*rows), pods=(pod(),)
    )
    (launch,) = launches(snapshot)
    assert (launch.offer.location, launch.offer.market) == bought


def test_case_28_three_pods_of_one_gpu_have_three_ways_and_the_fewest_gpus_win() -> None:
    """3×1, 2×2 with one GPU free, 1×4 with one free: of equal price for each GPU the first."""
    three = tuple(pod(f"p{n}") for n in range(3))
    assert types(world(pods=three, offers=offers(A1, A2, A4))) == ["1A100.22V"] * 3
    assert types(world(pods=three, offers=offers(A2, A4))) == ["2A100.44V"] * 2
    assert types(world(pods=three, offers=offers(A4))) == ["4A100.88V"]
