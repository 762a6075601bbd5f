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
from controller.cluster.memo import Memo
from controller.cluster.requests import UNREADABLE
from controller.cluster.shapes import Shapes
from controller.domain import kube, names
from controller.domain.quantity import parse_quantity, scheduler_units, to_kubernetes
from controller.sandbox.samples import node_json, pod_json

MI = 2**20


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **meta: Any) -> kube.Pod:
    meta = {"name": "p", "namespace": "n", "uid": "u"} | meta
    return Decoder().pod({"metadata": meta, "spec": spec or {}, "status": status or {}})


DEFAULTED = ("cpu", "memory", "ephemeral-storage")


def container(restart: str = "", limits: dict[str, str] | None = None, **requests: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": "c", "resources": {"requests": requests}}
    if limits:
        found["resources"]["limits"] = limits
    if restart:
        found["restartPolicy"] = restart
    return found


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}


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


@settings(deadline=None)
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


BY_APP = {"matchLabels": {"app": "a"}}
APP = kube.Selector({"app": "a"})
HOST = "kubernetes.io/hostname"
PARTS: list[tuple[str, dict[str, Any], str, Any]] = [
    (
        "an affinity to pods",
        {"affinity": {"podAffinity": required({"topologyKey": HOST, "labelSelector": BY_APP})}},
        "affinity",
        (kube.PodTerm(topology_key=HOST, selector=APP),),
    ),
    (
        "an anti-affinity in other namespaces",
        {
            "affinity": {
                "podAntiAffinity": required(
                    {"topologyKey": HOST, "namespaces": ["x"], "namespaceSelector": {}, "labelSelector": {}}
                )
            }
        },
        "anti_affinity",
        (
            kube.PodTerm(
                topology_key=HOST,
                selector=kube.Selector(),
                namespaces=("x",),
                namespace_selector=kube.Selector(),
            ),
        ),
    ),
    (
        "a preferred anti-affinity is nobody's rule",
        {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}},
        "anti_affinity",
        (),
    ),
    (
        "a preferred node affinity",
        {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 7, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                    ]
                }
            }
        },
        "preferred_terms",
        (kube.PreferredTerm(7, kube.NodeTerm((kube.Requirement("a", "Exists"),))),),
    ),
    (
        "a spread with all that it can say",
        {
            "topologySpreadConstraints": [
                {
                    "topologyKey": "zone", "maxSkew": 3, "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": BY_APP, "minDomains": 2, "nodeAffinityPolicy": "Ignore",
                    "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["hash"],
                }
            ]
        },
        "spreads",
        (
            kube.Spread(
                topology_key="zone", max_skew=3, hard=False, selector=APP, min_domains=2,
                honors_affinity=False, honors_taints=True, match_label_keys=("hash",),
            ),
        ),
    ),
    (
        "a spread that leaves the rest to the defaults",
        {"topologySpreadConstraints": [{"topologyKey": "zone"}]},
        "spreads",
        (kube.Spread(topology_key="zone"),),
    ),
    (
        "host ports of containers and sidecars, not of what only starts",
        {
            "containers": [{"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]}],
            "initContainers": [
                {"restartPolicy": "Always", "ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]},
                {"ports": [{"hostPort": 99}]},
            ],
        },
        "host_ports",
        (kube.HostPort(53, "UDP", "10.0.0.1"), kube.HostPort(8081)),
    ),
    (
        "every port of a pod on the host's network is the host's",
        {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80, "hostIP": "0.0.0.0"}]}]},
        "host_ports",
        (kube.HostPort(80),),
    ),
    (
        "volumes from claims, named and made for the pod",
        {
            "volumes": [
                {"name": "kube-api-access-x7k2p", "projected": {"sources": []}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
                {"name": "more", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "none", "persistentVolumeClaim": None},
            ]
        },
        "volumes",
        (
            kube.PodVolume(claim="shared"),
            kube.PodVolume(name="scratch", ephemeral=True, storage_class="fast"),
            kube.PodVolume(name="more", ephemeral=True),
        ),
    ),
    (
        "claims for devices",
        {
            "resourceClaims": [
                {"name": "a", "resourceClaimName": "mine"},
                {"name": "b", "resourceClaimTemplateName": "each"},
            ]
        },
        "device_claims",
        (kube.PodDeviceClaim(name="a", claim="mine"), kube.PodDeviceClaim(name="b", template="each")),
    ),
    ("a native group", {"schedulingGroup": {"podGroupName": "g"}}, "workload", "g"),
    (
        "a group of a workload",
        {"workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": "1"}},
        "workload",
        "w/g/1",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "field", "expected"), [row[1:] for row in PARTS], ids=[row[0] for row in PARTS]
)
def test_what_decides_where_a_pod_runs_is_read(spec: dict[str, Any], field: str, expected: Any) -> None:
    assert getattr(pod(spec).shape, field) == expected


