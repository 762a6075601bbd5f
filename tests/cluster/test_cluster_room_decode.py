"""Kubernetes JSON into the domain, and back."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cluster import encode, stamps
from controller.cluster.decode import Decoder, Unreadable
from controller.cluster.requests import UNREADABLE
from controller.cluster.shapes import Memo, Shapes
from controller.domain import kube, names
from controller.domain.quantity import parse_quantity, scheduler_units, to_kubernetes
from controller.sandbox.samples import node_json, pod_json

MI = 2**20


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **meta: Any) -> kube.Pod:
    meta = {"name": "p", "namespace": "n", "uid": "u"} | meta
    return Decoder().pod({"metadata": meta, "spec": spec or {}, "status": status or {}})


def container(restart: str = "", limits: dict[str, str] | None = None, **requests: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": "c", "resources": {"requests": requests}}
    if limits:
        found["resources"]["limits"] = limits
    if restart:
        found["restartPolicy"] = restart
    return found


REQUESTS = [
    ("containers add up", {"containers": [container(cpu="100m"), container(cpu="1")]}, {"cpu": 1100}),
    (
        "limits stand in for missing requests, one by one",
        {"containers": [container(limits={"cpu": "2", "nvidia.com/gpu": "4"}, cpu="1")]},
        {"cpu": 1000, "nvidia.com/gpu": 4},
    ),
    (
        "the largest init container counts where it is larger",
        {
            "containers": [container(cpu="1", memory="1Mi")],
            "initContainers": [container(cpu="3"), container(cpu="2")],
        },
        {"cpu": 3000, "memory": MI},
    ),
    (
        "a sidecar adds to the containers",
        {"containers": [container(cpu="1")], "initContainers": [container("Always", cpu="2")]},
        {"cpu": 3000},
    ),
    (
        "a sidecar adds to the init containers behind it",
        {
            "containers": [container(cpu="1")],
            "initContainers": [container("Always", cpu="2"), container(cpu="5")],
        },
        {"cpu": 7000},
    ),
    (
        "a sidecar does not add to the init containers before it",
        {
            "containers": [container(cpu="1")],
            "initContainers": [container(cpu="5"), container("Always", cpu="2")],
        },
        {"cpu": 5000},
    ),
    (
        "pod-level resources replace the sum of what they name",
        {"containers": [container(cpu="1", memory="1Mi")], "resources": {"requests": {"cpu": "4"}}},
        {"cpu": 4000, "memory": MI},
    ),
    (
        "pod-level resources speak of cpu, memory and huge pages only",
        {
            "containers": [container(**{"nvidia.com/gpu": "1"})],
            "resources": {"requests": {"nvidia.com/gpu": "9", "hugepages-2Mi": "2Mi"}},
        },
        {"nvidia.com/gpu": 1, "hugepages-2Mi": 2 * MI},
    ),
    (
        "a pod-level limit counts where nothing requests the resource",
        {"containers": [container(memory="1Mi")], "resources": {"limits": {"cpu": "4", "memory": "9Mi"}}},
        {"cpu": 4000, "memory": MI},
    ),
    (
        "overhead comes on top of pod-level resources",
        {
            "containers": [container(cpu="1")],
            "resources": {"requests": {"cpu": "2"}},
            "overhead": {"cpu": "250m"},
        },
        {"cpu": 2250},
    ),
    (
        "fractions are added before they are rounded up",
        {"containers": [container(memory="500m"), container(memory="500m"), container(memory="1500m")]},
        {"memory": 3},
    ),
    ("zero is kept", {"containers": [container(**{"nvidia.com/gpu": "0"})]}, {"nvidia.com/gpu": 0}),
    ("numbers are quantities", {"containers": [{"resources": {"requests": {"cpu": 2}}}]}, {"cpu": 2000}),
    ("nothing asked is nothing", {"containers": [{"name": "c"}, {"name": "d", "resources": {}}]}, {}),
]


@pytest.mark.parametrize(
    ("spec", "expected"), [row[1:] for row in REQUESTS], ids=[row[0] for row in REQUESTS]
)
def test_effective_requests_are_the_schedulers(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert pod(spec).shape.requests == expected


amounts = st.integers(0, 5000).map(lambda milli: f"{milli}m")
steps = st.lists(st.tuples(amounts, st.booleans()), max_size=5)


@given(st.lists(amounts, max_size=4), steps)
def test_requests_are_never_less_than_any_moment_of_the_start_needs(
    mains: list[str], init: list[tuple[str, bool]]
) -> None:
    spec = {
        "containers": [container(cpu=each) for each in mains],
        "initContainers": [container("Always" if sidecar else "", cpu=each) for each, sidecar in init],
    }
    running, moments = Decimal(0), [Decimal(0)]
    for each, sidecar in init:
        moments.append(running + parse_quantity(each))
        running += parse_quantity(each) if sidecar else 0
    moments.append(running + sum(map(parse_quantity, mains)))
    assert pod(spec).shape.requests.get("cpu", 0) == max(moments) * 1000


def test_a_waiting_pod_says_since_when_and_why() -> None:
    condition = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes",
        "lastTransitionTime": "2026-01-01T00:00:10Z",
    }  # fmt: skip
    found = pod(status={"phase": "Pending", "conditions": [condition]})
    assert found.unschedulable_since == stamps.parse("2026-01-01T00:00:10Z")
    assert found.message == "0/3 nodes"
    bound = pod({"nodeName": "a"}, {"phase": "Running", "conditions": [condition]})
    assert (bound.unschedulable_since, bound.message) == (None, "")


@pytest.mark.parametrize(
    ("spec", "conditions", "gated"),
    [
        ({"schedulingGates": [{"name": "g"}]}, [], True),
        ({"schedulingGates": []}, [], False),
        ({}, [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}], True),
        ({}, [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}], False),
    ],
)
def test_a_gated_pod_is_known_by_its_gates_or_its_condition(
    spec: dict[str, Any], conditions: list[dict[str, str]], gated: bool
) -> None:
    assert pod(spec, {"conditions": conditions}).gated is gated


def test_a_deletion_timestamp_is_the_end_of_the_grace() -> None:
    assert pod(deletionTimestamp="1970-01-01T00:01:00Z").deleting_at == 60.0


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}, True),
        ({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}, True),
        ({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}, False),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, True),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, False),
        ({"affinity": {}}, False),
        ({}, False),
    ],
)
def test_only_required_rules_about_other_pods_count(spec: dict[str, Any], expected: bool) -> None:
    assert pod(spec).shape.inter_pod is expected


def test_required_node_affinity_keeps_expressions_and_fields() -> None:
    terms = [
        {
            "matchExpressions": [
                {"key": "gpu", "operator": "In", "values": ["a", "b"]},
                {"key": "x", "operator": "Exists"},
            ]
        },
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        {},
    ]
    found = pod(
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
                }
            }
        }
    )
    assert found.shape.required_terms is not None
    first, second, third = found.shape.required_terms
    assert first.matches("any", {"gpu": "b", "x": ""})
    assert not first.matches("any", {"gpu": "b"})
    assert second.matches("n1", {})
    assert not second.matches("n2", {})
    assert not third.matches("n1", {"gpu": "a"})


def test_only_the_controller_owns_a_pod() -> None:
    owners = [
        {"kind": "Other", "name": "o", "uid": "1"},
        {"kind": "ReplicaSet", "name": "r", "uid": "2", "controller": True},
    ]
    shape = pod(ownerReferences=owners).shape
    assert (shape.owner_kind, shape.owner_name, shape.owner_uid) == ("ReplicaSet", "r", "2")
    assert pod(ownerReferences=owners[:1]).shape.owner_kind == ""


def test_of_the_annotations_only_those_that_matter_are_kept() -> None:
    shape = pod(annotations={names.POD_GANG: "g", "else": "x", "kubernetes.io/config.mirror": "y"}).shape
    assert shape.annotations == {names.POD_GANG: "g"}
    assert shape.mirror


def test_replicas_share_one_shape_and_others_do_not() -> None:
    decoder = Decoder()
    first, second, other = (decoder.pod(pod_json(i, node=f"n{i}")) for i in (0, 1, 50))
    assert first.shape is second.shape
    assert first.name != second.name
    assert first.shape != other.shape


def test_every_field_of_a_shape_tells_pods_apart() -> None:
    decoder = Decoder()
    base = pod_json(0)

    def changed(part: str, **more: Any) -> dict[str, Any]:
        return base | {part: base[part] | more}

    variants = [
        base,
        changed("spec", tolerations=[]),
        changed("spec", nodeSelector={"a": "b"}),
        changed("spec", priority=7),
        changed("spec", schedulerName="mine"),
        changed("spec", overhead={"cpu": "1"}),
        changed("spec", resources={"requests": {"cpu": "9"}}),
        changed("spec", resourceClaims=[{"name": "c"}]),
        changed("spec", topologySpreadConstraints=[{"whenUnsatisfiable": "DoNotSchedule"}]),
        changed("spec", containers=[container(cpu="3")]),
        changed("spec", initContainers=[container(cpu="30")]),
        changed("spec", initContainers=[container("Always", cpu="30")]),
        changed("metadata", labels={"l": "m"}),
        changed("metadata", annotations={names.POD_IGNORE: "true"}),
        changed("metadata", annotations={names.POD_MIN_AGE: "true"}),
        changed("metadata", ownerReferences=[]),
    ]
    shapes = [decoder.pod(variant).shape for variant in variants]
    assert all(a != b for i, a in enumerate(shapes) for b in shapes[:i])
    assert [decoder.pod(variant).shape for variant in variants] == shapes


def test_the_memory_of_shapes_is_bounded_and_keeps_what_is_used() -> None:
    memo: Memo[int] = Memo(10)
    for i in range(1000):
        memo.put(i, i)
        assert memo.get(0) in (0, None)
        memo.put(0, 0)
    assert len(memo) <= 20
    decoder = Decoder(Shapes(limit=16))
    for i in range(0, 5000, 50):
        decoder.pod(pod_json(i))
    assert len(decoder.shapes) <= 32


def test_an_unreadable_quantity_is_more_than_anything_has(caplog: pytest.LogCaptureFixture) -> None:
    spec = {"containers": [container(cpu="1", **{"nvidia.com/gpu": "many"})]}
    decoder = Decoder()
    raw = {"metadata": {"name": "odd", "namespace": "n", "uid": "u"}, "spec": spec}
    with caplog.at_level(logging.WARNING):
        found = [decoder.pod(raw) for _ in range(3)]
    assert found[0].shape.requests == {"cpu": 1000, "nvidia.com/gpu": UNREADABLE}
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1, "each object and field is named once"
    assert "n/odd" in told[0]
    assert "nvidia.com/gpu" in told[0]


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        (
            "spec.affinity",
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 7}}},
        ),
        ("spec.nodeSelector", {"nodeSelector": {"a": 1}}),
    ],
)
def test_an_unreadable_selection_matches_no_node(
    field: str, spec: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        shape = pod(spec).shape
    assert field in caplog.text
    labels = {"a": "1", "b": "2"}
    by_terms = shape.required_terms is None or any(term.matches("n", labels) for term in shape.required_terms)
    by_selector = all(labels.get(key) == value for key, value in shape.node_selector.items())
    assert not (by_terms and by_selector)


def test_an_object_that_is_none_is_named_and_does_not_stop_others(caplog: pytest.LogCaptureFixture) -> None:
    decoder = Decoder()
    bad = {
        "metadata": {"name": "bad", "namespace": "n", "resourceVersion": "7"},
        "spec": {"priority": "high"},
    }
    with caplog.at_level(logging.WARNING), pytest.raises(Unreadable) as caught:
        decoder.pod(bad)
    assert caught.value.version == "7"
    assert "n/bad" in caplog.text
    assert "priority" in caplog.text
    assert decoder.pod(pod_json(1)).name


def test_nulls_are_absences() -> None:
    spec = dict.fromkeys(
        ("nodeName", "affinity", "tolerations", "nodeSelector", "containers", "priority", "overhead")
    )
    found = pod(
        spec, {"phase": None, "conditions": None}, creationTimestamp=None, labels=None, ownerReferences=None
    )
    assert found.shape == kube.PodShape()
    assert found.phase == "Pending"
    empty = Decoder().node(
        {"metadata": {"name": "n", "labels": None}, "spec": {"taints": None}, "status": {"conditions": None}}
    )
    assert (empty.labels, empty.taints, empty.ready) == ({}, (), False)


def test_a_real_node_is_read() -> None:
    found = Decoder().node(node_json(0))
    assert found.ready
    assert found.allocatable["nvidia.com/gpu"] == 8
    assert found.allocatable["cpu"] == 176_000
    assert found.taints == (kube.Taint("nvidia.com/gpu", "present"),)


def test_a_daemon_sets_pods_are_daemons() -> None:
    raw = {"metadata": {"name": "d", "namespace": "n", "uid": "u"}}
    found = Decoder().daemon_set(
        raw
        | {
            "spec": {
                "template": {
                    "metadata": {"creationTimestamp": None},
                    "spec": {"containers": [container(cpu="1")]},
                }
            }
        }
    )
    assert found.shape.is_daemon
    assert found.shape.owner_uid == "u"
    assert found.shape.requests == {"cpu": 1000}


def test_absent_and_empty_selectors_of_budgets_differ() -> None:
    meta = {"name": "b", "namespace": "n", "uid": "u"}
    assert Decoder().budget({"metadata": meta, "spec": {}}).selector is None
    assert Decoder().budget({"metadata": meta, "spec": {"selector": {}}}).selector == kube.Selector()


def test_a_suspended_or_ended_job_wants_nothing() -> None:
    raw = {
        "metadata": {"name": "j"},
        "spec": {"parallelism": 4, "completions": 10},
        "status": {"succeeded": 8},
    }
    assert Decoder().job(raw).wanted == 2
    assert Decoder().job(raw | {"spec": {"suspend": True}}).wanted == 0
    failed = {"conditions": [{"type": "Failed", "status": "True"}]}
    assert Decoder().job(raw | {"status": failed}).wanted == 0


# ---- there and back

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
word = st.text("abcdefghij-/.", min_size=1, max_size=12)
times = st.integers(10**12, 7 * 10**15).map(
    lambda micros: stamps.parse(
        datetime.fromtimestamp(micros // 10**6, UTC).replace(microsecond=micros % 10**6).isoformat()
    )
)
mapping = st.dictionaries(word, text, max_size=3)
resource = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "ephemeral-storage", "hugepages-1Gi", "x.y/z"])
resources = st.dictionaries(resource, st.integers(0, 2**62), max_size=4)
requirement = st.builds(
    kube.Requirement,
    word,
    st.sampled_from(["In", "NotIn", "Exists", "Gt", "?"]),
    st.lists(text, max_size=2).map(tuple),
)
requirements = st.lists(requirement, max_size=2).map(tuple)
term = st.builds(kube.NodeTerm, requirements, requirements)
toleration = st.builds(kube.Toleration, text, st.sampled_from(["Equal", "Exists"]), text, text)
kept = st.dictionaries(st.sampled_from(sorted(names.POD_ANNOTATIONS)), text, max_size=3)
shapes = st.builds(
    kube.PodShape,
    requests=resources,
    node_selector=mapping,
    required_terms=st.none() | st.lists(term, max_size=3).map(tuple),
    tolerations=st.lists(toleration, max_size=3).map(tuple),
    scheduler=word,
    priority=st.integers(-(2**31), 2**31 - 1),
    owner_kind=st.sampled_from(["", "ReplicaSet", "Job", "DaemonSet", "Custom"]),
    owner_uid=text,
    owner_name=text,
    labels=mapping,
    annotations=kept,
    mirror=st.booleans(),
    has_claims=st.booleans(),
    inter_pod=st.booleans(),
)
waiting = st.builds(
    kube.Pod, namespace=word, name=word, uid=word, shape=shapes, phase=st.sampled_from(["Pending", "Unknown"]),
    nominated=text, created=times, deleting_at=st.none() | times, unschedulable_since=st.none() | times,
    gated=st.booleans(), message=text,
)  # fmt: skip
bound = st.builds(
    kube.Pod, namespace=word, name=word, uid=word, shape=shapes, node=word, created=times,
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]), deleting_at=st.none() | times,
)  # fmt: skip
decoder = Decoder()


def through_json(obj: dict[str, Any]) -> bytes:
    return json.dumps(obj).encode()


@settings(max_examples=150, deadline=None)
@given(waiting | bound)
def test_a_pod_comes_back_exactly(found: kube.Pod) -> None:
    assert decoder.pod(through_json(encode.pod(found))) == found


@settings(max_examples=80, deadline=None)
@given(
    st.builds(
        kube.Node, name=word, uid=word, provider_id=text, labels=mapping, unschedulable=st.booleans(),
        annotations=st.dictionaries(st.sampled_from(sorted(names.NODE_ANNOTATIONS)), text, max_size=3),
        taints=st.lists(st.builds(kube.Taint, word, text, word), max_size=3).map(tuple),
        capacity=resources, allocatable=resources, ready=st.just(True), ready_since=st.none() | times,
        created=times, deleting=st.booleans(),
    )
    | st.builds(kube.Node, name=word, uid=word)
)  # fmt: skip
def test_a_node_comes_back_exactly(found: kube.Node) -> None:
    assert decoder.node(through_json(encode.node(found))) == found


@settings(max_examples=50, deadline=None)
@given(word, word, word, shapes.map(lambda shape: shape))
def test_a_daemon_set_comes_back_exactly(namespace: str, name: str, uid: str, shape: kube.PodShape) -> None:
    import msgspec

    shape = msgspec.structs.replace(shape, owner_kind="DaemonSet", owner_uid=uid, owner_name=name)
    found = kube.DaemonSet(namespace=namespace, name=name, uid=uid, shape=shape)
    assert decoder.daemon_set(through_json(encode.daemon_set(found))) == found


@given(
    st.builds(
        kube.Job, namespace=word, name=word, uid=word, created=times, parallelism=st.integers(0, 99),
        completions=st.none() | st.integers(0, 99), succeeded=st.integers(0, 99), suspended=st.booleans(),
        finished=st.booleans(),
    )
)  # fmt: skip
def test_a_job_comes_back_exactly(found: kube.Job) -> None:
    assert decoder.job(through_json(encode.job(found))) == found


@given(
    st.builds(
        kube.DisruptionBudget, namespace=word, name=word, uid=word, allowed=st.integers(0, 9),
        selector=st.none() | st.builds(kube.Selector, mapping, requirements),
    )
)  # fmt: skip
def test_a_budget_comes_back_exactly(found: kube.DisruptionBudget) -> None:
    assert decoder.budget(through_json(encode.budget(found))) == found


@given(resource, st.integers(0, 2**63))
def test_quantities_come_back_exactly(name: str, units: int) -> None:
    assert scheduler_units(name, to_kubernetes(name, units)) == units


@given(times)
def test_stamps_come_back_exactly(seconds: float) -> None:
    assert stamps.parse(stamps.stamp(seconds)) == seconds
    assert len(stamps.micro(seconds)) == len("2026-01-01T00:00:00.000000Z")
