"""Gangs: who belongs to one by every convention, when it is complete, and that it is planned whole or not at all."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.kube import Job, PodGroup, Selector, Spread
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Plan, Snapshot
from controller.domain.policy import Limits
from controller.domain.reason import Reason
from controller.planning import drafts
from controller.planning.demand import gather
from controller.planning.device_claims import Claims
from controller.planning.packing import Packer
from controller.planning.picture import in_order
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, A8, NOW, machine, node, offers, pod, policy, pool, world

OURS = {"gpu-autoscaler/gang": "llm", "gpu-autoscaler/gang-size": "3"}
COSCHEDULING = {"labels": {"scheduling.x-k8s.io/pod-group": "llm"}}
VOLCANO = {"annotations": {"scheduling.k8s.io/group-name": "llm"}}
KAI = {"annotations": {"pod-group-name": "llm"}}
NATIVE = {"workload": "llm"}
KUEUE = {
    "labels": {"kueue.x-k8s.io/pod-group-name": "llm"},
    "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"},
}
LWS = {
    "labels": {"leaderworkerset.sigs.k8s.io/name": "llm", "leaderworkerset.sigs.k8s.io/group-index": "0"},
    "annotations": {"leaderworkerset.sigs.k8s.io/size": "3"},
}
JOBSET = {
    "labels": {
        "jobset.sigs.k8s.io/jobset-name": "llm",
        "jobset.sigs.k8s.io/replicatedjob-name": "workers",
        "jobset.sigs.k8s.io/replicatedjob-replicas": "1",
        "jobset.sigs.k8s.io/global-replicas": "1",
    },
    "owner_kind": "Job",
    "owner_uid": "j",
}
KUBEFLOW = {"labels": {"training.kubeflow.org/job-name": "llm"}}
RAY = {"labels": {"ray.io/cluster": "llm", "ray.io/gang-scheduling-enabled": "true"}}
JOBS = (Job(namespace="default", name="llm-workers-0", uid="j", parallelism=3, completions=3),)


def group(system: str, least: int = 3, **more: Any) -> PodGroup:
    return PodGroup(namespace="default", name="llm", system=system, min_member=least, **more)


def members(marks: dict[str, Any], count: int, **more: Any) -> tuple[Any, ...]:
    return tuple(pod(f"m{number}", **(marks | more)) for number in range(count))


def bought(decided: Plan) -> list[Launch]:
    return [action for action in decided.actions if isinstance(action, Launch)]


def gang_of(snapshot: Snapshot) -> Any:
    snapshot = in_order(snapshot)
    found = gather(snapshot, Claims(snapshot)).gangs
    assert len({id(gang) for gang in found.values()}) <= 1
    return next(iter(found.values()), None)


STRICT: list[tuple[dict[str, Any], tuple[PodGroup, ...]]] = [
    ({"annotations": OURS}, ()),
    (COSCHEDULING, (group("coscheduling"),)),
    ({"labels": {"pod-group.scheduling.sigs.k8s.io/name": "llm"}}, (group("coscheduling"),)),
    (
        {
            "labels": {
                "pod-group.scheduling.sigs.k8s.io/name": "llm",
                "pod-group.scheduling.sigs.k8s.io/min-available": "3",
            }
        },
        (),
    ),
    (VOLCANO, (group("volcano"),)),
    (KAI, (group("kai"),)),
    (NATIVE, (group("native"),)),
    (KUEUE, ()),
]
OWNED: list[tuple[dict[str, Any], tuple[Job, ...], int]] = [
    (LWS, (), 3),
    (JOBSET, JOBS, 3),
    (KUBEFLOW, (), 0),
    (RAY, (), 0),
]


@pytest.mark.parametrize(("marks", "groups"), STRICT)
def test_a_gang_that_its_system_starts_whole_is_bought_when_all_are_there(marks: Any, groups: Any) -> None:
    snapshot = world(offers=offers(A1), pods=members(marks, 3), pod_groups=groups)
    gang = gang_of(snapshot)
    assert (gang.size, gang.needed) == (3, 3)
    decided = plan(snapshot)
    assert len(bought(decided)) == 3
    assert all("as a whole gets 3 machines for 3.87 an hour" in why.message for why in decided.pods.values())


@pytest.mark.parametrize(("marks", "groups"), STRICT)
@pytest.mark.parametrize("there", [1, 2])
def test_of_such_a_gang_nothing_is_bought_while_members_lack(marks: Any, groups: Any, there: int) -> None:
    young = world(offers=offers(A1), pods=members(marks, there), pod_groups=groups)
    decided = plan(young)
    assert bought(decided) == []
    assert {why.code for why in decided.pods.values()} == {Reason.WAITS_FOR_SIBLINGS}
    assert decided.wake_at == NOW + 5
    old = plan(world(offers=offers(A1), pods=members(marks, there, created=NOW - 11), pod_groups=groups))
    assert bought(old) == []
    for why in old.pods.values():
        assert why.code is Reason.GANG_INCOMPLETE
        assert f"{there} of the 3 pods" in why.message


@pytest.mark.parametrize(("marks", "jobs", "size"), OWNED)
def test_what_an_owner_makes_later_is_waited_for_and_then_what_is_there_is_bought(
    marks: Any, jobs: Any, size: int
) -> None:
    young = world(offers=offers(A1), pods=members(marks, 2), jobs=jobs)
    assert len(bought(plan(young))) == (0 if size else 2)
    old = world(offers=offers(A1), pods=members(marks, 2, created=NOW - 11), jobs=jobs)
    assert (gang_of(old).size, gang_of(old).needed) == (size, 2)
    assert len(bought(plan(old))) == 2
    limited = world(policy=policy(limits=Limits(gpus=1)), offers=offers(A1), pods=old.pods, jobs=jobs)
    assert bought(plan(limited)) == []


def test_a_jobset_counts_the_jobs_that_no_pod_shows_yet() -> None:
    labels = JOBSET["labels"] | {
        "jobset.sigs.k8s.io/replicatedjob-replicas": "2",
        "jobset.sigs.k8s.io/global-replicas": "3",
    }
    snapshot = world(pods=members({**JOBSET, "labels": labels}, 3, created=NOW - 11), jobs=JOBS)
    assert gang_of(snapshot).size == 2 * 3 + 1


def test_pods_of_a_plain_job_are_of_use_one_by_one() -> None:
    pods = members({"owner_kind": "Job", "owner_uid": "j"}, 3)
    limited = policy(limits=Limits(gpus=1))
    assert len(bought(plan(world(policy=limited, offers=offers(A1), pods=pods, jobs=JOBS)))) == 1


def test_each_group_of_a_leader_worker_set_is_a_gang_of_its_own() -> None:
    second = LWS["labels"] | {"leaderworkerset.sigs.k8s.io/group-index": "1"}
    pods = members(LWS, 3) + tuple(pod(f"n{n}", **(LWS | {"labels": second})) for n in range(3))
    decided = plan(world(policy=policy(limits=Limits(gpus=5)), offers=offers(A1), pods=pods))
    assert len(bought(decided)) == 3
    codes = [why.code for why in decided.pods.values()]
    assert (codes.count(Reason.LAUNCHING), codes.count(Reason.GANG_INCOMPLETE)) == (3, 3)


def test_running_members_count_and_the_rest_is_bought_whole() -> None:
    there = machine("home-a100-aaaaaaaaaa", A1)
    running = pod("m0", node=there.name, **COSCHEDULING)
    snapshot = world(
        offers=offers(A1),
        machines=(there,),
        nodes=(node(there.name),),
        pods=(running, *members(COSCHEDULING, 3)[1:]),
        pod_groups=(group("coscheduling"),),
    )
    assert gang_of(snapshot).needed == 2
    assert len(bought(plan(snapshot))) == 2


@pytest.mark.parametrize(
    "fields", [{"gated": True}, {"deleting_at": NOW + 30}, {"phase": "Failed"}, {"phase": "Succeeded"}]
)
def test_members_that_are_held_back_or_gone_do_not_count(fields: dict[str, Any]) -> None:
    pods = (*members(COSCHEDULING, 2, created=NOW - 60), pod("m2", **(COSCHEDULING | fields)))
    decided = plan(world(offers=offers(A1), pods=pods, pod_groups=(group("coscheduling"),)))
    assert bought(decided) == []
    assert "2 of the 3 pods" in decided.pods["default/m0"].message


def test_members_without_gpus_and_members_with_a_place_by_preemption_count() -> None:
    master = pod("master", 0, **COSCHEDULING)
    placed = pod("placed", nominated="gpu-1", **COSCHEDULING)
    pods = (master, placed, *members(COSCHEDULING, 1))
    decided = plan(world(offers=offers(A1), pods=pods, pod_groups=(group("coscheduling"),)))
    assert [launch.pods for launch in bought(decided)] == [("default/m0",)]


@pytest.mark.parametrize(
    ("drivers", "workers", "launches"), [(1, 2, 2), (1, 1, 0), (2, 2, 2), (2, 1, 0), (3, 1, 0)]
)
def test_a_gang_goes_on_without_members_that_fit_nowhere_if_enough_others_get_a_place(
    drivers: int, workers: int, launches: int
) -> None:
    nowhere = tuple(pod(f"d{n}", 0, requests={"cpu": 500_000}, **COSCHEDULING) for n in range(drivers))
    snapshot = world(
        offers=offers(A1),
        pods=(*nowhere, *members(COSCHEDULING, workers)),
        pod_groups=(group("coscheduling", 2),),
    )
    assert len(bought(plan(snapshot))) == launches


@pytest.mark.parametrize(("cpu", "launches"), [(9_000, 1), (11_000, 0)])
def test_members_without_gpus_are_given_a_place_each(cpu: int, launches: int) -> None:
    drivers = tuple(pod(f"d{n}", 0, requests={"cpu": cpu}, **COSCHEDULING) for n in range(2))
    snapshot = world(
        offers=offers(A1),
        nodes=(node("theirs", 0, cpu=11),),
        pods=(*drivers, *members(COSCHEDULING, 1, requests={"cpu": 12_000})),
        pod_groups=(group("coscheduling"),),
    )
    assert len(bought(plan(snapshot))) == launches


def test_two_gangs_do_not_count_on_the_same_place_for_members_without_gpus() -> None:
    pods = [
        pod(f"{name}-{n}", n, labels={"scheduling.x-k8s.io/pod-group": name}, requests={"cpu": 20_000})
        for name in ("a", "b")
        for n in range(2)
    ]
    groups = tuple(replace(group("coscheduling", 2), name=name) for name in ("a", "b"))
    decided = plan(world(offers=offers(A1), nodes=(node("theirs", 0),), pods=tuple(pods), pod_groups=groups))
    assert [launch.pods for launch in bought(decided)] == [("default/a-1",)]
    assert decided.pods["default/b-1"].code is Reason.GANG_INCOMPLETE


def test_a_machine_on_its_way_or_freed_soon_is_room_for_a_member_without_gpu() -> None:
    driver = pod("driver", 0, requests={"cpu": 21_000}, **COSCHEDULING)
    pods = (driver, *members(COSCHEDULING, 1, requests={"cpu": 20_000}))
    groups = (group("coscheduling", 2),)
    assert bought(plan(world(offers=offers(A1), pods=pods, pod_groups=groups))) == []
    coming = machine(of=A2, phase=Phase.BOOTING, pods=("default/m0",))
    assert (
        plan(world(machines=(coming,), pods=pods, pod_groups=groups)).pods["default/m0"].code
        is Reason.ON_THE_WAY
    )
    going = pod("going", 0, node="theirs", requests={"cpu": 21_000}, deleting_at=NOW + 30)
    freed = world(offers=offers(A1), nodes=(node("theirs", 0),), pods=(*pods, going), pod_groups=groups)
    assert len(bought(plan(freed))) == 1


@pytest.mark.parametrize(
    ("marks", "system"),
    [(NATIVE, "native"), (COSCHEDULING, "coscheduling"), (VOLCANO, "volcano"), (KAI, "kai")],
)
def test_pods_of_a_group_without_a_minimum_are_of_use_one_by_one(marks: Any, system: str) -> None:
    """Such as Kubernetes' own with the policy `basic`."""
    large, quiet = pod("large", 16, **marks), pod("quiet", waiting=False, **marks)
    pods = (pod("small", **marks), large, quiet)
    decided = plan(world(offers=offers(A1), pods=pods, pod_groups=(group(system, 0),)))
    assert [launch.pods for launch in bought(decided)] == [("default/small",)]
    assert decided.pods["default/large"].code is Reason.TOO_LARGE
    assert decided.pods["default/quiet"].code is Reason.NOT_DEMAND


