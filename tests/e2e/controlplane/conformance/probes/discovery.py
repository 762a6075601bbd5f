"""What a server tells about itself: versions, groups, resources, health; what kubectl reads first."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.probe import Pick, at, fields, get, probe

AGGREGATED = {
    "Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
}
# What the sandbox has of the API; whatever else the API server offers is no part of the comparison.
SERVED: dict[str, tuple[str, ...]] = {
    "v1": ("pods", "nodes", "namespaces", "events", "configmaps", "secrets", "serviceaccounts", "services", "persistentvolumeclaims", "persistentvolumes", "limitranges", "resourcequotas", "replicationcontrollers", "bindings"),
    "apps/v1": ("daemonsets", "deployments", "replicasets", "statefulsets"),
    "batch/v1": ("jobs", "cronjobs"),
    "policy/v1": ("poddisruptionbudgets",),
    "coordination.k8s.io/v1": ("leases",),
    "scheduling.k8s.io/v1": ("priorityclasses",),
    "node.k8s.io/v1": ("runtimeclasses",),
    "storage.k8s.io/v1": ("storageclasses", "csinodes", "volumeattachments"),
    "events.k8s.io/v1": ("events",),
    "resource.k8s.io/v1": ("deviceclasses", "resourceslices", "resourceclaims", "resourceclaimtemplates"),
    "rbac.authorization.k8s.io/v1": ("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    "authorization.k8s.io/v1": ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"),
    "authentication.k8s.io/v1": ("tokenreviews", "selfsubjectreviews"),
}  # fmt: skip
DOORS = ("", "status", "scale", "eviction", "binding", "finalize")


def resources(wanted: tuple[str, ...]) -> Pick:
    def pick(body: Any) -> Any:
        if at(body, "kind") != "APIResourceList":
            return body
        found = {}
        for each in body["resources"]:
            plural, _, door = each["name"].partition("/")
            if plural in wanted and door in DOORS:
                # The hash names the version in which a kind is stored.
                told = {key: value for key, value in each.items() if key != "storageVersionHash"}
                found[each["name"]] = told | {"verbs": sorted(each["verbs"])}
        return {
            "groupVersion": body["groupVersion"],
            "apiVersion": at(body, "apiVersion"),
            "resources": found,
        }

    return pick


def groups(body: Any) -> Any:
    wanted = {name.rpartition("/")[0] for name in SERVED}
    named = {each["name"]: each for each in body["groups"] if each["name"] in wanted}
    preferred = {name: each["preferredVersion"] for name, each in sorted(named.items())}
    return {"kind": body["kind"], "apiVersion": body["apiVersion"], "preferred": preferred}


def aggregated(body: Any) -> Any:
    if at(body, "kind") != "APIGroupDiscoveryList":
        return body
    found: dict[str, Any] = {}
    for group in body["items"]:
        for version in group["versions"]:
            name = "/".join(filter(None, (group["metadata"].get("name", ""), version["version"])))
            for each in version["resources"]:
                if each["resource"] in SERVED.get(name, ()):
                    doors = {
                        door["subresource"]: door
                        for door in each.get("subresources", ())
                        if door["subresource"] in DOORS
                    }
                    told = {key: value for key, value in each.items() if key not in ("subresources", "verbs")}
                    found[f"{name} {each['resource']}"] = told | {
                        "verbs": sorted(each["verbs"]),
                        "doors": doors,
                    }
    return {
        "kind": body["kind"],
        "apiVersion": body["apiVersion"],
        "metadata": body["metadata"],
        "resources": found,
    }


PROBES = (
    probe(
        "versions and health",
        get("/version", pick=fields("major", "minor", "gitVersion")),
        get("/healthz"),
        get("/readyz"),
        get("/livez"),
        get("/readyz?verbose", pick=lambda body: body.splitlines()[-1]),
        get("/api", pick=fields("kind", "versions")),
        get("/apis", pick=groups),
        get("/apis/batch", pick=fields("kind", "apiVersion", "name", "preferredVersion")),
        get("/apis/apps/", pick=fields("kind", "name")),
        get(
            "/",
            pick=lambda body: [
                each for each in ("/api", "/apis", "/healthz", "/version") if each in body.get("paths", ())
            ],
        ),
        get("/apis/none.example.com"),
        get("/apis/apps/v7"),
    ),
    probe(
        "resources",
        *(
            get(f"/api/{name}" if name == "v1" else f"/apis/{name}", pick=resources(wanted))
            for name, wanted in SERVED.items()
        ),
    ),
    probe(
        "everything in one answer",
        get("/api", headers=AGGREGATED, pick=aggregated),
        get("/apis", headers=AGGREGATED, pick=aggregated),
        get(
            "/apis",
            headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"},
            pick=lambda body: at(body, "apiVersion"),
        ),
        get(
            "/apis",
            headers={"Accept": "text/html"},
            pick=lambda body: at(body, "code") if isinstance(body, dict) else body,
        ),
    ),
    probe(
        "openapi",
        get(
            "/openapi/v3",
            pick=lambda body: [
                each for each in ("api/v1", "apis/apps/v1", "apis/batch/v1") if each in body["paths"]
            ],
        ),
        get(
            "/openapi/v3/apis/batch/v1",
            pick=lambda body: [
                body["openapi"][:2],
                sorted(
                    each["name"]
                    for each in body["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]["patch"][
                        "parameters"
                    ]
                    if each["name"] in ("dryRun", "fieldManager", "fieldValidation")
                ),
            ],
        ),
        get("/openapi/v3/apis/none.example.com/v1"),
    ),
)
