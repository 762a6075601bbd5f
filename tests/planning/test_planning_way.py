"""Capacity on the way is capacity: what is there, coming, or comes back is not bought a second time."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.kube import Pod, Taint
from controller.domain.machine import Machine, Phase
from controller.domain.plan import InVain, KeepAfterAll, Launch, Snapshot
from controller.domain.policy import NamespaceLimit
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import (
    A1,
    A2,
    A4,
    A8,
    GIB,
    NOW,
    kind,
    machine,
    node,
    offers,
    pod,
    policy,
    pool,
    world,
)

NAME = "home-a100-aaaaaaaaaa"
LABELS = {
    "kubernetes.io/hostname": NAME,
    "gpu-autoscaler/pool": "a100",
    "topology.kubernetes.io/zone": "FIN-01",
    "gpu-autoscaler/market": "on-demand",
}


def count(snapshot: Snapshot) -> int:
    return sum(isinstance(action, Launch) for action in plan(snapshot).actions)


def code(snapshot: Snapshot, key: str = "default/train") -> Reason:
    return plan(snapshot).pods[key].code


def mine(gpus: int = 1, **more: Any) -> Any:
    return node(NAME, gpus, labels=LABELS, **more)


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase.on_the_way])
def test_a_pod_promised_to_a_machine_on_its_way_buys_nothing(phase: Phase) -> None:
    snapshot = world(pods=(pod(),), machines=(machine(phase=phase, pods=("default/train",)),))
    assert (count(snapshot), code(snapshot)) == (0, Reason.ON_THE_WAY)


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase.on_the_way])
def test_a_second_pod_that_fits_the_machine_on_its_way_buys_nothing(phase: Phase) -> None:
    coming = machine(of=A2, phase=phase, pods=("default/first",))
    assert count(world(pods=(pod("first"), pod("second")), machines=(coming,))) == 0


@pytest.mark.parametrize(
    "second",
    [
        {"gpus": 2},
        {"requests": {"cpu": 44000}},
        {"node_selector": {"topology.kubernetes.io/zone": "FIN-02"}},
        {"node_selector": {"gpu-autoscaler/market": "spot"}},
    ],
)
def test_a_second_pod_that_does_not_fit_there_buys_a_second_machine(second: dict[str, Any]) -> None:
    sold = offers(A1, A2, A4, locations=("FIN-01", "FIN-02"), markets=("on-demand", "spot"))
    snapshot = world(
        policy=policy(pool(market="prefer_spot")),
        offers=sold,
        pods=(pod("first"), pod("second", **second)),
        machines=(machine(of=A2, phase=Phase.BOOTING, pods=("default/first",)),),
    )
    decided = plan(snapshot)
    assert [a.pods for a in decided.actions if isinstance(a, Launch)] == [("default/second",)]
    assert decided.pods["default/first"].code is Reason.ON_THE_WAY


@pytest.mark.parametrize(
    "coming",
    [
        machine(phase=Phase.DELETING, pods=("default/train",)),
        machine(phase=Phase.DELETING, reason=Reason.LAUNCH_DEADLINE),
        machine(phase=Phase.TOMBSTONE, pods=("default/train",)),
        machine(phase=Phase.ORDERED, reason=Reason.NO_CAPACITY, pods=("default/train",)),
        machine(phase=Phase.BOOTING, reason=Reason.JOIN_DEADLINE),
    ],
)
def test_a_machine_that_failed_or_goes_is_no_capacity(coming: Machine) -> None:
    assert count(world(pods=(pod(),), machines=(coming,))) == 1


def test_an_order_whose_answer_was_lost_still_is_capacity() -> None:
    lost = machine(
        phase=Phase.INTENDED, reason=Reason.UNKNOWN_OUTCOME, pods=("default/train",), instance_id=""
    )
    assert count(world(pods=(pod(),), machines=(lost,))) == 0


@pytest.mark.parametrize(
    "young",
    [
        {},
        {"ready": False},
        {"allocatable": {}},
        {"allocatable": {"cpu": 22000, "memory": 110 * GIB, "pods": 110, "nvidia.com/gpu": 0}},
        {
            "taints": (
                Taint("node.kubernetes.io/not-ready"),
                Taint("node.kubernetes.io/not-ready", effect="NoExecute"),
            )
        },
        {"taints": (Taint("node.cilium.io/agent-not-ready"), Taint("anything", "at-all"))},
        {"taints": (Taint("ignore-taint.cluster-autoscaler.kubernetes.io/gpu-autoscaler-joining"),)},
        {"unschedulable": True},
    ],
)
@pytest.mark.parametrize("phase", [Phase.BOOTING, Phase.JOINED, Phase.STARTED])
def test_a_young_node_counts_whatever_it_shows(young: dict[str, Any], phase: Phase) -> None:
    snapshot = world(pods=(pod(),), machines=(machine(phase=phase),), nodes=(mine(**young),))
    assert (count(snapshot), code(snapshot)) == (0, Reason.ON_THE_WAY)


def test_what_a_young_node_really_has_beside_gpus_is_believed() -> None:
    small = mine(allocatable={"cpu": 22000, "memory": 2 * GIB, "pods": 110})
    assert count(world(pods=(pod(),), machines=(machine(phase=Phase.JOINED),), nodes=(small,))) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"observed": {"1A100.22V": {"cpu": 100, "memory": GIB}}},
        {"policy": policy(pool(labels={"new": "label"}, taints=(Taint("new"),)))},
        {"policy": policy(pool("other", max_gpus=1))},
        {"nodes": (mine(allocatable={"cpu": 22000, "memory": 2 * GIB, "pods": 110}),)},
    ],
)
def test_a_promise_is_kept_although_it_would_be_predicted_otherwise_by_now(change: dict[str, Any]) -> None:
    waiting = pod(created=NOW - 1000, node_selector={"old": "label"})
    coming = machine(phase=Phase.JOINED, pods=("default/train",))
    assert count(world(**{"pods": (waiting,), "machines": (coming,)} | change)) == 0


def test_a_later_pod_of_the_same_name_was_promised_nothing() -> None:
    waiting = pod(created=NOW - 10, node_selector={"topology.kubernetes.io/zone": "FIN-02"})
    snapshot = world(
        pods=(waiting,),
        machines=(machine(phase=Phase.BOOTING, pods=("default/train",)),),
        offers=offers(A1, locations=("FIN-02",)),
    )
    assert count(snapshot) == 1


def test_a_promise_ends_when_others_took_the_place() -> None:
    coming = machine(phase=Phase.STARTED, pods=("default/train",))
    snapshot = world(
        pods=(pod(created=NOW - 1000), pod("thief", node=NAME)), machines=(coming,), nodes=(mine(),)
    )
    assert count(snapshot) == 1


def test_a_later_pod_does_not_push_a_promised_one_off_its_machine() -> None:
    near = machine("home-a100-aaaaaaaaaa", A1, Phase.BOOTING, pods=("default/old",))
    far = machine("home-a100-bbbbbbbbbb", A1, Phase.BOOTING, location="FIN-02")
    old = pod("old", created=NOW - 1000, node_selector={"topology.kubernetes.io/zone": "FIN-01"})
    new = pod("a-new", priority=10)
    assert count(world(pods=(new, old), machines=(near, far))) == 0


def test_a_promised_pod_leaves_a_ready_node_to_one_that_has_no_other_place() -> None:
    coming = machine(phase=Phase.BOOTING, pods=("default/old",), location="FIN-02")
    free = node("gpu-1", 1, labels={"topology.kubernetes.io/zone": "FIN-01"})
    new = pod("new", node_selector={"topology.kubernetes.io/zone": "FIN-01"})
    decided = plan(world(pods=(pod("old", created=NOW - 1000), new), machines=(coming,), nodes=(free,)))
    assert decided.pods["default/old"].code is Reason.ON_THE_WAY
    assert decided.pods["default/new"].code is Reason.FITS_NOW


def test_a_promised_pod_leaves_a_ready_node_to_the_larger_of_two_that_have_no_other_place() -> None:
    """Otherwise a machine is bought for the one that was told a moment ago that it fits the node."""
    small = pod("small", 1, created=NOW - 1000)
    coming = machine(of=A1, phase=Phase.BOOTING, pods=(small.key,))
    snapshot = world(
        pods=(small, pod("large", 4), pod("late", 1)),
        nodes=(node("foreign", 4, cpu=100),),
        machines=(coming,),
    )
    decided = plan(snapshot)
    assert decided.pods["default/large"].code is Reason.FITS_NOW
    bought = [(a.offer.type.name, a.pods) for a in decided.actions if isinstance(a, Launch)]
    assert bought == [(A1.name, ("default/late",))]


def test_promised_pods_leave_a_large_machine_to_one_that_has_no_other_place() -> None:
    """The scheduler gave the large pod's own machine to others, whose machines have room now."""
    kept = machine("home-a100-aaaaaaaaaa", A2, Phase.BOOTING, pods=("default/s1", "default/s2"))
    freed = [machine(f"home-a100-{c * 10}", A1, Phase.BOOTING, pods=(f"default/{c}",)) for c in "bc"]
    small = [pod(name, created=NOW - 1000) for name in ("s1", "s2")]
    decided = plan(world(pods=(*small, pod("large", 2, created=NOW - 1000)), machines=(kept, *freed)))
    assert not [action for action in decided.actions if isinstance(action, Launch)]
    assert {why.code for why in decided.pods.values()} == {Reason.ON_THE_WAY}