def test_a_group_without_a_minimum_that_waits_for_quota_buys_nothing() -> None:
    waits = group("volcano", 0, waits_for_quota="the queue is full")
    decided = plan(world(offers=offers(A1), pods=members(VOLCANO, 2), pod_groups=(waits,)))
    assert bought(decided) == []
    assert {why.code for why in decided.pods.values()} == {Reason.QUOTA_BLOCKED}


@pytest.mark.parametrize("marks", [COSCHEDULING, VOLCANO, NATIVE])
def test_one_member_called_unschedulable_makes_the_others_demand(marks: Any) -> None:
    quiet = tuple(pod(f"q{n}", waiting=False, **marks) for n in range(2))
    groups = tuple(group(system) for system in ("coscheduling", "volcano", "native"))
    one = plan(world(offers=offers(A1), pods=(*quiet, *members(marks, 1)), pod_groups=groups))
    assert len(bought(one)) == 3
    none = plan(world(offers=offers(A1), pods=(*quiet, pod("m0", waiting=False, **marks)), pod_groups=groups))
    assert bought(none) == []


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        (
            [OURS, OURS | {"gpu-autoscaler/gang-size": "4"}],
            "disagree about gpu-autoscaler/gang-size: '3', '4'",
        ),
        ([OURS, {"gpu-autoscaler/gang": "llm"}], "disagree"),
        ([{"gpu-autoscaler/gang": "llm"}], "needs a whole number above zero"),
        ([OURS | {"gpu-autoscaler/gang-size": "many"}], "its pods say 'many'"),
        ([OURS | {"gpu-autoscaler/gang-size": "0"}], "its pods say '0'"),
        ([OURS | {"gpu-autoscaler/gang-size": "-3"}], "its pods say '-3'"),
        ([OURS | {"gpu-autoscaler/gang-size": "٣"}], "needs a whole number"),
        ([OURS | {"gpu-autoscaler/gang-size": "9" * 5000}], "needs a whole number"),
        ([{"gpu-autoscaler/gang-size": "3"}], "says gpu-autoscaler/gang-size and no gpu-autoscaler/gang"),
    ],
)
def test_a_gang_that_contradicts_itself_is_told_and_nothing_is_bought_by_guess(
    annotations: Any, words: str
) -> None:
    pods = tuple(pod(f"m{n}", annotations=annotations[n % len(annotations)]) for n in range(3))
    decided = plan(world(offers=offers(A1), pods=(*pods, pod())))
    assert [launch.pods for launch in bought(decided)] == [("default/train",)]
    why = decided.pods["default/m0"]
    assert why.code is Reason.GANG_INCOMPLETE
    assert words in why.message


