"""Storage, gangs, claims for devices, namespaces and limits: Kubernetes JSON into the domain, and back."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cluster import encode_kinds as encode
from controller.cluster import kinds
from controller.cluster.decode import Decoder
from controller.cluster.groups import NOT_LET_IN
from controller.cluster.kinds import Kind
from controller.domain import kube
from tests.cluster.test_cluster_room_decode import mapping, resources, term, text, times, word, words

META = {"name": "o", "namespace": "n", "uid": "u"}
ALONE = {"name": "o", "uid": "u"}
GI = 2**30


def read(kind: Kind[Any], **parts: Any) -> Any:
    return Decoder().versioned(kind)({"metadata": META if kind.spaced else ALONE} | parts)[0]


def in_zone(*zones: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": list(zones)}]}


IN_ZONE_A = kube.NodeTerm((kube.Requirement("zone", "In", ("a",)),))
ROWS: list[tuple[str, Kind[Any], dict[str, Any], Any]] = [
    (
        "a claim that is bound",
        kinds.VOLUME_CLAIMS,
        {
            "spec": {
                "storageClassName": "fast", "volumeName": "pv", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Bound"},
        },
        kube.VolumeClaim(
            namespace="n", name="o", uid="u", phase="Bound", volume="pv", storage_class="fast",
            access_modes=("ReadWriteOnce",), requested=GI,
        ),
    ),
    (
        "a claim that names its class as old ones do, and a node",
        kinds.VOLUME_CLAIMS,
        {
            "metadata": META
            | {
                "annotations": {
                    "volume.beta.kubernetes.io/storage-class": "slow",
                    "volume.kubernetes.io/selected-node": "node-1",
                },
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            }
        },
        kube.VolumeClaim(
            namespace="n", name="o", uid="u", storage_class="slow", selected_node="node-1", deleting=True
        ),
    ),
    (
        "a claim that the cluster has bound to the volume that it asks for",
        kinds.VOLUME_CLAIMS,
        {
            "metadata": META | {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": "pv"},
        },
        kube.VolumeClaim(namespace="n", name="o", uid="u", volume="pv", bind_completed=True),
    ),
    (
        "a claim that selects its volume",
        kinds.VOLUME_CLAIMS,
        {"spec": {"selector": {"matchLabels": {"disk": "fast"}}}},
        kube.VolumeClaim(namespace="n", name="o", uid="u", selector=kube.Selector({"disk": "fast"})),
    ),
    (
        "a claim of no class at all",
        kinds.VOLUME_CLAIMS,
        {"spec": {"storageClassName": ""}},
        kube.VolumeClaim(namespace="n", name="o", uid="u", storage_class=""),
    ),
    (
        "a volume in one zone",
        kinds.VOLUMES,
        {
            "spec": {
                "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOncePod"], "storageClassName": "fast",
                "csi": {"driver": "csi.x", "volumeHandle": "h"}, "claimRef": {"namespace": "n", "name": "c"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [in_zone("a")]}},
            },
            "status": {"phase": "Bound"},
        },
        kube.Volume(
            name="o", uid="u", terms=(IN_ZONE_A,), storage_class="fast", driver="csi.x", claim="n/c",
            phase="Bound", access_modes=("ReadWriteOncePod",), capacity=2 * GI,
        ),
    ),
    (
        "a volume that is a disk of a host",
        kinds.VOLUMES,
        {"spec": {"local": {"path": "/mnt/disk"}}},
        kube.Volume(name="o", uid="u", local=True),
    ),
    (
        "a volume that is a directory of a host",
        kinds.VOLUMES,
        {"spec": {"hostPath": {"path": "/data", "type": ""}}},
        kube.Volume(name="o", uid="u", local=True),
    ),
    ("a volume that is usable everywhere", kinds.VOLUMES, {"spec": {}}, kube.Volume(name="o", uid="u")),
    (
        "a class that waits for its first consumer, in some zones",
        kinds.STORAGE_CLASSES,
        {
            "metadata": ALONE | {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "csi.x",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
        },
        kube.StorageClass(
            name="o", uid="u", provisioner="csi.x", waits_for_consumer=True, allowed=(IN_ZONE_A,), default=True
        ),
    ),
    (
        "a class that binds at once",
        kinds.STORAGE_CLASSES,
        {"provisioner": "p", "allowedTopologies": None},
        kube.StorageClass(name="o", uid="u", provisioner="p"),
    ),
    (
        "what a node can attach",
        kinds.CSI_NODES,
        {"spec": {"drivers": [{"name": "a", "allocatable": {"count": 8}}, {"name": "b", "allocatable": None}]}},
        kube.CsiNode(name="o", uid="u", limits={"a": 8}, drivers=("a", "b")),
    ),
    (
        "defaults for containers, and for nothing else",
        kinds.LIMIT_RANGES,
        {
            "spec": {
                "limits": [
                    {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "500m"}},
                    {"type": "Pod", "max": {"cpu": "9"}, "default": {"cpu": "9"}},
                ]
            }
        },
        kube.LimitRange(
            namespace="n", name="o", uid="u", default_requests={"cpu": 500}, default_limits={"cpu": 2000}
        ),
    ),
    (
        "a namespace",
        kinds.NAMESPACES,
        {"metadata": ALONE | {"labels": {"team": "a"}}},
        kube.Namespace(name="o", uid="u", labels={"team": "a"}),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "parts", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_kubernetes_writes_is_read(kind: Kind[Any], parts: dict[str, Any], expected: Any) -> None:
    assert read(kind, **parts) == expected


SCHEDULERS = "scheduling.x-k8s.io/v1alpha1"
VOLCANO = "scheduling.volcano.sh/v1beta1"
KAI = "scheduling.run.ai/v2alpha2"
NATIVE = "scheduling.k8s.io/v1alpha2"


def sub(name: str, least: int, parent: str | None = None) -> dict[str, Any]:
    return {"name": name, "minMember": least, "parent": parent}


def refused(reason: str, **more: str) -> dict[str, Any]:
    return {
        "schedulingConditions": [{"type": "UnschedulableOnNodePool", **more, "reasons": [{"reason": reason}]}]
    }


GROUPS: list[tuple[str, str, dict[str, Any], dict[str, Any], tuple[str, int, str]]] = [
    ("coscheduling", SCHEDULERS, {"minMember": 4}, {"phase": "Pending"}, ("coscheduling", 4, "")),
    ("volcano", VOLCANO, {"minMember": 3}, {"phase": "Inqueue"}, ("volcano", 3, "")),
    (
        "tasks of volcano",
        VOLCANO,
        {"minMember": 1, "minTaskMember": {"a": 2, "b": 2}},
        {},
        ("volcano", 4, ""),
    ),
    ("volcano's queue is full", VOLCANO, {"minMember": 3}, {"phase": "Pending"}, ("volcano", 3, NOT_LET_IN)),
    (
        "volcano says why",
        VOLCANO,
        {"minMember": 3},
        {
            "phase": "Pending",
            "conditions": [
                {"type": "Unschedulable", "status": "True", "message": "queue resource quota insufficient"}
            ],
        },
        ("volcano", 3, "queue resource quota insufficient"),
    ),
    ("kai", KAI, {"minMember": 2}, {}, ("kai", 2, "")),
    ("kai over its limit", KAI, {"minMember": 2}, refused("OverLimit"), ("kai", 2, "OverLimit")),
    ("kai no longer over it", KAI, {"minMember": 2}, refused("OverLimit", status="False"), ("kai", 2, "")),
    ("kai without room", KAI, {"minMember": 2}, refused("NodePoolFull"), ("kai", 2, "")),
    ("sub-groups of kai", KAI, {"subGroups": [sub("a", 2), sub("b", 3)]}, {}, ("kai", 5, "")),
    ("some of them", KAI, {"minSubGroup": 1, "subGroups": [sub("a", 2), sub("b", 3)]}, {}, ("kai", 2, "")),
    (
        "sub-groups of sub-groups",
        KAI,
        {"subGroups": [sub("top", 0), sub("a", 2, "top"), sub("b", 3, "top")]},
        {},
        ("kai", 5, ""),
    ),
    (
        "a circle of them",
        KAI,
        {"minMember": 1, "subGroups": [sub("a", 2, "b"), sub("b", 2, "a")]},
        {},
        ("kai", 1, ""),
    ),
    ("native", NATIVE, {"schedulingPolicy": {"gang": {"minCount": 6}}}, {}, ("native", 6, "")),
    ("native without a gang", NATIVE, {"schedulingPolicy": {"basic": {}}}, {}, ("native", 0, "")),
]


@pytest.mark.parametrize(
    ("api", "spec", "status", "expected"), [row[1:] for row in GROUPS], ids=[row[0] for row in GROUPS]
)
def test_a_gang_is_as_its_own_scheduler_says(
    api: str, spec: dict[str, Any], status: dict[str, Any], expected: tuple[str, int, str]
) -> None:
    found = read(kinds.ANY_POD_GROUP, apiVersion=api, spec=spec, status=status)
    assert (found.system, found.min_member, found.waits_for_quota) == expected
    (kind,) = (kind for kind in kinds.POD_GROUPS if kind.api == api)
    assert read(kind, spec=spec, status=status) == found, "a list does not repeat the API in each item"


def test_a_workload_holds_pod_groups_with_and_without_a_gang() -> None:
    parts = [
        {"name": "leader", "policy": {"gang": {}}},
        {"name": "workers", "policy": {"gang": {"minCount": 4}}},
        {"name": "loose", "policy": {"basic": {}}},
        {"name": "odd"},
    ]
    found = read(kinds.WORKLOADS, apiVersion=None, spec={"podGroups": parts})
    assert found.system == "workload"
    assert found.parts == {"leader": 1, "workers": 4, "loose": 0, "odd": 0}


def test_a_pod_group_of_nobody_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert read(kinds.ANY_POD_GROUP, apiVersion="example.com/v1").system == ""
    assert "example.com/v1" in caplog.text


def asked(**exactly: Any) -> dict[str, Any]:
    return {
        "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"} | exactly}]}
    }


BIG = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0"
CLAIMS: list[tuple[str, dict[str, Any], kube.DeviceRequest]] = [
    ("one", {}, kube.DeviceRequest(device_class="gpu.nvidia.com")),
    (
        "some",
        {"count": 4, "allocationMode": "ExactCount"},
        kube.DeviceRequest(device_class="gpu.nvidia.com", count=4),
    ),
    (
        "chosen",
        {"selectors": [{"cel": {"expression": BIG}}]},
        kube.DeviceRequest(device_class="gpu.nvidia.com", selectors=(BIG,)),
    ),
    ("to look at", {"adminAccess": True}, kube.DeviceRequest(device_class="gpu.nvidia.com", admin=True)),
    (
        "all",
        {"allocationMode": "All"},
        kube.DeviceRequest(device_class="gpu.nvidia.com", count=0, plain=False),
    ),
    (
        "with a capacity",
        {"capacity": {"requests": {"memory": "1Gi"}}},
        kube.DeviceRequest(device_class="gpu.nvidia.com", plain=False),
    ),
    (
        "with tolerations",
        {"tolerations": [{"operator": "Exists"}]},
        kube.DeviceRequest(device_class="gpu.nvidia.com", plain=False),
    ),
]


@pytest.mark.parametrize(("exactly", "expected"), [row[1:] for row in CLAIMS], ids=[row[0] for row in CLAIMS])
def test_a_claim_asks_for_what_it_says_and_is_plain_only_where_nothing_more_matters(
    exactly: dict[str, Any], expected: kube.DeviceRequest
) -> None:
    claim = read(kinds.DEVICE_CLAIMS, spec=asked(**exactly))
    template = read(kinds.DEVICE_CLAIM_TEMPLATES, spec={"spec": asked(**exactly)})
    assert claim.requests == template.requests == (expected,)
    assert (claim.template, template.template) == (False, True)


def test_alternatives_and_constraints_are_more_than_plain() -> None:
    requests = [{"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu.nvidia.com"}]}]
    constraints = [{"matchAttribute": "gpu.nvidia.com/pcieRoot"}]
    found = read(kinds.DEVICE_CLAIMS, spec={"devices": {"requests": requests, "constraints": constraints}})
    assert found.requests == (kube.DeviceRequest(plain=False),)
    assert found.constrained


def test_an_allocated_claim_knows_its_node_and_its_pod() -> None:
    where = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    found = read(
        kinds.DEVICE_CLAIMS,
        metadata=META
        | {
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "pod-uid", "controller": True}],
        },
        status={"allocation": {"nodeSelector": {"nodeSelectorTerms": [where]}, "devices": {"results": []}}},
    )
    assert (found.allocated, found.node, found.owner_uid, found.owner_name) == (
        True,
        "node-1",
        "pod-uid",
        "gpu",
    )
    anywhere = read(kinds.DEVICE_CLAIMS, status={"allocation": {"devices": {}}})
    assert (anywhere.allocated, anywhere.node, anywhere.devices) == (True, "", None)


def test_what_was_allocated_tells_how_many_gpus_a_claim_keeps_from_others() -> None:
    ours, other = {"driver": "gpu.nvidia.com", "pool": "node-1"}, {"driver": "dra.net"}
    results = [ours | {"device": "gpu-0"}, ours | {"device": "gpu-1"}, ours | {"adminAccess": True}, other]
    for told, devices in ((results, 2), ([other], 0), ([], 0), (None, None)):
        found = read(kinds.DEVICE_CLAIMS, status={"allocation": {"devices": {"results": told}}})
        assert (found.allocated, found.devices) == (True, devices)
    assert read(kinds.DEVICE_CLAIMS).devices is None


def test_a_device_class_tells_which_resource_it_is_given_for() -> None:
    spec = {"extendedResourceName": "nvidia.com/gpu", "selectors": [{"cel": {"expression": "true"}}]}
    meta = ALONE | {"creationTimestamp": "1970-01-01T00:00:09Z"}
    assert read(kinds.DEVICE_CLASSES, metadata=meta, spec=spec) == kube.DeviceClass(
        name="o", uid="u", extended="nvidia.com/gpu", selectors=("true",), created=9.0
    )
    assert read(kinds.DEVICE_CLASSES) == kube.DeviceClass(name="o", uid="u")


def test_a_size_that_cannot_be_read_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = read(kinds.VOLUME_CLAIMS, spec={"resources": {"requests": {"storage": "much"}}})
    assert found.requested == 0
    assert "n/o" in caplog.text
    assert "much" in caplog.text


# ---- there and back

size = st.integers(0, 2**60)
zones = st.builds(
    kube.NodeTerm, st.lists(st.builds(kube.Requirement, word, st.just("In"), words), max_size=2).map(tuple)
)
request = st.builds(
    kube.DeviceRequest, device_class=word, count=st.integers(1, 64), selectors=st.lists(word, max_size=2).map(tuple),
    admin=st.booleans(), plain=st.booleans(),
) | st.sampled_from(
    [kube.DeviceRequest(plain=False), kube.DeviceRequest(device_class="c", count=0, plain=False)]
)  # fmt: skip
claim = st.builds(
    kube.DeviceClaim, namespace=word, name=word, uid=word, owner_uid=text, owner_name=text,
    requests=st.lists(request, max_size=3).map(tuple), constrained=st.booleans(), deleting=st.booleans(),
)  # fmt: skip
limited = st.dictionaries(word, st.integers(0, 99), max_size=3)
ANYTHING: list[tuple[Kind[Any], Any, st.SearchStrategy[Any]]] = [
    (kinds.NAMESPACES, encode.namespace, st.builds(kube.Namespace, name=word, uid=word, labels=mapping)),
    (
        kinds.VOLUME_CLAIMS,
        encode.volume_claim,
        st.builds(
            kube.VolumeClaim, namespace=word, name=word, uid=word, phase=word, volume=text,
            storage_class=st.none() | text, selected_node=text, access_modes=words, requested=size,
            deleting=st.booleans(), bind_completed=st.booleans(),
        ),
    ),
    (
        kinds.VOLUMES,
        encode.volume,
        st.builds(
            kube.Volume, name=word, uid=word, terms=st.none() | st.lists(term, max_size=2).map(tuple),
            storage_class=text, driver=text, claim=st.just("") | st.builds("{}/{}".format, st.just("ns"), word),
            phase=text, access_modes=words, capacity=size, labels=mapping, deleting=st.booleans(),
            local=st.booleans(),
        ),
    ),
    (
        kinds.STORAGE_CLASSES,
        encode.storage_class,
        st.builds(
            kube.StorageClass, name=word, uid=word, provisioner=text, waits_for_consumer=st.booleans(),
            allowed=st.none() | st.lists(zones, min_size=1, max_size=2).map(tuple), default=st.booleans(),
            created=times,
        ),
    ),
    (
        kinds.CSI_NODES,
        encode.csi_node,
        st.builds(
            lambda name, limits, more: kube.CsiNode(
                name=name, uid=name, limits=limits, drivers=(*limits, *(d for d in more if d not in limits))
            ),
            word, limited, words,
        ),
    ),
    (
        kinds.LIMIT_RANGES,
        encode.limit_range,
        st.builds(
            kube.LimitRange, namespace=word, name=word, uid=word, default_requests=resources,
            default_limits=resources,
        ),
    ),
    (
        kinds.ANY_POD_GROUP,
        encode.pod_group,
        st.builds(
            kube.PodGroup, namespace=word, name=word, uid=word, min_member=st.integers(0, 99),
            system=st.sampled_from(["volcano", "kai"]), waits_for_quota=text,
        )
        | st.builds(
            kube.PodGroup, namespace=word, name=word, uid=word, min_member=st.integers(0, 99),
            system=st.sampled_from(["coscheduling", "native"]),
        )
        | st.builds(
            kube.PodGroup, namespace=word, name=word, uid=word, system=st.just("workload"),
            parts=st.dictionaries(word, st.integers(0, 99), max_size=3),
        ),
    ),
    (
        kinds.DEVICE_CLAIMS,
        encode.device_claim,
        claim
        | st.builds(
            kube.DeviceClaim, namespace=word, name=word, uid=word, allocated=st.just(True), node=text,
            devices=st.none() | st.integers(0, 16),
        ),
    ),
    (
        kinds.DEVICE_CLASSES,
        encode.device_class,
        st.builds(
            kube.DeviceClass, name=word, uid=word, extended=text, created=times,
            selectors=st.lists(word, max_size=2).map(tuple),
        ),
    ),
    (
        kinds.DEVICE_CLAIM_TEMPLATES,
        encode.device_claim,
        st.builds(
            kube.DeviceClaim, namespace=word, name=word, uid=word, template=st.just(True),
            requests=st.lists(request, max_size=3).map(tuple), constrained=st.booleans(),
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "written", "any_of_it"), ANYTHING, ids=[row[0].plural for row in ANYTHING])
def test_what_is_written_reads_back_exactly(
    kind: Kind[Any], written: Any, any_of_it: st.SearchStrategy[Any]
) -> None:
    decode = Decoder().versioned(kind)

    @settings(max_examples=60, deadline=None)
    @given(any_of_it)
    def comes_back(found: Any) -> None:
        assert decode(json.dumps(written(found)).encode())[0] == found

    comes_back()