def test_nobody_loses_a_promised_place_to_a_larger_pod_that_would_buy() -> None:
    kept = machine("home-a100-aaaaaaaaaa", A2, Phase.BOOTING, pods=("default/s1", "default/s2"))
    small = [pod(name, created=NOW - 1000) for name in ("s1", "s2")]
    decided = plan(world(pods=(*small, pod("large", 2, priority=9)), machines=(kept,)))
    assert [a.pods for a in decided.actions if isinstance(a, Launch)] == [("default/large",)]


def test_an_arm_machine_on_its_way_is_known_to_be_one() -> None:
    arm = kind("1GB300.36V", 1, 36, 200, "5", "GB300", arch="arm64")
    snapshot = world(
        policy=policy(pool(arm64=True)),
        offers=offers(arm),
        pods=(pod(node_selector={"kubernetes.io/arch": "arm64"}),),
        machines=(machine(of=arm, phase=Phase.ORDERED),),
    )
    assert count(snapshot) == 0


def test_ready_nodes_are_filled_before_machines_on_their_way_and_those_before_new_ones() -> None:
    snapshot = world(
        pods=tuple(pod(f"p{n}") for n in range(3)),
        nodes=(node("z-foreign", 1),),
        machines=(machine(phase=Phase.BOOTING),),
    )
    told = plan(snapshot).pods
    assert sorted(why.code for why in told.values()) == [Reason.FITS_NOW, Reason.LAUNCHING, Reason.ON_THE_WAY]


