"""What becomes of other objects on their way in, of unknown fields and of trials."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.manifests import a_pod
from tests.e2e.controlplane.conformance.probe import (
    EVENTS,
    JSON_PATCH,
    MAPS,
    NEW_EVENTS,
    PODS,
    SECRETS,
    delete,
    fields,
    get,
    patch,
    post,
    probe,
    put,
)

ABOUT = {"kind": "Pod", "namespace": "<ns>", "name": "a", "apiVersion": "v1", "uid": "u"}


def a_map(name: str, **more: Any) -> Any:
    return {"metadata": {"name": name}, "data": {"a": "1"}, **more}


PROBES = (
    probe(
        "fields that nobody knows",
        post(MAPS, a_map("ignored", unknown={"a": 1})),
        post(f"{MAPS}?fieldValidation=Ignore", a_map("silent", unknown={"a": 1})),
        post(f"{MAPS}?fieldValidation=Warn", a_map("warned", unknown={"a": 1})),
        post(f"{MAPS}?fieldValidation=Strict", a_map("strict", unknown={"a": 1})),
        post(f"{MAPS}?fieldValidation=Perhaps", a_map("perhaps")),
        post(
            f"{MAPS}?fieldValidation=Strict",
            b'{"metadata": {"name": "twice"}, "data": {"a": "1"}, "data": {"b": "2"}}',
        ),
        post(
            f"{MAPS}?fieldValidation=Warn", b'{"metadata": {"name": "twice"}, "data": {"a": "1", "a": "2"}}'
        ),
        post(
            f"{PODS}?fieldValidation=Strict",
            a_pod(
                "deep",
                containers=[{"name": "a", "image": "a", "resource": {"limits": {}}, "env": [{"names": "A"}]}],
                nodeselector={"a": "b"},
            ),
        ),
        post(
            f"{PODS}?fieldValidation=Warn",
            a_pod("deep", containers=[{"name": "a", "image": "a", "resource": {}}], nodeselector={"a": "b"}),
            pick=fields("spec.nodeselector", "spec.containers.0.resource"),
        ),
        put(f"{MAPS}/ignored?fieldValidation=Strict", a_map("ignored", unknown={"a": 1})),
        patch(f"{MAPS}/ignored?fieldValidation=Strict", {"unknown": {"a": 1}}),
        patch(
            f"{MAPS}/ignored?fieldValidation=Strict",
            [{"op": "add", "path": "/unknown", "value": 1}],
            JSON_PATCH,
        ),
        patch(f"{MAPS}/ignored?fieldValidation=Strict", {"data": {"a": "3"}}),
        post(
            f"{PODS}?fieldValidation=Strict",
            {**a_pod("right"), "kind": "Pod", "apiVersion": "v1"},
            pick=fields("kind"),
        ),
    ),
    probe(
        "trials",
        post(f"{MAPS}?dryRun=All", a_map("tried")),
        get(f"{MAPS}/tried"),
        post(f"{PODS}?dryRun=All", a_pod("tried"), pick=fields("metadata.name", "status", "spec.priority")),
        post(f"{MAPS}?dryRun=All", a_map("BAD")),
        post(f"{MAPS}?dryRun=Some", a_map("tried")),
        post(f"{MAPS}?dryRun=", a_map("tried-empty"), pick=fields("metadata.name")),
        post(MAPS, a_map("tried"), quiet=True),
        post(f"{MAPS}?dryRun=All", a_map("tried")),
        put(f"{MAPS}/tried?dryRun=All", a_map("tried", data={"b": "2"})),
        patch(f"{MAPS}/tried?dryRun=All", {"data": {"c": "3"}}),
        delete(f"{MAPS}/tried?dryRun=All"),
        get(f"{MAPS}/tried"),
        post(f"{MAPS}?dryRun=All", {"metadata": {"generateName": "tried-"}}),
    ),
    probe(
        "events",
        post(
            EVENTS,
            {
                "metadata": {"name": "core"},
                "involvedObject": ABOUT,
                "reason": "Tried",
                "message": "once",
                "type": "Normal",
                "source": {"component": "probe"},
            },
        ),
        get(f"{NEW_EVENTS}/core"),
        patch(f"{EVENTS}/core", {"count": 5, "lastTimestamp": "2026-01-02T00:00:00Z", "message": "often"}),
        patch(f"{EVENTS}/core", {"series": {"count": 2, "lastObservedTime": "2026-01-02T00:00:00.000000Z"}}),
        patch(f"{EVENTS}/core", {"involvedObject": {"name": "b"}}),
        post(
            NEW_EVENTS,
            {
                "metadata": {"name": "new"},
                "regarding": ABOUT,
                "reason": "Tried",
                "note": "once",
                "type": "Warning",
                "action": "Trying",
                "eventTime": "2026-01-01T00:00:00.000000Z",
                "reportingController": "example.com/probe",
                "reportingInstance": "probe-1",
            },
        ),
        get(f"{EVENTS}/new"),
        patch(
            f"{NEW_EVENTS}/new", {"series": {"count": 2, "lastObservedTime": "2026-01-02T00:00:00.000000Z"}}
        ),
        patch(f"{NEW_EVENTS}/new", {"note": "changed"}),
        patch(f"{NEW_EVENTS}/new", {"reason": "Changed"}),
        post(
            NEW_EVENTS,
            {"metadata": {"name": "silent"}, "regarding": ABOUT, "eventTime": "2026-01-01T00:00:00.000000Z"},
        ),
        post(
            NEW_EVENTS,
            {
                "metadata": {"name": "both"},
                "regarding": ABOUT,
                "reason": "a",
                "action": "b",
                "type": "Odd",
                "eventTime": "2026-01-01T00:00:00.000000Z",
                "reportingController": "a b",
                "reportingInstance": "c",
                "deprecatedCount": 1,
                "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
                "series": {"count": 1},
            },
        ),
        post(
            EVENTS,
            {
                "metadata": {"name": "timed"},
                "involvedObject": ABOUT,
                "eventTime": "2026-01-01T00:00:00.000000Z",
            },
        ),
        post(
            EVENTS,
            {"metadata": {"name": "typed"}, "involvedObject": ABOUT, "type": "Loud", "reason": "Tried"},
        ),
        post(
            EVENTS,
            {
                "metadata": {"name": "elsewhere"},
                "involvedObject": {"kind": "Node", "name": "a"},
                "reason": "Tried",
            },
        ),
        post(
            "/api/v1/namespaces/default/events",
            {
                "metadata": {"name": "of-node-<tag>"},
                "involvedObject": {"kind": "Node", "name": "a"},
                "reason": "Tried",
                "type": "Normal",
            },
        ),
        delete("/api/v1/namespaces/default/events/of-node-<tag>"),
    ),
    probe(
        "secrets and maps",
        post(
            SECRETS,
            {
                "metadata": {"name": "folded"},
                "stringData": {"a": "b", "c": ""},
                "data": {"a": "eA==", "d": "eQ=="},
            },
        ),
        patch(f"{SECRETS}/folded", {"stringData": {"e": "f"}}),
        patch(f"{SECRETS}/folded", {"type": "example.com/other"}),
        post(SECRETS, {"metadata": {"name": "token"}, "type": "kubernetes.io/service-account-token"}),
        post(SECRETS, {"metadata": {"name": "pull"}, "type": "kubernetes.io/dockerconfigjson", "data": {}}),
        post(SECRETS, {"metadata": {"name": "fixed"}, "immutable": True}),
        patch(f"{SECRETS}/fixed", {"stringData": {"a": "b"}}),
        post(MAPS, a_map("both", binaryData={"a": "AAE="})),
        post(MAPS, a_map("empty", data={}, binaryData=None)),
        post(MAPS, {"metadata": {"name": "large"}, "data": {"a": "x" * (1024 * 1024)}}),
    ),
    probe(
        "in protobuf",
        get(
            f"{MAPS}/kube-root-ca.crt",
            headers={"Accept": "application/vnd.kubernetes.protobuf,application/json"},
            pick=lambda body: "protobuf" if isinstance(body, str) else body["kind"],
        ),
    ),
    probe(
        "prettily",
        get(f"{MAPS}/kube-root-ca.crt?pretty=true", pick=fields("metadata.name")),
        get(
            f"{MAPS}/kube-root-ca.crt",
            headers={"Accept": "application/yaml"},
            pick=lambda body: body.splitlines()[0] if isinstance(body, str) else body["apiVersion"],
        ),
        get(f"{MAPS}/kube-root-ca.crt", headers={"Accept": "*/*"}, pick=fields("metadata.name")),
        get(f"{MAPS}/kube-root-ca.crt", headers={"Accept": ""}, pick=fields("metadata.name")),
        get(
            f"{MAPS}/kube-root-ca.crt",
            headers={"Accept": "application/cbor;q=0.9,application/json"},
            pick=fields("kind"),
        ),
    ),
)