def test_a_group_that_is_not_to_be_seen_is_told() -> None:
    decided = plan(world(offers=offers(A1), pods=members(COSCHEDULING, 3)))
    assert bought(decided) == []
    assert "PodGroup default/llm is not to be seen" in decided.pods["default/m0"].message


@pytest.mark.parametrize(
    "message",
    [
        "GPU quota has reached the allowable limit of GPUs for queue team-a",
        "Non-preemptible workload is over quota",
        "Pod default/x is rejected in PreFilter because ElasticQuota default/q is more than Max",
        "Pod is rejected because total ElasticQuota used is more than min",
        "queue resource quota insufficient",
    ],
)
def test_a_pod_that_waits_for_quota_buys_nothing(message: str) -> None:
    decided = plan(world(pods=(pod(message=message), pod("other", message="0/3 nodes are available"))))
    assert [launch.pods for launch in bought(decided)] == [("default/other",)]
    why = decided.pods["default/train"]
    assert why.code is Reason.QUOTA_BLOCKED
    assert message in why.message


def test_the_words_that_mean_quota_are_a_setting() -> None:
    mine = policy(quota_messages=("no more coins",))
    pods = (
        pod("a", message="there are no more coins"),
        pod("b", message="queue resource quota insufficient"),
    )
    assert [launch.pods for launch in bought(plan(world(policy=mine, pods=pods)))] == [("default/b",)]