def test_free_capacity_of_others_is_used_before_that_of_ours_and_small_machines_before_large_ones() -> None:
    large, small = "home-a100-aaaaaaaaaa", "home-a100-bbbbbbbbbb"
    snapshot = world(
        pods=(pod("a", created=NOW - 9), pod("b")),
        nodes=(node("z-foreign", 1), node(large, 8, cpu=100), node(small, 1)),
        machines=(machine(large, A8), machine(small, A1)),
    )
    decided = plan(snapshot)
    assert "node z-foreign" in decided.pods["default/a"].message
    assert small in decided.pods["default/b"].message
    assert decided.machines[small].code is Reason.NEEDED
    assert decided.machines[large].code is Reason.COOLDOWN


@pytest.mark.parametrize(
    "fields",
    [
        {"ready": False},
        {"unschedulable": True},
        {"deleting": True},
        {"gpus": 0},
        {"taints": (Taint("team", "a"),)},
        {"cpu": 0},
    ],
)
def test_a_node_of_others_that_cannot_take_the_pod_is_no_capacity(fields: dict[str, Any]) -> None:
    assert count(world(pods=(pod(),), nodes=(node(**fields),))) == 1


def test_gpus_in_use_are_not_free_and_finished_pods_use_none() -> None:
    assert count(world(pods=(pod(), pod("other", node="gpu-1")), nodes=(node(),))) == 1
    assert count(world(pods=(pod(), pod("other", node="gpu-1", phase="Succeeded")), nodes=(node(),))) == 0


@pytest.mark.parametrize(
    ("end", "waited_for"),
    [
        (NOW + 30, True),
        (NOW - 29, True),
        (NOW - 31, False),  # stuck beyond its grace and the slack
        (NOW + 269, True),
        (NOW + 271, False),  # a new machine would be there sooner
    ],
)
def test_gpus_of_terminating_pods_count_as_coming_where_that_is_sooner_than_a_boot(
    end: float, waited_for: bool
) -> None:
    snapshot = world(pods=(pod(), pod("other", node="gpu-1", deleting_at=end)), nodes=(node(),))
    assert code(snapshot) is (Reason.GPUS_FREED_SOON if waited_for else Reason.LAUNCHING)
    if waited_for:
        assert plan(snapshot).wake_at == end + 30