@pytest.mark.parametrize("merged", [False, True])
def test_keys_of_the_pods_own_labels_become_part_of_an_affinitys_selector_once(merged: bool) -> None:
    expressions = [
        {"key": "hash", "operator": "In", "values": ["1"]},
        {"key": "tenant", "operator": "NotIn", "values": ["x"]},
    ]
    term = {
        "topologyKey": HOST,
        "labelSelector": BY_APP | ({"matchExpressions": expressions} if merged else {}),
        "matchLabelKeys": ["hash", "absent"],
        "mismatchLabelKeys": ["tenant"],
    }
    spec = {"affinity": {"podAntiAffinity": required(term)}}
    decoder = Decoder()
    for own in ("1", "2"):
        if merged and own == "2":
            continue
        meta = {"name": "p", "namespace": "n", "uid": own, "labels": {"hash": own, "tenant": "x"}}
        (found,) = decoder.pod({"metadata": meta, "spec": spec}).shape.anti_affinity
        assert found.selector == kube.Selector(
            {"app": "a"},
            (kube.Requirement("hash", "In", (own,)), kube.Requirement("tenant", "NotIn", ("x",))),
        )


@pytest.mark.parametrize(
    "spec",
    [
        {"topologySpreadConstraints": [{"maxSkew": "wide"}]},
        {"containers": [{"ports": [{"hostPort": "http"}]}]},
        {"volumes": [{"persistentVolumeClaim": {"claimName": 7}}]},
        {"schedulingGroup": {"podGroupName": 7}},
        {"affinity": {"podAffinity": required({"topologyKey": 7})}},
    ],
)
def test_a_rule_that_cannot_be_read_lets_the_pod_on_no_node(
    spec: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        decoder = Decoder()
        found = [
            decoder.pod({"metadata": {"name": name, "namespace": "n"}, "spec": spec}).shape.required_terms
            for name in ("one", "two")
        ]
    assert found == [(), ()]
    assert "n/one" in caplog.text
    assert "n/two" in caplog.text


def test_a_claim_that_cannot_be_read_still_counts_as_one() -> None:
    assert pod({"resourceClaims": 7}).shape.has_claims


def test_what_is_a_pods_own_does_not_make_a_shape_of_its_own() -> None:
    decoder = Decoder()
    template = {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}

    def replica(number: int, claim: str) -> kube.Pod:
        volumes = [
            {"name": f"kube-api-access-{number}", "projected": {}},
            {"name": "scratch", "ephemeral": template},
            {"name": "data", "persistentVolumeClaim": {"claimName": claim}},
        ]
        return decoder.pod(
            {
                "metadata": {"name": f"p-{number}", "namespace": "n", "uid": str(number)},
                "spec": {"volumes": volumes},
            }
        )

    assert replica(1, "shared").shape is replica(2, "shared").shape
    assert replica(3, "data-3").shape != replica(4, "data-4").shape
    assert replica(3, "data-3").shape.requests is replica(4, "data-4").shape.requests


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
        changed("spec", topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}]),
        changed("spec", hostNetwork=True, containers=[container() | {"ports": [{"containerPort": 1}]}]),
        changed("spec", containers=[container() | {"ports": [{"containerPort": 1, "hostPort": 2}]}]),
        changed("spec", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]),
        changed("spec", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "b"}}]),
        changed("spec", volumes=[{"name": "v", "ephemeral": {}}]),
        changed("spec", volumes=[{"name": "w", "ephemeral": {}}]),
        changed("spec", schedulingGroup={"podGroupName": "g"}),
        changed("spec", workloadRef={"name": "w", "podGroup": "g"}),
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
    assert found.boot == node_json(0)["status"]["nodeInfo"]["bootID"]