def test_a_gang_whose_group_waits_for_quota_buys_nothing() -> None:
    waiting = group("volcano", waits_for_quota="queue resource quota insufficient")
    decided = plan(world(pods=members(VOLCANO, 3), pod_groups=(waiting,)))
    assert bought(decided) == []
    assert {why.code for why in decided.pods.values()} == {Reason.QUOTA_BLOCKED}


def test_one_member_that_waits_for_quota_stops_the_gang() -> None:
    pods = (
        *members(COSCHEDULING, 2, created=NOW - 60),
        pod("m2", message="total ElasticQuota used is more than min", **COSCHEDULING),
    )
    decided = plan(world(pods=pods, pod_groups=(group("coscheduling"),)))
    assert bought(decided) == []
    assert {why.code for why in decided.pods.values()} == {Reason.QUOTA_BLOCKED}


def test_when_limits_bind_the_order_is_priority_gang_gpus_and_age() -> None:
    pods = (
        pod("old", created=NOW - 900),
        pod("big", 4),
        pod("urgent", priority=7),
        *members(COSCHEDULING, 3),
    )
    snapshot = world(pods=pods, pod_groups=(group("coscheduling"),))
    snapshot = in_order(snapshot)
    assert [one.name for one in gather(snapshot, Claims(snapshot)).pods] == [
        "urgent",
        "m0",
        "m1",
        "m2",
        "big",
        "old",
    ]


