"""Rows 4 to 7 and 30 to 34 of the cases that trusted autoscalers test, each with its neighbours."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from controller.domain.kube import PodDeviceClaim, PodGroup, Taint
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Plan, Refusal, Retire, Snapshot
from controller.domain.policy import Limits
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, A8, NOW, machine, node, offers, pod, policy, pool, world

WAITING = "default/train"


def bought(decided: Plan) -> list[Launch]:
    return [action for action in decided.actions if isinstance(action, Launch)]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"gated": True}, {WAITING: Reason.NOT_DEMAND}),
        ({"deleting_at": NOW + 30}, {WAITING: Reason.NOT_DEMAND}),
        ({"node": "gpu-1"}, {}),
        ({"node": "gpu-1", "waiting": True}, {}),
        ({"mirror": True}, {WAITING: Reason.NOT_DEMAND}),
        ({"owner_kind": "DaemonSet"}, {WAITING: Reason.NOT_DEMAND}),
        ({"nominated": "gpu-1"}, {WAITING: Reason.NOT_DEMAND}),
        ({"phase": "Succeeded"}, {}),
        ({"phase": "Failed"}, {}),
        ({"gpus": 0}, {}),
        ({}, {WAITING: Reason.LAUNCHING}),
    ],
)
def test_case_04_pods_that_are_no_demand(fields: dict[str, Any], told: dict[str, Reason]) -> None:
    decided = plan(world(pods=(pod(**fields),)))
    assert {key: why.code for key, why in decided.pods.items()} == told
    assert len(bought(decided)) == (Reason.LAUNCHING in told.values())


def test_case_05_a_pod_that_the_scheduler_has_not_called_unschedulable_is_no_demand_yet() -> None:
    decided = plan(world(pods=(pod(waiting=False), pod("next"))))
    assert decided.pods[WAITING].code is Reason.NOT_DEMAND
    assert [launch.pods for launch in bought(decided)] == [("default/next",)]


@pytest.mark.parametrize(
    "odd",
    [
        {"node_selector": {"no/such": "label"}},
        {"requests": {"nvidia.com/gpu": 2**62}},
        {"requests": {"example.com/unheard-of": 1}},
        {"device_claims": (PodDeviceClaim(name="gpu"),)},
        {"annotations": {"gpu-autoscaler/gang": "x", "gpu-autoscaler/gang-size": "many"}},
    ],
)
def test_case_06_one_pod_that_cannot_be_served_does_not_keep_the_others_waiting(odd: dict[str, Any]) -> None:
    decided = plan(world(pods=(pod("odd", **odd), pod())))
    assert decided.pods["default/odd"].code is not Reason.LAUNCHING
    assert [launch.pods for launch in bought(decided)] == [(WAITING,)]


@pytest.mark.parametrize(
    ("priority", "cutoff", "demand"), [(-11, -10, False), (-10, -10, True), (-1, 0, False), (0, 0, True)]
)
def test_case_07_a_pod_below_the_cut_off_is_no_demand(priority: int, cutoff: int, demand: bool) -> None:
    decided = plan(world(policy=policy(priority_cutoff=cutoff), pods=(pod(priority=priority),)))
    assert len(bought(decided)) == demand
    assert decided.pods[WAITING].code is (Reason.LAUNCHING if demand else Reason.NOT_DEMAND)


@pytest.mark.parametrize(
    ("priority", "runs", "goes"), [(-11, False, True), (-10, False, False), (-11, True, False)]
)
def test_case_07_a_pod_below_the_cut_off_keeps_no_machine_while_it_waits(
    priority: int, runs: bool, goes: bool
) -> None:
    """Where it runs on a GPU we differ on purpose: work is never hurt, however unimportant it is."""
    idle = machine(ready_at=NOW - 9000)
    marks = {"gpu-autoscaler/idle-since": "2027-01-01T00:00:00Z"}
    asking = pod(priority=priority, **({"node": idle.name} if runs else {}))
    decided = plan(world(machines=(idle,), nodes=(node(idle.name, annotations=marks),), pods=(asking,)))
    assert [action.machine for action in decided.actions if isinstance(action, Retire)] == [idle.name] * goes


@pytest.mark.parametrize(
    ("limits", "kinds", "pods", "launches", "code"),
    [
        (Limits(gpus=1), (A2,), 1, 0, Reason.LIMIT_GPUS),  # nothing so small can be bought
        (Limits(gpus=1), (A1, A2), 1, 1, None),
        (Limits(gpus=0), (A1,), 1, 0, Reason.LIMIT_GPUS),
        (Limits(gpus=3), (A1,), 5, 3, Reason.LIMIT_GPUS),  # in part
        (Limits(gpus=3), (A2,), 5, 1, Reason.LIMIT_GPUS),
    ],
)
def test_case_30_a_gpu_limit_is_never_exceeded_and_what_fits_is_bought(
    limits: Limits, kinds: Any, pods: int, launches: int, code: Reason | None
) -> None:
    waiting = tuple(pod(f"p{number}") for number in range(pods))
    decided = plan(world(policy=policy(limits=limits), offers=offers(*kinds), pods=waiting))
    assert len(bought(decided)) == launches
    refused = {why.code for why in decided.pods.values()} - {Reason.LAUNCHING}
    assert refused == ({code} if code else set())
    if code:
        assert any(f"limits.gpus is {limits.gpus}" in why.message for why in decided.pods.values())


OTHERS = (node("theirs", 4, cpu=64, memory=500), node("cpu-only", 0, cpu=8, memory=32))


@pytest.mark.parametrize(
    ("limits", "launches", "code"),
    [
        (Limits(machines=2), 2, Reason.LIMIT_MACHINES),
        (Limits(cores=43), 1, Reason.LIMIT_CORES),
        (Limits(cores=44), 2, Reason.LIMIT_CORES),
        (Limits(memory_gb=359), 2, Reason.LIMIT_MEMORY),
        (Limits(memory_gb=360), 3, Reason.LIMIT_MEMORY),
        (Limits(cores=0), 0, Reason.LIMIT_CORES),
        # What is not ours counts where the limit says so: 2 nodes, 4 GPUs, 72 cores, 532 GiB.
        (Limits(machines=4, cluster_wide=True), 2, Reason.LIMIT_MACHINES),
        (Limits(machines=2, cluster_wide=True), 0, Reason.LIMIT_MACHINES),
        (Limits(gpus=5, cluster_wide=True), 1, Reason.LIMIT_GPUS),
        (Limits(cores=72 + 43, cluster_wide=True), 1, Reason.LIMIT_CORES),
        (Limits(memory_gb=532 + 240, cluster_wide=True), 2, Reason.LIMIT_MEMORY),
    ],
)
def test_case_31_machines_cores_and_memory_are_limited(limits: Limits, launches: int, code: Reason) -> None:
    waiting = tuple(pod(f"p{number}") for number in range(4))
    users = (pod("user", 4, node="theirs"),)
    decided = plan(world(policy=policy(limits=limits), offers=offers(A1), nodes=OTHERS, pods=waiting + users))
    assert len(bought(decided)) == launches
    assert {why.code for why in decided.pods.values()} - {Reason.LAUNCHING} == {code}


def test_case_31_gpus_of_a_pool_are_limited_beside_its_machines() -> None:
    waiting = tuple(pod(f"p{number}") for number in range(4))
    there = machine("home-a100-aaaaaaaaaa", A2)
    user = pod("user", 2, node=there.name)
    decided = plan(
        world(
            policy=policy(pool(max=10, max_gpus_total=4)),
            offers=offers(A1),
            machines=(there,),
            nodes=(node(there.name, 2),),
            pods=(*waiting, user),
        )
    )
    assert len(bought(decided)) == 2
    why = decided.pods["default/p3"]
    assert why.code is Reason.LIMIT_GPUS
    assert "max_gpus_total of pool a100 is 4, 4 are there" in why.message
    assert "raise it to at least 5" in why.message


TWO_PLACES = offers(A1, locations=("FIN-01", "FIN-03"))


def refused(offer: Any, until: float = NOW + 60) -> Refusal:
    return Refusal(offer=offer.key, reason=Reason.NO_CAPACITY, until=until)


@pytest.mark.parametrize(
    ("refusals", "where"),
    [
        ((), "FIN-01"),
        ((refused(TWO_PLACES[0]),), "FIN-03"),
        ((refused(TWO_PLACES[1]),), "FIN-01"),
        ((refused(TWO_PLACES[0], NOW),), "FIN-01"),  # its back-off is over
    ],
)
def test_case_32_a_refused_offer_is_left_alone_until_its_back_off_ends(refusals: Any, where: str) -> None:
    decided = plan(world(offers=TWO_PLACES, refusals=refusals, pods=(pod(),)))
    assert [launch.offer.location for launch in bought(decided)] == [where]


def test_case_32_when_every_offer_is_refused_there_is_one_clear_answer_and_a_moment_to_look_again() -> None:
    refusals = tuple(refused(offer, NOW + 60 + n) for n, offer in enumerate(TWO_PLACES))
    snapshot = world(offers=TWO_PLACES, refusals=refusals, pods=(pod(),))
    decided = plan(snapshot)
    assert bought(decided) == []
    assert decided.pods[WAITING].code is Reason.NO_CAPACITY
    assert decided.wake_at == NOW + 60
    later = plan(msgspec.structs.replace(snapshot, now=NOW + 5))
    assert later.pods == decided.pods  # the same words, or each pass would be an event


def launched(snapshot: Snapshot, launches: list[Launch]) -> Snapshot:
    """The picture after these orders, and no others, were accepted."""
    there = tuple(
        machine(
            f"home-a100-{'abcdefghij'[number] * 10}",
            launch.offer.type,
            Phase.ORDERED,
            pods=launch.pods,
            ordered_at=NOW,
            intended_at=NOW,
        )
        for number, launch in enumerate(launches)
    )
    return msgspec.structs.replace(
        snapshot, machines=there, launches=tuple(NOW for _ in launches), now=NOW + 1
    )


@pytest.mark.parametrize("failed", range(4))
def test_case_33_what_was_not_bought_is_planned_again_and_nothing_else(failed: int) -> None:
    waiting = tuple(pod(f"p{number}", 8) for number in range(4))
    snapshot = world(policy=policy(pool(max=4), limits=Limits(gpus=32)), offers=offers(A8), pods=waiting)
    first = bought(plan(snapshot))
    assert len(first) == 4
    again = plan(launched(snapshot, first[:failed] + first[failed + 1 :]))
    assert [launch.pods for launch in bought(again)] == [first[failed].pods]
    assert {why.code for why in again.pods.values()} == {Reason.LAUNCHING, Reason.ON_THE_WAY}


def member(number: int, **more: Any) -> Any:
    return pod(f"m{number}", **({"labels": {"scheduling.x-k8s.io/pod-group": "llm"}} | more))


LLM = PodGroup(namespace="default", name="llm", system="coscheduling", min_member=3)


@pytest.mark.parametrize(
    ("limits", "kinds", "gpus", "words"),
    [
        (Limits(gpus=2), (A1,), 1, "limits.gpus is 2"),
        (Limits(machines=2), (A1,), 1, "limits.machines is 2"),
        (Limits(price_per_hour=Decimal("3.86")), (A1,), 1, "limits.price_per_hour is 3.86"),
        (Limits(launches_per_minute=2), (A1,), 1, "limits.launches_per_minute is 2"),
        (Limits(), (A4,), 8, "needs 8 nvidia.com/gpu on one machine"),
    ],
)
def test_case_34_a_set_that_cannot_be_completed_buys_nothing_and_the_others_go_on(
    limits: Limits, kinds: Any, gpus: int, words: str
) -> None:
    members = tuple(member(number, gpus=gpus) for number in range(3))
    decided = plan(
        world(policy=policy(limits=limits), offers=offers(*kinds), pods=(*members, pod()), pod_groups=(LLM,))
    )
    assert [launch.pods for launch in bought(decided)] == [(WAITING,)]
    for one in members:
        why = decided.pods[one.key]
        assert why.code is Reason.GANG_INCOMPLETE
        assert "PodGroup default/llm needs a place for 3 more pods at once" in why.message
        assert words in why.message


@pytest.mark.parametrize(
    ("driver", "there", "launches"),
    [
        ({}, (), 2),
        ({"requests": {"cpu": 500_000}}, (), 0),
        ({"node_selector": {"no": "such"}}, (), 0),
        ({"node_selector": {"no": "such"}, "node": "cpu"}, (), 2),
        ({"requests": {"cpu": 22_000}}, (), 0),
        ({"requests": {"cpu": 22_000}}, (node("cpu", 0),), 2),
        ({"requests": {"cpu": 22_000}}, (node("cpu", 0, unschedulable=True),), 0),
        ({"requests": {"cpu": 22_000}}, (node("cpu", 0, ready=False, ready_since=NOW - 3000),), 0),
        (
            {"requests": {"cpu": 22_000}},
            (node("cpu", 0, taints=(Taint("theirs", effect="NoSchedule"),)),),
            0,
        ),
    ],
)
def test_case_34_a_member_without_gpu_that_fits_nowhere_keeps_its_gang_from_being_bought_for(
    driver: dict[str, Any], there: tuple[Any, ...], launches: int
) -> None:
    pods = (member(0, gpus=0, **driver), member(1), member(2))
    decided = plan(world(offers=offers(A1), nodes=there, pods=(*pods, pod()), pod_groups=(LLM,)))
    assert len(bought(decided)) == launches + 1
    assert decided.pods[WAITING].code is Reason.LAUNCHING
    expected = Reason.LAUNCHING if launches else Reason.GANG_INCOMPLETE
    assert {decided.pods[one.key].code for one in pods[1:]} == {expected}
    if not launches:
        assert "cannot start without pod default/m0" in decided.pods["default/m1"].message


def test_case_34_of_a_gang_whose_minimum_fits_the_rest_is_bought_as_far_as_limits_go() -> None:
    members = tuple(member(number) for number in range(5))
    decided = plan(
        world(policy=policy(limits=Limits(gpus=4)), offers=offers(A1), pods=members, pod_groups=(LLM,))
    )
    assert len(bought(decided)) == 4
    assert [why.code for why in decided.pods.values()].count(Reason.LIMIT_GPUS) == 1