@pytest.mark.parametrize(
    ("status", "ready"), [("True", True), ("False", False), ("Unknown", False), ("perhaps", False)]
)
def test_since_when_a_node_is_or_is_not_ready_is_read(status: str, ready: bool) -> None:
    raw = node_json(0)
    moment = {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:10Z"}
    raw["status"]["conditions"] = [{"type": "MemoryPressure", "status": "Unknown"}, moment]
    found = Decoder().node(raw)
    assert (found.ready, found.ready_since) == (ready, 1767225610.0)


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


def test_what_the_containers_of_a_daemon_set_leave_to_a_limit_range_is_counted() -> None:
    containers = [container(cpu="1"), container(), {"resources": {"limits": {"memory": "1Gi"}}}]
    inits = [{**container(), "restartPolicy": "Always"}, container()]
    spec: Any = {"containers": containers, "initContainers": inits}

    def unset(spec: Any) -> Any:
        meta = {"name": "d", "namespace": "n", "uid": "u"}
        return Decoder().daemon_set({"metadata": meta, "spec": {"template": {"spec": spec}}}).unset

    assert unset(spec) == {"cpu": 3, "memory": 3, "ephemeral-storage": 4}
    whole = {"resources": {"requests": {"cpu": "2"}}}
    assert unset(spec | whole) == {"memory": 3, "ephemeral-storage": 4}
    assert unset({"containers": [container(cpu="1", memory="1", **{"ephemeral-storage": "1"})]}) == {}


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
selector = st.builds(kube.Selector, mapping, requirements)
words = st.lists(word, max_size=2).map(tuple)
pod_term = st.builds(
    kube.PodTerm,
    topology_key=text,
    selector=st.none() | selector,
    namespaces=words,
    namespace_selector=st.none() | selector,
)
spread = st.builds(
    kube.Spread, topology_key=text, max_skew=st.integers(1, 9), hard=st.booleans(), selector=st.none() | selector,
    min_domains=st.none() | st.integers(1, 9), honors_affinity=st.booleans(), honors_taints=st.booleans(),
    match_label_keys=words,
)  # fmt: skip
host_port = st.builds(
    kube.HostPort,
    st.integers(1, 65535),
    st.sampled_from(["TCP", "UDP", "SCTP"]),
    st.sampled_from(["", "::1"]),
)
pod_volume = st.builds(kube.PodVolume, claim=word) | st.builds(
    kube.PodVolume, name=text, ephemeral=st.just(True), storage_class=st.none() | text
)
pod_claim = st.builds(kube.PodDeviceClaim, name=text, claim=text, template=text)
group = st.text("abc-", max_size=4)
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
    preferred_terms=st.lists(st.builds(kube.PreferredTerm, st.integers(1, 100), term), max_size=2).map(tuple),
    affinity=st.lists(pod_term, max_size=2).map(tuple),
    anti_affinity=st.lists(pod_term, max_size=2).map(tuple),
    spreads=st.lists(spread, max_size=2).map(tuple),
    host_ports=st.lists(host_port, max_size=3, unique=True).map(tuple),
    volumes=st.lists(pod_volume, max_size=3).map(tuple),
    device_claims=st.lists(pod_claim, max_size=2).map(tuple),
    workload=group | st.builds("{}/{}/{}".format, group, group, group),
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
        created=times, deleting=st.booleans(), boot=text,
    )
    | st.builds(kube.Node, name=word, uid=word)
)  # fmt: skip
def test_a_node_comes_back_exactly(found: kube.Node) -> None:
    assert decoder.node(through_json(encode.node(found))) == found


@settings(max_examples=50, deadline=None)
@given(word, word, word, shapes, st.integers(1, 3), st.tuples(*[st.integers(0, 3)] * 3))
def test_a_daemon_set_comes_back_exactly(
    namespace: str, name: str, uid: str, shape: kube.PodShape, count: int, silent: tuple[int, int, int]
) -> None:
    import msgspec

    shape = msgspec.structs.replace(shape, owner_kind="DaemonSet", owner_uid=uid, owner_name=name)
    said = {r: n for r, n in zip(DEFAULTED, silent, strict=True) if r in shape.requests}
    unset = {r: n for r in DEFAULTED if (n := min(count, said.get(r, count)))}
    found = kube.DaemonSet(namespace=namespace, name=name, uid=uid, shape=shape, unset=unset)
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


def test_a_negative_request_is_more_than_anything_has_too(caplog: pytest.LogCaptureFixture) -> None:
    """The API server lets nobody write one; whatever sends it must neither be bought for nor stop the watch."""
    spec = {"containers": [container(cpu="1", **{"nvidia.com/gpu": "-1"})]}
    raw = {"metadata": {"name": "odd", "namespace": "n", "uid": "u"}, "spec": spec}
    with caplog.at_level(logging.WARNING):
        assert Decoder().pod(raw).shape.requests == {"cpu": 1000, "nvidia.com/gpu": UNREADABLE}
    assert "'-1' is negative; expected 0 or more" in caplog.text


def test_a_negative_amount_of_a_node_is_not_there_to_be_used() -> None:
    raw = {"metadata": {"name": "odd", "uid": "u"}, "status": {"allocatable": {"cpu": "1", "memory": "-1"}}}
    assert Decoder().node(raw).allocatable == {"cpu": 1000}