def test_members_on_their_way_are_not_bought_again() -> None:
    there = tuple(
        machine(f"home-a100-{'abc'[n] * 10}", A1, Phase.ORDERED, pods=(f"default/m{n}",)) for n in range(3)
    )
    decided = plan(
        world(
            offers=offers(A1),
            machines=there,
            pods=members(COSCHEDULING, 3),
            pod_groups=(group("coscheduling"),),
        )
    )
    assert bought(decided) == []
    assert {why.code for why in decided.pods.values()} == {Reason.ON_THE_WAY}


def test_one_lost_machine_of_a_gang_is_bought_again_alone() -> None:
    there = tuple(
        machine(f"home-a100-{'abc'[n] * 10}", A1, Phase.ORDERED, pods=(f"default/m{n}",)) for n in range(2)
    )
    decided = plan(
        world(
            offers=offers(A1),
            machines=there,
            pods=members(COSCHEDULING, 3, created=NOW - 1000),
            pod_groups=(group("coscheduling"),),
        )
    )
    assert [launch.pods for launch in bought(decided)] == [("default/m2",)]


def test_a_gang_is_in_one_location_where_that_is_asked_for() -> None:
    places = offers(A1, locations=("FIN-01", "FIN-03"))
    pods = members({"annotations": OURS | {"gpu-autoscaler/gang-one-location": "true"}}, 3)
    snapshot = world(offers=places, pods=pods)
    assert gang_of(snapshot).one_location
    launches = bought(plan(snapshot))
    assert len({launch.offer.location for launch in launches}) == 1
    everywhere = world(policy=policy(gangs_in_one_location=True), pods=members(COSCHEDULING, 3))
    assert gang_of(
        world(policy=everywhere.policy, pods=everywhere.pods, pod_groups=(group("coscheduling"),))
    ).one_location
    said = members({"annotations": OURS | {"gpu-autoscaler/gang-one-location": "false"}}, 3)
    assert not gang_of(world(policy=everywhere.policy, pods=said)).one_location


ONE = {"annotations": OURS | {"gpu-autoscaler/gang-one-location": "true"}}
PLACES = offers(A1, locations=("FIN-01", "FIN-03"))