def test_gpus_that_are_freed_once_are_not_given_to_two_pods() -> None:
    snapshot = world(
        pods=(pod("a"), pod("b"), pod("other", node="gpu-1", deleting_at=NOW + 5)), nodes=(node(),)
    )
    assert count(snapshot) == 1


def test_the_scheduler_may_lag_behind_a_ready_node() -> None:
    ready = machine(pods=("default/train",), ready_at=NOW - 3)
    snapshot = world(pods=(pod(created=NOW - 1000),), machines=(ready,), nodes=(mine(),))
    assert (count(snapshot), code(snapshot)) == (0, Reason.FITS_NOW)


@pytest.mark.parametrize(
    ("ready_at", "fields", "bought"),
    [
        (NOW - 60, {"ready": False}, 0),
        (NOW - 601, {"ready": False}, 1),
        (NOW - 60, {"taints": (Taint("node.cilium.io/agent-not-ready"),)}, 0),
        (NOW - 601, {"taints": (Taint("node.cilium.io/agent-not-ready"),)}, 1),
        (NOW - 60, {"unschedulable": True}, 1),
        (NOW - 601, {"gpus": 0}, 0),
        (NOW - 601, {"gpus": 0, "lost": NOW - 300}, 0),
        (NOW - 601, {"gpus": 0, "lost": NOW - 601}, 1),
    ],
)
def test_a_flap_of_a_ready_node_of_ours_is_waited_for(
    ready_at: float, fields: dict[str, Any], bought: int
) -> None:
    owner = machine(ready_at=ready_at, gpus_lost_at=fields.pop("lost", 0.0))
    assert count(world(pods=(pod(),), machines=(owner,), nodes=(mine(**fields),))) == bought


@pytest.mark.parametrize(("missing_since", "bought"), [(0.0, 0), (NOW - 200, 0), (NOW - 301, 1)])
def test_a_node_object_that_disappeared_is_waited_for_as_long_as_the_fleet_does(
    missing_since: float, bought: int
) -> None:
    owner = machine(ready_at=NOW - 5000, node_missing_at=missing_since)
    assert count(world(pods=(pod(),), machines=(owner,))) == bought


def test_gpus_that_are_lost_while_in_use_are_not_counted_as_free_when_they_return() -> None:
    owner = machine(of=A8, gpus_lost_at=NOW - 5)
    users = tuple(pod(f"u{n}", 1, node=NAME) for n in range(8))
    snapshot = world(pods=(pod(), *users), machines=(owner,), nodes=(mine(7, cpu=170, memory=900),))
    assert count(snapshot) == 1


def drained(**more: Any) -> Machine:
    values: dict[str, Any] = {"reason": Reason.IDLE, "drain_at": NOW - 3}
    return machine(phase=Phase.DRAINING, **(values | more))


DRAIN_TAINTS = (Taint("gpu-autoscaler/idle", effect="PreferNoSchedule"), Taint("gpu-autoscaler/draining"))


def test_demand_that_returns_calls_the_removal_off_and_buys_nothing() -> None:
    decided = plan(world(pods=(pod(),), machines=(drained(),), nodes=(mine(taints=DRAIN_TAINTS),)))
    assert [type(a) for a in decided.actions] == [KeepAfterAll]
    assert decided.pods["default/train"].code is Reason.FITS_NOW
    assert decided.machines[NAME].code is Reason.NEEDED


@pytest.mark.parametrize(
    ("gone", "there"),
    [
        (drained(reason=Reason.GPU_LOST), {}),
        (drained(surplus=True), {}),
        (drained(), {"ready": False}),
        (drained(), {"unschedulable": True}),
        (drained(), {"taints": (*DRAIN_TAINTS, Taint("other"))}),
        (machine(phase=Phase.DELETING), {}),
    ],
)
def test_a_removal_for_a_better_reason_is_not_called_off(gone: Machine, there: dict[str, Any]) -> None:
    fields = {"taints": DRAIN_TAINTS} | there
    decided = plan(world(pods=(pod(),), machines=(gone,), nodes=(mine(**fields),)))
    assert [type(a) for a in decided.actions] == [Launch]


def test_a_removal_is_not_called_off_for_a_pod_that_has_a_place_elsewhere() -> None:
    snapshot = world(pods=(pod(),), machines=(drained(),), nodes=(mine(taints=DRAIN_TAINTS), node("free", 1)))
    assert plan(snapshot).actions == ()


