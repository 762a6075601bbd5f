"""What is refused in objects: names, labels, what is missing or contradicts itself."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.manifests import a_pod
from tests.e2e.controlplane.conformance.probe import (
    BUDGETS,
    CLAIMS,
    CLASSES,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    MAPS,
    NEW_EVENTS,
    NODES,
    NS,
    PODS,
    REPLICA_SETS,
    ROLES,
    RUNTIMES,
    SECRETS,
    SPACES,
    patch,
    post,
    probe,
    put,
)

LONG = "x" * 254


def with_meta(**meta: Any) -> Any:
    return {"metadata": meta, "data": {"a": "1"}}


def names(*wanted: str) -> Any:
    return [post(MAPS, with_meta(name=name)) for name in wanted]


PROBES = (
    probe(
        "names of many shapes",
        *names("A", "a_b", "-a", "a-", "a.b", "a..b", ".", "", "a b", "1", "x" * 253, LONG),
    ),
    probe(
        "names where they are stricter",
        post(SPACES, {"metadata": {"name": "A"}}),
        post(SPACES, {"metadata": {"name": "a.b"}}),
        post(SPACES, {"metadata": {"name": "x" * 64}}),
        post(
            f"{NS}/services",
            {"metadata": {"name": "1a"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
        ),
        post(PODS, a_pod("a_b")),
        post(PODS, a_pod("A")),
        post(NODES, {"metadata": {"name": "a_b"}}),
        post(
            JOBS,
            {
                "metadata": {"name": "x" * 64},
                "spec": {
                    "suspend": True,
                    "template": {
                        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
                    },
                },
            },
        ),
        post(ROLES, {"metadata": {"name": "a:b"}, "rules": []}),
        post(ROLES, {"metadata": {"name": "a/b"}, "rules": []}),
    ),
    probe(
        "names, namespaces and addresses that disagree",
        post(MAPS, with_meta()),
        post(MAPS, {"data": {"a": "1"}}),
        post(MAPS, with_meta(name="a", namespace="other")),
        post(MAPS, with_meta(name="named", generateName="other-"), keep={}),
        put(f"{MAPS}/named", with_meta(name="other")),
        put(f"{MAPS}/named", with_meta()),
        put(f"{MAPS}/named", with_meta(name="named", namespace="other")),
        post(NODES, {"metadata": {"name": "spaced-<tag>", "namespace": "<ns>"}}),
        post(MAPS, with_meta(generateName="made-")),
        post(MAPS, with_meta(generateName="MADE-")),
        post(MAPS, with_meta(generateName="a" * 60), pick=lambda body: len(body["metadata"]["name"])),
        post(
            MAPS,
            with_meta(generateName="a" * 300),
            pick=lambda body: body.get("code") or len(body["metadata"]["name"]),
        ),
        patch(f"{MAPS}/named", {"metadata": {"name": "other"}}),
        patch(f"{MAPS}/named", {"metadata": {"namespace": "other"}}),
    ),
    probe(
        "labels and annotations",
        post(MAPS, with_meta(name="a", labels={"a": "b c"})),
        post(MAPS, with_meta(name="a", labels={"a": "x" * 64})),
        post(MAPS, with_meta(name="a", labels={"a": "-b"})),
        post(MAPS, with_meta(name="a", labels={"a b": "c"})),
        post(MAPS, with_meta(name="a", labels={"": "c"})),
        post(MAPS, with_meta(name="a", labels={"a/b/c": "d"})),
        post(MAPS, with_meta(name="a", labels={"A.example/b": "d"})),
        post(MAPS, with_meta(name="a", labels={"example/" + "x" * 64: "d"})),
        post(MAPS, with_meta(name="a", annotations={"a b": "c"})),
        post(MAPS, with_meta(name="a", annotations={"A/b": "any value at all!"})),
        post(MAPS, with_meta(name="a", finalizers=["plain"])),
        post(MAPS, with_meta(name="b", finalizers=["a b/c"])),
        post(MAPS, with_meta(name="b", ownerReferences=[{"kind": "Pod", "name": "a"}])),
        post(
            PODS,
            {
                **a_pod("labelled"),
                "metadata": {"name": "labelled", "labels": {"a": "!"}, "annotations": {"!": "a"}},
            },
        ),
        patch(f"{MAPS}/kube-root-ca.crt", {"metadata": {"labels": {"a": "b c"}}}),
    ),
    probe(
        "workloads that lack something",
        post(DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": {}}),
        post(
            DEPLOYMENTS,
            {
                "metadata": {"name": "a"},
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"a": "c"}},
                        "spec": {"containers": [{"name": "a", "image": "a"}]},
                    },
                },
            },
        ),
        post(
            DEPLOYMENTS,
            {
                "metadata": {"name": "a"},
                "spec": {
                    "replicas": -1,
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"containers": [{"name": "a", "image": "a"}]},
                    },
                },
            },
        ),
        post(
            REPLICA_SETS,
            {"metadata": {"name": "a"}, "spec": {"selector": {}, "template": {"spec": {"containers": []}}}},
        ),
        post(
            DAEMON_SETS,
            {
                "metadata": {"name": "a"},
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]},
                    },
                },
            },
        ),
        post(
            JOBS,
            {
                "metadata": {"name": "a"},
                "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}},
            },
        ),
        post(JOBS, {"metadata": {"name": "a"}, "spec": {}}),
        post(
            JOBS,
            {
                "metadata": {"name": "a"},
                "spec": {
                    "completions": -1,
                    "parallelism": -1,
                    "template": {
                        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
                    },
                },
            },
        ),
        post(BUDGETS, {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}}),
        post(BUDGETS, {"metadata": {"name": "a"}, "spec": {"minAvailable": "half"}}),
        post(BUDGETS, {"metadata": {"name": "a"}, "spec": {"minAvailable": -1}}),
        post(CLASSES, {"metadata": {"name": "refused-<tag>"}, "value": 2000000000}),
        post(CLASSES, {"metadata": {"name": "system-<tag>"}, "value": 1}),
        post(RUNTIMES, {"metadata": {"name": "refused-<tag>"}}),
        post(LEASES, {"metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": 0}}),
        post(LEASES, {"metadata": {"name": "b"}}),
        post(
            EVENTS,
            {"metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "name": "a", "namespace": "other"}},
        ),
        post(EVENTS, {"metadata": {"name": "a"}}),
        post(
            NEW_EVENTS,
            {"metadata": {"name": "a"}, "regarding": {"kind": "Pod", "name": "a", "namespace": "<ns>"}},
        ),
        post(SECRETS, {"metadata": {"name": "a"}, "data": {"a": "no base64!"}}),
        post(SECRETS, {"metadata": {"name": "a"}, "data": {"a b": "YQ=="}}),
        post(f"{MAPS}", {"metadata": {"name": "a"}, "data": {"a b": "c"}}),
        post(CLAIMS, {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [{"name": "gpu"}]}}}),
    ),
)
