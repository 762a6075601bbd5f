"""Which pods are demand, and when to look again at those that are not yet."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.kube import Job, PodDeviceClaim
from controller.domain.plan import Launch, Snapshot
from controller.domain.reason import Reason
from controller.planning.demand import duration
from controller.planning.planner import plan
from tests.planning.worlds import NOW, pod, policy, world


def bought(snapshot: Snapshot) -> list[Launch]:
    return [action for action in plan(snapshot).actions if isinstance(action, Launch)]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"priority": -10},
        {"priority": 1000},
        {"owner_kind": "Job", "owner_uid": "unknown"},
        {"owner_kind": "StatefulSet"},
        {"annotations": {"gpu-autoscaler/ignore": "false"}},
        {"annotations": {"gpu-autoscaler/ignore": "yes"}},
        {"annotations": {"gpu-autoscaler/min-age": "garbage"}},
        {"annotations": {"gpu-autoscaler/min-age": "9" * 5000 + "h"}},
        {"annotations": {"gpu-autoscaler/min-age": "4s"}},
        {"requests": {"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 1}},
        {"namespace": "kube-system"},
    ],
)
def test_an_unschedulable_pod_that_asks_for_gpus_is_demand(fields: dict[str, Any]) -> None:
    told = plan(world(pods=(pod(**fields),))).pods
    assert [why.code for why in told.values()] in ([Reason.LAUNCHING], [Reason.TOO_LARGE])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"waiting": False}, "not called it unschedulable"),
        ({"gated": True}, "scheduling gates"),
        ({"nominated": "gpu-1"}, "has chosen node gpu-1 for it"),
        ({"deleting_at": NOW + 30}, "being deleted"),
        ({"priority": -11}, "its priority -11 is below planning.priority_cutoff (-10)"),
        ({"scheduler": "volcano"}, "planning.scheduler_names allows default-scheduler"),
        ({"namespace": "ignored"}, "planning.ignore_namespaces contains ignored"),
        ({"annotations": {"gpu-autoscaler/ignore": "true"}}, "gpu-autoscaler/ignore=true"),
        ({"scheduler": "volcano", "device_claims": (PodDeviceClaim(name="gpu"),)}, "scheduler is volcano"),
        (
            {"owner_kind": "DaemonSet", "owner_name": "dcgm"},
            "DaemonSet dcgm made the pod for a node that is there",
        ),
        ({"mirror": True}, "its node's own kubelet made the pod"),
    ],
)
def test_a_gpu_pod_that_is_no_demand_says_why(fields: dict[str, Any], words: str) -> None:
    decided = plan(world(policy=policy(ignore_namespaces=("ignored",)), pods=(pod(**fields),)))
    assert decided.actions == ()
    (why,) = decided.pods.values()
    assert why.code is Reason.NOT_DEMAND
    assert words in why.message


@pytest.mark.parametrize(
    "fields",
    [
        {"gpus": 0},
        {"gpus": 0, "tolerations": ()},
        {"requests": {"nvidia.com/gpu": 0}},
        {"gpus": 0, "owner_kind": "DaemonSet"},
        {"gpus": 0, "owner_kind": "DaemonSet", "device_claims": (PodDeviceClaim(name="gpu"),)},
        {"gpus": 0, "mirror": True},
        {"phase": "Succeeded"},
        {"phase": "Failed"},
        {"node": "somewhere"},
    ],
)
def test_pods_that_never_need_a_new_gpu_are_passed_over(fields: dict[str, Any]) -> None:
    decided = plan(world(pods=(pod(**fields),)))
    assert (decided.actions, decided.pods) == ((), {})


def test_a_pod_with_resource_claims_is_told_that_they_are_not_planned_for() -> None:
    decided = plan(world(pods=(pod(gpus=0, device_claims=(PodDeviceClaim(name="gpu"),)),)))
    assert decided.actions == ()
    assert decided.pods["default/train"].code is Reason.DRA_UNSUPPORTED


def test_one_odd_pod_does_not_keep_the_others_from_being_planned() -> None:
    decided = plan(world(pods=(pod("odd", 2**62), pod("plain"))))
    assert decided.pods["default/odd"].code is Reason.TOO_LARGE
    assert decided.pods["default/plain"].code is Reason.LAUNCHING


@pytest.mark.parametrize(
    ("annotation", "wake"),
    [
        ({"gpu-autoscaler/min-age": "10s"}, NOW + 5),
        ({"gpu-autoscaler/min-age": "1m"}, NOW + 55),
        ({"cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "30s"}, NOW + 25),
        (
            {"gpu-autoscaler/min-age": "7s", "cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "1h"},
            NOW + 2,
        ),
    ],
)
def test_a_pod_that_asked_to_grow_older_is_waited_for(annotation: dict[str, str], wake: float) -> None:
    decided = plan(world(pods=(pod(annotations=annotation),)))
    assert decided.pods["default/train"].code is Reason.TOO_YOUNG
    assert f"the pod says {next(iter(annotation))}" in decided.pods["default/train"].message
    assert decided.wake_at == wake


def of_job(number: int, **more: Any) -> Any:
    return pod(f"j{number}", **({"owner_kind": "Job", "owner_uid": "j", "owner_name": "sweep"} | more))


def job(**more: Any) -> Job:
    values: dict[str, Any] = {"namespace": "default", "name": "sweep", "uid": "j", "parallelism": 3}
    return Job(**(values | more))


@pytest.mark.parametrize(
    ("pods", "jobs", "code"),
    [
        ((of_job(1), of_job(2)), (job(),), Reason.WAITS_FOR_SIBLINGS),
        ((of_job(1), of_job(2), of_job(3)), (job(),), Reason.LAUNCHING),
        ((of_job(1), of_job(2)), (job(parallelism=2),), Reason.LAUNCHING),
        ((of_job(1), of_job(2)), (job(completions=5, succeeded=3),), Reason.LAUNCHING),
        ((of_job(1), of_job(2)), (job(suspended=True),), Reason.LAUNCHING),
        ((of_job(1, created=NOW - 11), of_job(2)), (job(),), Reason.LAUNCHING),
        ((of_job(1, created=NOW - 9.9), of_job(2)), (job(),), Reason.WAITS_FOR_SIBLINGS),
        ((of_job(1), of_job(2)), (), Reason.LAUNCHING),
        ((of_job(1), of_job(2), of_job(3, phase="Succeeded")), (job(),), Reason.WAITS_FOR_SIBLINGS),
    ],
)
def test_a_job_whose_pods_are_still_being_created_is_waited_for(
    pods: tuple[Any, ...], jobs: tuple[Job, ...], code: Reason
) -> None:
    told = plan(world(pods=pods, jobs=jobs)).pods
    assert {why.code for why in told.values()} == {code}


def test_a_waiting_job_is_looked_at_again_when_its_time_is_over() -> None:
    assert plan(world(pods=(of_job(1),), jobs=(job(),))).wake_at == NOW + 5


def test_all_pods_that_wait_are_planned_in_one_decision() -> None:
    assert [launch.pods for launch in bought(world(pods=(pod("a", 8), pod("b", 8))))] == [
        ("default/a",),
        ("default/b",),
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("90s", 90),
        ("90", 90),
        ("2d", 172800),
        ("500ms", 0.5),
        ("0s", 0),
        (" 10m ", 600),
        ("", None),
        ("h", None),
        ("10", 10),
        ("-5m", None),
        ("10 minutes", None),
        ("true", None),
        ("1e9", None),
        ("9" * 400, None),
        ("9" * 38 + "h", None),
        ("٣m", None),
        ("inf", None),
    ],
)
def test_durations_of_annotations(text: str, seconds: float | None) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    ("setting", "said", "wake"),
    [
        (0.0, {}, None),
        (5.0, {}, None),  # it is five seconds old
        (30.0, {}, NOW + 25),
        (30.0, {"gpu-autoscaler/min-age": "0s"}, None),
        (30.0, {"gpu-autoscaler/min-age": "10s"}, NOW + 5),
        (0.0, {"gpu-autoscaler/min-age": "10s"}, NOW + 5),
        (30.0, {"gpu-autoscaler/min-age": "garbage"}, NOW + 25),
    ],
)
def test_the_least_age_of_all_pods_gives_way_to_what_a_pod_says(
    setting: float, said: dict[str, str], wake: float | None
) -> None:
    decided = plan(world(policy=policy(min_pod_age=setting), pods=(pod(annotations=said),)))
    told = decided.pods["default/train"]
    assert (told.code is Reason.TOO_YOUNG) == (wake is not None)
    assert decided.wake_at == wake