@pytest.mark.parametrize(
    ("more", "places"),
    [
        ({}, {"FIN-01"}),
        ({"offers": offers(A1, locations=("FIN-03",)) + offers(A1, available=False)}, {"FIN-03"}),
        (  # one of them must be where the others need not be
            {
                "pods": (
                    *members(ONE, 2),
                    pod("m2", node_selector={"gpu-autoscaler/location": "FIN-03"}, **ONE),
                )
            },
            {"FIN-03"},
        ),
        (  # two that cannot meet
            {
                "pods": (
                    pod("m0", **ONE),
                    pod("m1", node_selector={"gpu-autoscaler/location": "FIN-01"}, **ONE),
                    pod("m2", node_selector={"gpu-autoscaler/location": "FIN-03"}, **ONE),
                )
            },
            set(),
        ),
        (  # one runs already
            {
                "machines": (machine("home-a100-aaaaaaaaaa", A1, location="FIN-03"),),
                "nodes": (node("home-a100-aaaaaaaaaa", labels={"topology.kubernetes.io/zone": "FIN-03"}),),
                "pods": (*members(ONE, 2), pod("m2", node="home-a100-aaaaaaaaaa", **ONE)),
            },
            {"FIN-03"},
        ),
        (  # one has a machine on its way
            {
                "machines": (
                    machine(
                        "home-a100-aaaaaaaaaa",
                        A1,
                        Phase.ORDERED,
                        location="FIN-03",
                        pods=("default/m2",),
                    ),
                ),
            },
            {"FIN-03"},
        ),
    ],
)
def test_members_that_must_be_in_one_location_never_part(more: dict[str, Any], places: set[str]) -> None:
    decided = plan(world(**({"offers": PLACES, "pods": members(ONE, 3)} | more)))
    assert {launch.offer.location for launch in bought(decided)} == places


FIRST, SECOND = offers(A1, locations=("FIN-01",)), offers(A8, locations=("FIN-02",))
EIGHT = {"annotations": ONE["annotations"] | {"gpu-autoscaler/gang-size": "8"}}


@pytest.mark.parametrize("strategy", ["smallest", "cheapest"])
@pytest.mark.parametrize(
    ("most", "price", "types"),
    [
        (10, "10.32", ["1A100.22V"] * 8),  # as cheap, and each can leave alone
        (4, "10.32", ["8A100.176V"]),  # eight machines are more than the pool may have
        (10, "9", ["8A100.176V"] * 1),  # shared, it is the cheaper one
    ],
)
def test_a_gang_gets_the_location_in_which_it_comes_together_for_the_least(
    most: int, price: str, types: list[str], strategy: str
) -> None:
    second = tuple(replace(o, type=replace(o.type, price=Decimal(price))) for o in SECOND)
    rules = policy(pool(max=most), strategy=strategy)
    decided = plan(world(policy=rules, offers=(*FIRST, *second), pods=members(EIGHT, 8)))
    assert [launch.offer.type.name for launch in bought(decided)] == types


def test_what_is_free_in_the_location_of_a_gang_is_used_before_more_is_bought() -> None:
    there = node("there", labels={names.LABEL_HOSTNAME: "there", names.LABEL_ZONE: "FIN-01"})
    decided = plan(world(offers=FIRST, nodes=(there,), pods=members(ONE, 3)))
    assert len(bought(decided)) == 2
    assert [why.code for why in decided.pods.values()].count(Reason.FITS_NOW) == 1


def test_two_gangs_of_which_each_needs_another_location_both_get_theirs() -> None:
    pods = (
        *members(EIGHT, 8),
        *(pod(f"o{n}", annotations=EIGHT["annotations"] | {names.POD_GANG: "other"}) for n in range(8)),
    )
    decided = plan(world(policy=policy(pool(max=9)), offers=(*FIRST, *SECOND), pods=pods))
    assert sorted(launch.offer.location for launch in bought(decided)) == ["FIN-01"] * 8 + ["FIN-02"]


def test_a_gang_gets_its_location_also_behind_gangs_that_no_location_helps() -> None:
    """Each of those has a place that exists, and is left out only after it was tried everywhere."""
    places = ("FIN-01", "FIN-02", "FIN-03", "ICE-01")

    def gang(name: str, *gpus: int) -> tuple[Any, ...]:
        marks = ONE["annotations"] | {names.POD_GANG: name, "gpu-autoscaler/gang-size": str(len(gpus))}
        return tuple(pod(f"{name}{n}", many, annotations=marks) for n, many in enumerate(gpus))

    free = tuple(
        node(f"{place}-{n}", labels={names.LABEL_HOSTNAME: f"{place}-{n}", names.LABEL_ZONE: place})
        for place in places
        for n in range(4)
    )
    sold = (*offers(A1, locations=places[:3]), *offers(A4, locations=places[3:]))
    hopeless = (*gang("h1", 1, *[4] * 8), *gang("h2", 1, *[4] * 8), *gang("h3", 1, *[4] * 8))
    found = world(policy=policy(pool(max=1)), offers=sold, nodes=free, pods=(*gang("z", *[1] * 8), *hopeless))
    assert [launch.offer.location for launch in bought(plan(found))] == ["ICE-01"]