def test_of_several_removals_the_smallest_is_called_off() -> None:
    large, small = drained(name="home-a100-aaaaaaaaaa", of=A8), drained(name="home-a100-bbbbbbbbbb", of=A1)
    nodes = (node(large.name, 8, taints=DRAIN_TAINTS), node(small.name, 1, taints=DRAIN_TAINTS))
    (kept,) = plan(world(pods=(pod(),), machines=(large, small), nodes=nodes)).actions
    assert isinstance(kept, KeepAfterAll)
    assert kept.machine == small.name


@pytest.mark.parametrize("staying", [[], [Phase.INTENDED], [Phase.BOOTING, Phase.READY], [Phase.READY] * 3])
def test_a_minimum_is_topped_up_once_while_the_first_ones_still_boot(staying: list[Phase]) -> None:
    there = tuple(machine(f"home-a100-{'abc'[n] * 10}", phase=phase) for n, phase in enumerate(staying))
    assert count(world(policy=policy(pool(min=2)), machines=there)) == max(0, 2 - len(staying))


def test_a_pod_takes_the_place_of_a_machine_that_the_minimum_asks_for_anyway() -> None:
    decided = plan(world(policy=policy(pool(min=1)), pods=(pod(),)))
    (launch,) = decided.actions
    assert isinstance(launch, Launch)
    assert launch.pods == ("default/train",)
    assert decided.pods["default/train"].code is Reason.LAUNCHING


@pytest.mark.parametrize(
    ("tries", "ago", "there", "ordered"),
    [
        (1, 0, [], 3),
        (2, 3599, [], 0),
        (2, 3601, [], 1),
        (3, 3601, [], 0),
        (3, 7201, [], 1),
        (99, 86399, [], 0),
        (99, 86401, [], 1),
        (2, 3601, [Phase.BOOTING], 0),
        (2, 3601, [Phase.READY], 1),
        (2, 0, [Phase.READY] * 3, 0),
    ],
)
def test_a_minimum_is_tried_ever_more_seldom_while_its_machines_never_become_usable(
    tries: int, ago: float, there: list[Phase], ordered: int
) -> None:
    machines = tuple(machine(f"home-a100-{'abc'[n] * 10}", phase=phase) for n, phase in enumerate(there))
    known = InVain(tries=tries, last=NOW - ago, reason=Reason.JOIN_DEADLINE)
    decided = plan(world(policy=policy(pool(min=3)), machines=machines, in_vain={"a100": known}))
    assert sum(isinstance(action, Launch) for action in decided.actions) == ordered
    if ordered or len(there) == 3:
        assert not decided.pools
    else:
        assert decided.pools["a100"].code is Reason.JOIN_DEADLINE
        assert there or decided.wake_at == NOW - ago + min(86400, 1800 * 2 ** (tries - 1))


def test_a_minimum_orders_no_third_while_two_that_did_not_start_are_still_there() -> None:
    stuck = {"phase": Phase.DELETING, "reason": Reason.LAUNCH_DEADLINE}
    machines = tuple(machine(f"home-a100-{letter * 10}", **stuck) for letter in "ab")
    assert count(world(policy=policy(pool(min=1)), machines=machines[:1])) == 1
    decided = plan(world(policy=policy(pool(min=1)), machines=machines))
    assert decided.actions == ()
    assert decided.pools["a100"].code is Reason.LAUNCH_DEADLINE


def disappointing(name: str, **more: Any) -> tuple[Machine, Any]:
    owner = machine(name, A1, pods=("default/train",), **more)
    return owner, node(name, 1, cpu=22, memory=50, labels=LABELS | {"kubernetes.io/hostname": name})


@pytest.mark.parametrize(("bought_before", "code_now"), [(1, Reason.LAUNCHING), (2, Reason.PREDICTION_WRONG)])
def test_a_machine_that_does_not_hold_its_pod_causes_one_more_purchase_and_not_a_third(
    bought_before: int, code_now: Reason
) -> None:
    pairs = [disappointing(f"home-a100-{'ab'[n] * 10}") for n in range(bought_before)]
    snapshot = world(
        pods=(pod(requests={"memory": 100 * GIB}),),
        machines=tuple(m for m, _ in pairs),
        nodes=tuple(n for _, n in pairs),
    )
    assert code(snapshot) is code_now


def test_daemons_that_nobody_predicted_count_as_a_wrong_prediction_too() -> None:
    names = ("home-a100-aaaaaaaaaa", "home-a100-bbbbbbbbbb")
    hungry = tuple(pod(f"d-{n}", 0, node=n, owner_kind="DaemonSet", requests={"cpu": 20000}) for n in names)
    snapshot = world(
        pods=(pod(requests={"cpu": 10000}), *hungry),
        machines=tuple(machine(n, pods=("default/train",)) for n in names),
        nodes=tuple(node(n, 1) for n in names),
    )
    assert code(snapshot) is Reason.PREDICTION_WRONG


