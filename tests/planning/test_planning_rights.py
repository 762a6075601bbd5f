"""What may not be read is not guessed: the pods that need it are told which right is missing."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.kube import (
    DeviceClaim,
    DeviceRequest,
    PodDeviceClaim,
    PodGroup,
    PodVolume,
    VolumeClaim,
)
from controller.domain.plan import Launch, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import plan
from controller.planning.rights import DEVICE_CLAIMS, POD_GROUPS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from tests.planning.worlds import pod, policy, pool, world

CLAIM = DeviceClaim(
    namespace="default",
    name="gpu",
    template=True,
    requests=(DeviceRequest(device_class="gpu.nvidia.com", count=1),),
)
MEMBERS: dict[str, dict[str, Any]] = {
    "coscheduling": {"labels": {"scheduling.x-k8s.io/pod-group": "llm"}},
    "volcano": {"annotations": {"scheduling.k8s.io/group-name": "llm"}},
    "kai": {"annotations": {"pod-group-name": "llm"}},
    "native": {"workload": "llm"},
}


def refused(snapshot: Snapshot, kind: str, code: Reason) -> None:
    decided = plan(snapshot)
    assert not [action for action in decided.actions if isinstance(action, Launch)]
    why = decided.pods["default/train"]
    assert why.code is code
    assert f"may not read {kind}: grant its role the verbs list and watch" in why.message


@pytest.mark.parametrize("system", sorted(MEMBERS))
def test_a_gang_whose_pod_groups_may_not_be_read(system: str) -> None:
    kind = POD_GROUPS[system]
    group = PodGroup(namespace="default", name="llm", system=system, min_member=1)
    snapshot = world(pods=(pod(**MEMBERS[system]),), unreadable=(kind,), pod_groups=(group,))
    refused(snapshot, kind, Reason.GANG_INCOMPLETE)


@pytest.mark.parametrize("kind", DEVICE_CLAIMS)
def test_claims_that_may_not_be_read_even_where_the_template_is_known(kind: str) -> None:
    uses = (PodDeviceClaim(name="gpu", template="gpu"),)
    snapshot = world(
        policy=policy(pool(resource_claims="always")),
        pods=(pod(gpus=0, device_claims=uses),),
        device_claims=(CLAIM,),
        unreadable=(kind,),
    )
    refused(snapshot, kind, Reason.DRA_UNSUPPORTED)


@pytest.mark.parametrize("kind", [VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES])
def test_volumes_that_may_not_be_read(kind: str) -> None:
    snapshot = world(
        pods=(pod(volumes=(PodVolume(claim="data"),)),),
        volume_claims=(VolumeClaim(namespace="default", name="data"),),
        unreadable=(kind,),
    )
    refused(snapshot, kind, Reason.VOLUME)


def test_pods_that_need_none_of_it_are_bought_for() -> None:
    unreadable = (*POD_GROUPS.values(), *DEVICE_CLAIMS, VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES)
    assert [a for a in plan(world(pods=(pod(),), unreadable=unreadable)).actions if isinstance(a, Launch)]