def test_what_is_in_a_gangs_way_is_told_of_the_location_that_comes_closest() -> None:
    rules = policy(pool(max=4), limits=Limits(gpus=7))
    decided = plan(world(policy=rules, offers=(*FIRST, *SECOND), pods=members(EIGHT, 8)))
    assert bought(decided) == []
    assert {why.code for why in decided.pods.values()} == {Reason.GANG_INCOMPLETE}
    assert all("pool a100 has 4 of at most 4 machines" in why.message for why in decided.pods.values())


def test_no_part_of_a_gang_is_ever_bought_whatever_the_limits() -> None:
    for size in range(1, 7):
        for gpus in range(9):
            for price in (Decimal("1.29") * n for n in (1, 3, 6)):
                marks = {"annotations": OURS | {"gpu-autoscaler/gang-size": str(size)}}
                limits = Limits(gpus=gpus, price_per_hour=price)
                pods = (*members(marks, size), pod("alone", priority=1))
                decided = plan(world(policy=policy(limits=limits), offers=offers(A1), pods=pods))
                served = {key for launch in bought(decided) for key in launch.pods} - {"default/alone"}
                assert len(served) in (0, size), (size, gpus, price)


@pytest.mark.parametrize("promised", [True, False])
@pytest.mark.parametrize("sold_in", ["FIN-00", "FIN-02"])
def test_a_gang_whose_machines_are_ready_in_one_location_is_not_bought_for_in_another(
    promised: bool, sold_in: str
) -> None:
    """Its machines were the last ones there, or another place became cheaper, before the scheduler bound it."""
    said = {names.POD_GANG: "g", names.POD_GANG_SIZE: "2", names.POD_GANG_ONE_LOCATION: "true"}
    pods = [pod(f"p{n}", annotations=said, created=NOW - 1000) for n in range(2)]
    ours = [
        machine(f"home-a100-{letter * 10}", ready_at=NOW - 5, pods=(pods[n].key,) if promised else ())
        for n, letter in enumerate("ab")
    ]
    nodes = [node(m.name, labels={names.LABEL_HOSTNAME: m.name, names.LABEL_ZONE: m.location}) for m in ours]
    sold = offers(A1, locations=(sold_in, "FIN-01"))
    sold = tuple(msgspec.structs.replace(o, available=o.location == sold_in) for o in sold)
    decided = plan(world(pods=tuple(pods), machines=tuple(ours), nodes=tuple(nodes), offers=sold))
    assert [a for a in decided.actions if isinstance(a, Launch)] == []
    assert {why.code for why in decided.pods.values()} == {Reason.FITS_NOW}


def test_a_hundred_gangs_that_nothing_helps_are_told_after_two_looks_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    packed: list[int] = []
    drafted, best = drafts.make, Packer.best

    def counted(*args: Any) -> Any:
        looks.append(1)
        return drafted(*args)

    def counting(self: Packer, pods: Any, *more: Any) -> Any:
        packed.append(len(pods))
        return best(self, pods, *more)

    monkeypatch.setattr(drafts, "make", counted)
    monkeypatch.setattr(Packer, "best", counting)
    waiting = []
    for number in range(100):
        name = f"gang-{number}"
        over = Spread(topology_key=names.LABEL_ZONE, selector=Selector(labels={"job": name}))
        marks = {names.POD_GANG: name, names.POD_GANG_SIZE: "4"}
        waiting += [
            pod(
                f"{name}-{m}",
                labels={"job": name},
                spreads=(over,),
                annotations=marks,
                node_selector={"nowhere": "true"} if m == 0 else {},
            )
            for m in range(4)
        ]
    decided = plan(world(pods=tuple(waiting)))
    assert not bought(decided)
    assert {why.code for why in decided.pods.values()} == {Reason.GANG_INCOMPLETE}
    assert "only 3 would get a place" in decided.pods["default/gang-0-1"].message
    assert "nowhere=true" in decided.pods["default/gang-0-1"].message
    assert len(looks) == 2
    assert not any(packed)


