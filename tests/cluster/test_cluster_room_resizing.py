"""Pods that are resized in place: what they are counted as is what the scheduler counts."""

from __future__ import annotations

from typing import Any

import pytest

from controller.cluster import encode
from controller.cluster.decode import Decoder

GPU = "nvidia.com/gpu"


def pod(
    spec: dict[str, str],
    *,
    actuated: dict[str, str] | None = None,
    allocated: dict[str, str] | None = None,
    condition: tuple[str, str] | None = ("PodResizeInProgress", ""),
    said: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    status = {"name": "main"} | ({"resources": {"requests": actuated}} if actuated is not None else {})
    status |= {"allocatedResources": allocated} if allocated is not None else {}
    kind, reason = condition or ("Ready", "")
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "main", "resources": {"requests": spec}}],
            **(said or {}),
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": kind, "status": "True", "reason": reason}],
            "containerStatuses": [status],
            **more,
        },
    }


@pytest.mark.parametrize(
    ("condition", "spec", "actuated", "allocated", "counted"),
    [
        (("PodResizeInProgress", ""), "1", "4", "1", 4000),  # smaller, and its kubelet has not done it
        (("PodResizeInProgress", ""), "1", "1", "4", 4000),
        (("PodResizeInProgress", ""), "6", "4", "6", 6000),
        (("PodResizePending", "Deferred"), "9", "4", "4", 9000),  # its place is kept for it
        (("PodResizePending", "Infeasible"), "999", "4", "4", 4000),
        (("PodResizePending", "Infeasible"), "999", "4", "5", 5000),
        (None, "1", "4", "4", 1000),  # no kubelet has seen a resize
    ],
)
def test_the_most_that_it_may_hold_counts(
    condition: tuple[str, str] | None, spec: str, actuated: str, allocated: str, counted: int
) -> None:
    found = Decoder().pod(
        pod(
            {"cpu": spec, GPU: "1"},
            actuated={"cpu": actuated, GPU: "1"},
            allocated={"cpu": allocated, GPU: "1"},
            condition=condition,
        )
    )
    assert found.shape.requests == {"cpu": counted, GPU: 1}


@pytest.mark.parametrize("reason", ["Infeasible", "Deferred"])
def test_a_gpu_counts_also_where_the_status_leaves_it_out(reason: str) -> None:
    resized = pod(
        {"cpu": "9", GPU: "1"}, actuated={"cpu": "4"}, allocated=None, condition=("PodResizePending", reason)
    )
    counted = 4000 if reason == "Infeasible" else 9000
    assert Decoder().pod(resized).shape.requests == {"cpu": counted, GPU: 1}


def test_sidecars_count_as_they_are_and_init_containers_that_are_over_as_they_say() -> None:
    before = [
        {"name": "beside", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "first", "resources": {"requests": {"cpu": "2"}}},
    ]
    statuses = [
        {"name": "beside", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "3"}},
        {"name": "first", "resources": {"requests": {"cpu": "50"}}},
    ]
    found = Decoder().pod(
        pod(
            {"cpu": "1"},
            actuated={"cpu": "1"},
            said={"initContainers": before, "overhead": {"cpu": "100m"}},
            initContainerStatuses=statuses,
        )
    )
    assert found.shape.requests == {"cpu": 5100}  # the first runs beside the sidecar


def test_the_totals_of_the_pod_are_resized_as_well() -> None:
    found = Decoder().pod(
        pod(
            {"cpu": "1"},
            actuated={"cpu": "1"},
            said={"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
            resources={"requests": {"cpu": "8", "memory": "1Gi"}},
            allocatedResources={"cpu": "8", "memory": "1Gi"},
        )
    )
    assert found.shape.requests == {"cpu": 8000, "memory": 1 << 30}


@pytest.mark.parametrize("status", ["x", [{"name": 5}], [{"name": "main", "resources": {"requests": []}}]])
def test_a_status_that_cannot_be_read_leaves_what_the_spec_says(status: Any) -> None:
    found = Decoder().pod(pod({"cpu": "1"}, actuated={"cpu": "4"}) | {})
    assert found.shape.requests == {"cpu": 4000}
    odd = pod({"cpu": "1"})
    odd["status"]["containerStatuses"] = status
    assert Decoder().pod(odd).shape.requests == {"cpu": 1000}


def test_in_a_snapshot_it_says_what_it_was_counted_as() -> None:
    found = Decoder().pod(pod({"cpu": "1"}, actuated={"cpu": "4"}))
    assert Decoder().pod(encode.pod(found)) == found


def test_one_that_waits_is_not_resized() -> None:
    waiting = pod({"cpu": "1"}, actuated={"cpu": "4"})
    del waiting["spec"]["nodeName"]
    assert Decoder().pod(waiting).shape.requests == {"cpu": 1000}
