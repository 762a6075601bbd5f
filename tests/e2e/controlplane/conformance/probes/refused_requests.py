"""What is refused before an object is looked at: paths, methods, media types, bodies."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.manifests import a_node, a_pod
from tests.e2e.controlplane.conformance.probe import (
    DEPLOYMENTS,
    JOBS,
    LEASES,
    MAPS,
    NODES,
    NS,
    PODS,
    delete,
    get,
    patch,
    post,
    probe,
    put,
)


def with_meta(**meta: Any) -> Any:
    return {"metadata": meta, "data": {"a": "1"}}


def wanting(**spec: Any) -> Any:
    return a_pod("refused", **spec)


def a_machine(**more: Any) -> Any:
    return a_node("refused", **more)


PROBES = (
    probe(
        "paths that lead nowhere",
        get("/nothing"),
        get("/api/v2"),
        get("/api/v1/things"),
        get("/apis/example.com"),
        get("/apis/example.com/v1/things"),
        get("/apis/apps/v9/deployments"),
        get("/apis/apps/v1/things"),
        get(f"{PODS}/none/things"),
        get(f"{NODES}/none/eviction"),
        get(f"{NS}/nodes"),
        get(f"{NS}/nodes/none"),
        get("/api/v1/pods/none"),
        delete("/nothing"),
        post("/api/v1/things", {}),
    ),
    probe(
        "what is not there",
        get(f"{MAPS}/none"),
        get("/api/v1/namespaces/none-<tag>/configmaps/none"),
        get("/api/v1/namespaces/none-<tag>"),
        get("/api/v1/namespaces/none-<tag>/configmaps"),
        get(f"{JOBS}/none"),
        get(f"{NODES}/none-<tag>"),
        get(f"{PODS}/none/status"),
        get(f"{DEPLOYMENTS}/none/scale"),
        put(f"{MAPS}/none", with_meta(name="none")),
        put(f"{MAPS}/none", with_meta(name="none", resourceVersion="5")),
        put(f"{MAPS}/none", with_meta(name="none", uid="11111111-1111-4111-8111-111111111111")),
        patch(f"{MAPS}/none", {"data": {"a": "1"}}),
        delete(f"{MAPS}/none"),
        delete(f"{NODES}/none-<tag>"),
        post("/api/v1/namespaces/none-<tag>/configmaps", with_meta(name="a")),
        post("/api/v1/namespaces/none-<tag>/pods", wanting()),
        post(f"{PODS}/none/eviction", {"metadata": {"name": "none", "namespace": "<ns>"}}),
        post(f"{PODS}/none/binding", {"metadata": {"name": "none"}, "target": {"name": "none"}}),
        put(f"{PODS}/none/status", a_pod("none")),
        patch(f"{NODES}/none-<tag>/status", {"status": {"phase": "Running"}}),
    ),
    probe(
        "methods that do not go there",
        post(f"{MAPS}/none", with_meta(name="none")),
        put(MAPS, with_meta(name="none")),
        patch(MAPS, {"data": {}}),
        delete(f"{PODS}/none/status"),
        get(f"{PODS}/none/eviction"),
        get(f"{PODS}/none/binding"),
        put(f"{PODS}/none/eviction", {}),
        post("/api/v1/pods", wanting()),
        post("/api/v1/configmaps", with_meta(name="a")),
        delete("/api/v1/pods"),
        delete("/api/v1/namespaces"),
        get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        delete("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        post(f"{NODES}/none-<tag>/status", {}),
        post("/version", {}),
        post("/api", {}),
    ),
    probe(
        "media types",
        get(f"{MAPS}/kube-root-ca.crt", headers={"Accept": "text/html"}, pick=lambda body: body),
        get(MAPS, headers={"Accept": "image/png"}),
        get(f"{MAPS}/none", headers={"Accept": "text/html"}),
        post(MAPS, with_meta(name="typed"), kind="text/plain"),
        post(MAPS, with_meta(name="typed"), kind="application/x-www-form-urlencoded"),
        post(MAPS, b"metadata: {name: typed}\ndata: {a: '1'}\n", kind="application/yaml"),
        delete(f"{MAPS}/typed"),
        post(MAPS, with_meta(name="untyped"), kind="", headers={"Content-Type": ""}),
        patch(f"{MAPS}/untyped", {"data": {"a": "2"}}, "application/json"),
        patch(f"{MAPS}/untyped", {"data": {"a": "2"}}, "application/yaml"),
        patch(f"{MAPS}/none", {"data": {"a": "2"}}, "application/json"),
        patch(f"{MAPS}/untyped", {"data": {"a": "2"}}, "text/plain"),
    ),
    probe(
        "bodies that are no objects",
        post(MAPS, b""),
        post(MAPS, b"{not json"),
        post(MAPS, b"[]"),
        post(MAPS, b'"text"'),
        post(MAPS, b"3"),
        post(MAPS, b"null"),
        post(MAPS, b"{}"),
        put(f"{MAPS}/none", b""),
        patch(f"{MAPS}/kube-root-ca.crt", b""),
        patch(f"{MAPS}/kube-root-ca.crt", b"{not json"),
        patch(f"{MAPS}/kube-root-ca.crt", b"[]"),
        patch(f"{MAPS}/kube-root-ca.crt", b'"text"'),
    ),
    probe(
        "a body that is no YAML",
        post(MAPS, b"a: [b\n", kind="application/yaml"),
        patch(f"{MAPS}/none?fieldManager=a", b"a: [b\n", "application/apply-patch+yaml"),
    ),
    probe(
        "objects of another kind",
        post(PODS, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}),
        post(PODS, {"kind": "Pod", "apiVersion": "v2", "metadata": {"name": "a"}}),
        post(PODS, {"kind": "Pod", "apiVersion": "apps/v1", "metadata": {"name": "a"}}),
        post(PODS, {"kind": "Thing", "metadata": {"name": "a"}}),
        post(PODS, {"kind": "Thing", "apiVersion": "example.com/v1", "metadata": {"name": "a"}}),
        post(MAPS, {"kind": "ConfigMap", "metadata": {"name": "a"}}),
        post(MAPS, {"apiVersion": "v1", "metadata": {"name": "b"}}),
        post(MAPS, {"kind": "ConfigMapList", "apiVersion": "v1", "items": []}),
    ),
    probe(
        "values of the wrong type",
        post(MAPS, {"metadata": "text"}),
        post(MAPS, {"metadata": {"name": 3}}),
        post(MAPS, {"metadata": {"name": "a", "labels": {"a": 1}}}),
        post(MAPS, {"metadata": {"name": "a", "labels": ["a"]}}),
        post(MAPS, {"metadata": {"name": "a"}, "data": {"a": 1}}),
        post(MAPS, {"metadata": {"name": "a"}, "data": "text"}),
        post(MAPS, {"metadata": {"name": "a"}, "binaryData": {"a": "no base64!"}}),
        post(PODS, {"metadata": {"name": "a"}, "spec": {"containers": [3]}}),
        post(PODS, {"metadata": {"name": "a"}, "spec": {"containers": {"name": "main"}}}),
        post(PODS, {"metadata": {"name": "a"}, "spec": "text"}),
        post(PODS, wanting(terminationGracePeriodSeconds="soon")),
        post(PODS, wanting(hostNetwork="yes")),
        post(PODS, wanting(terminationGracePeriodSeconds=1.5)),
        post(PODS, wanting(priority=1 << 40)),
        post(NODES, a_machine(status={"capacity": ["cpu"]})),
        post(LEASES, {"metadata": {"name": "a"}, "spec": {"renewTime": "yesterday"}}),
    ),
)