def test_as_many_gangs_as_there_is_room_for_are_served_and_the_others_stand_in_nobodys_way() -> None:
    """Eight gangs of three, a node with two GPUs and at most one machine: three gangs, and one GPU is left."""
    marks = [{names.POD_GANG: f"gang-{n}", names.POD_GANG_SIZE: "3"} for n in range(8)]
    waiting = tuple(pod(f"g{n}-{m}", annotations=marks[n]) for n in range(8) for m in range(3))
    small = pod("small", created=NOW - 1)
    decided = plan(world(pods=(*waiting, small), nodes=(node("n", 2),), policy=policy(pool(max=1))))
    codes = [why.code for why in decided.pods.values()]
    assert codes.count(Reason.GANG_INCOMPLETE) == 15
    assert decided.pods["default/small"].code in (Reason.FITS_NOW, Reason.LAUNCHING)


def in_workload(*pods: tuple[str, str], parts: dict[str, int] | None = None, **more: Any) -> Snapshot:
    """Pods by pod group and replica key, in a Workload of Kubernetes 1.35."""
    found = PodGroup(namespace="default", name="wl", system="workload", parts=parts or {})
    waiting = tuple(pod(f"m{n}", workload=f"wl/{part}/{key}") for n, (part, key) in enumerate(pods))
    return world(offers=offers(A1), pods=waiting, pod_groups=(found,) if parts else (), **more)


WORKERS = {"workers": 2, "leader": 1, "loose": 0}


@pytest.mark.parametrize(
    ("pods", "launches"),
    [
        ([("workers", ""), ("workers", "")], 2),
        ([("workers", "")], 0),
        ([("workers", "0"), ("workers", "1")], 0),  # each replica is a gang of its own
        ([("workers", "0"), ("workers", "1"), ("workers", "0"), ("workers", "1")], 4),
        ([("leader", "")], 1),
        ([("loose", ""), ("loose", "")], 2),
    ],
)
def test_the_pod_groups_of_a_workload_are_gangs(pods: list[tuple[str, str]], launches: int) -> None:
    assert len(bought(plan(in_workload(*pods, parts=WORKERS, now=NOW + 60)))) == launches


def test_pods_of_a_workload_that_are_of_use_one_by_one_are_no_gang() -> None:
    two = in_workload(
        ("loose", ""), ("loose", ""), parts=WORKERS, policy=policy(pool(max=1), max_overshoot=0)
    )
    assert len(bought(plan(two))) == 1


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (in_workload(("workers", "")), "Workload default/wl is not to be seen"),
        (in_workload(("other", ""), parts=WORKERS), "Workload default/wl has no pod group other"),
        (
            in_workload(("workers", ""), parts=WORKERS, unreadable=("workloads.scheduling.k8s.io",)),
            "may not read workloads.scheduling.k8s.io",
        ),
    ],
)
def test_a_workload_that_does_not_tell_is_not_guessed(snapshot: Snapshot, words: str) -> None:
    decided = plan(snapshot)
    assert not bought(decided)
    assert words in decided.pods["default/m0"].message


def test_pods_of_an_earlier_run_that_are_still_listed_make_a_gang_no_older() -> None:
    """It was started again: the others are waited for, whatever is left of the run before."""
    earlier = replace(pod("old", **JOBSET, phase="Failed", created=NOW - 9000), unschedulable_since=None)
    young = world(offers=offers(A1), pods=(earlier, *members(JOBSET, 2)), jobs=JOBS)
    decided = plan(young)
    assert bought(decided) == []
    assert {decided.pods[f"default/m{n}"].code for n in range(2)} == {Reason.WAITS_FOR_SIBLINGS}


@pytest.mark.parametrize("phase", [Phase.READY, Phase.DRAINING])
def test_a_member_without_gpu_fits_a_machine_that_is_called_back_for_another(phase: Phase) -> None:
    marks = {"gpu-autoscaler/gang": "llm", "gpu-autoscaler/gang-size": "2"}
    gang = (pod("driver", 0, annotations=marks), pod("worker", annotations=marks))
    home = machine(phase=phase)
    decided = plan(world(offers=offers(A1), pods=gang, machines=(home,), nodes=(node(home.name),)))
    assert bought(decided) == []
    assert decided.pods["default/worker"].code is Reason.FITS_NOW