def test_a_machine_of_a_pool_that_was_removed_from_the_settings_still_counts_and_still_goes() -> None:
    old = machine(pool="gone", phase=Phase.BOOTING)
    assert count(world(pods=(pod(),), machines=(old,))) == 0
    idle = machine(pool="gone")
    there = mine(annotations={"gpu-autoscaler/idle-since": "2027-01-15T07:00:00Z"})
    (action,) = plan(world(machines=(idle,), nodes=(there,))).actions
    assert getattr(action, "machine", "") == idle.name


def test_several_plans_in_a_row_while_the_purchase_is_under_way_buy_nothing_more() -> None:
    waiting: tuple[Pod, ...] = (pod("a"), pod("b"), pod("c", 8))
    first = [a for a in plan(world(pods=waiting)).actions if isinstance(a, Launch)]
    bought = tuple(
        machine(
            f"home-a100-{'abcdef'[n] * 10}",
            a.offer.type,
            Phase.INTENDED,
            pods=a.pods,
            price=Decimal(a.offer.price),
            intended_at=NOW,
        )
        for n, a in enumerate(first)
    )
    for phase in (Phase.INTENDED, Phase.ORDERED, Phase.BOOTING, Phase.JOINED, Phase.STARTED):
        assert count(world(pods=waiting, machines=tuple(replace(m, phase=phase) for m in bought))) == 0


def test_a_pod_that_two_machines_did_not_hold_is_bought_nothing_more_even_after_they_are_gone() -> None:
    gone = {pod().identity: ("home-a100-aaaaaaaaaa", "home-a100-bbbbbbbbbb")}
    decided = plan(world(pods=(pod(),), disappointed=gone))
    assert decided.actions == ()
    assert decided.pods["default/train"].code is Reason.PREDICTION_WRONG
    once = plan(world(pods=(pod(),), disappointed={pod().identity: ("home-a100-aaaaaaaaaa",)}))
    assert len(once.actions) == 1
    assert count(world(pods=(pod(uid="of the next one"),), disappointed=gone)) == 1


def test_a_pod_whose_machines_never_became_usable_gets_a_second_one_and_no_third() -> None:
    failed = {"home-a100-aaaaaaaaaa": Reason.JOIN_DEADLINE, "home-a100-bbbbbbbbbb": Reason.GPU_DEADLINE}
    once = {"home-a100-aaaaaaaaaa": Reason.JOIN_DEADLINE}
    assert count(world(pods=(pod(),), given_up={pod().identity: once})) == 1
    twice = plan(world(pods=(pod(),), given_up={pod().identity: failed}))
    assert twice.actions == ()
    why = twice.pods["default/train"]
    assert why.code is Reason.GPU_DEADLINE
    assert "home-a100-aaaaaaaaaa (join_deadline) and home-a100-bbbbbbbbbb (gpu_deadline)" in why.message
    too_small = {pod().identity: ("home-a100-bbbbbbbbbb",)}
    mixed = plan(world(pods=(pod(),), given_up={pod().identity: once}, disappointed=too_small))
    assert mixed.actions == ()
    assert "home-a100-bbbbbbbbbb (prediction_wrong)" in mixed.pods["default/train"].message


@pytest.mark.parametrize(("gpus", "code"), [(1, Reason.FITS_NOW), (0, Reason.ON_THE_WAY)])
def test_a_pod_whose_machine_is_ready_buys_no_other_because_one_that_may_not_buy_would_fit_it_too(
    gpus: int, code: Reason
) -> None:
    """Until the scheduler binds somebody else there, the machine serves the pod that it was bought for."""
    mine = pod("mine", created=NOW - 1000)
    limited = pod("limited", namespace="team-a", priority=10, created=NOW - 1000)
    ours = machine(ready_at=NOW - 1, pods=(mine.key,))
    snapshot = world(
        policy=policy(namespaces={"team-a": NamespaceLimit(gpus=0)}),
        pods=(mine, limited),
        machines=(ours,),
        nodes=(node(ours.name, gpus),),  # 0: its device plug-in restarts
    )
    decided = plan(snapshot)
    assert [action for action in decided.actions if isinstance(action, Launch)] == []
    assert decided.pods[mine.key].code is code
    assert decided.pods[limited.key].code is Reason.LIMIT_NAMESPACE
