"""What the API tells about itself: versions, groups, resources, and just enough OpenAPI.

kubectl asks for aggregated discovery first and falls back to the plain one. It validates manifests on
the server when the OpenAPI v3 document of a group declares the `fieldValidation` parameter for PATCH;
so each document declares exactly that and no schemas, which also keeps `apply` on its built-in types.
"""

from __future__ import annotations

from controller.sandbox.cluster.errors import not_acceptable, not_allowed
from controller.sandbox.cluster.resources import GROUP_VERSIONS, RESOURCES, Obj, Resource
from controller.sandbox.wire import Request, Response

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go1.26.0",
    "compiler": "gc",
    "platform": "linux/amd64",
}
HEALTH = ("/healthz", "/readyz", "/livez")
TEXT = "text/plain; charset=utf-8"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def answer(request: Request) -> Response | None:
    """The answer to a path of discovery; None for any other."""
    path = request.path.rstrip("/")
    found = _answer(request, path)
    if found is not None and request.method not in ("GET", "HEAD"):
        raise not_allowed()
    return found


def _answer(request: Request, path: str) -> Response | None:
    if path in HEALTH:
        text = f"{path[1:]} check passed\n" if "verbose" in request.query else "ok"
        return Response(200, text.encode(), {"Content-Type": TEXT})
    if path == "":
        return Response.of_json(200, {"paths": ["/api", "/api/v1", "/apis", *HEALTH, "/version"]})
    if path == "/version":
        return Response.of_json(200, VERSION)
    if path in ("/api", "/apis"):
        return _roots(request, core=path == "/api")
    if path == "/api/v1":
        return Response.of_json(200, _resource_list("", "v1"))
    parts = path.split("/")[1:]
    if parts[0] == "apis" and len(parts) in (2, 3):
        found = [gv for gv in GROUP_VERSIONS if gv[0] == parts[1] and (len(parts) == 2 or gv[1] == parts[2])]
        if found:
            return Response.of_json(
                200, _group(found[0][0]) if len(parts) == 2 else _resource_list(*found[0])
            )
    return _openapi(request, path)


BINDINGS: Obj = {"kind": "Binding", "verbs": ["create"]}


def _of(group: str, version: str) -> list[Resource]:
    return [r for r in RESOURCES if (r.group, r.version) == (group, version)]


def _roots(request: Request, *, core: bool) -> Response:
    accept = request.headers.get("accept", "").replace(" ", "")
    if "v=v2;as=APIGroupDiscoveryList" in accept:
        body = _aggregated(core=core)
        return Response.of_json(200, body, {"Content-Type": _AGGREGATED})
    plain = [part.partition(";") for part in accept.split(",") if "as=" not in part]
    if accept and not any(media in ("*/*", "application/json", "application/*") for media, _, _ in plain):
        raise not_acceptable(
            "only the following media types are accepted: application/json, application/yaml"
        )
    if core:
        address: Obj = {"clientCIDR": "0.0.0.0/0", "serverAddress": request.headers.get("host", "")}
        return Response.of_json(
            200, {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}
        )
    groups = [_group(group) for group, _ in GROUP_VERSIONS if group]
    return Response.of_json(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})


def _group(group: str) -> Obj:
    versions = [{"groupVersion": f"{g}/{v}", "version": v} for g, v in GROUP_VERSIONS if g == group]
    head = {"kind": "APIGroup", "apiVersion": "v1"}
    return head | {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(group: str, version: str) -> Obj:
    listed: list[Obj] = []
    if not group:
        listed.append(BINDINGS | {"name": "bindings", "singularName": "binding", "namespaced": True})
    for each in _of(group, version):
        entry: Obj = {"name": each.plural, "singularName": each.kind.lower(), "namespaced": each.namespaced}
        entry |= {"kind": each.kind, "verbs": list(each.verbs)}
        if each.short:
            entry["shortNames"] = list(each.short)
        if each.in_all:
            entry["categories"] = ["all"]
        listed.append(entry)
        for sub in each.subresources:
            kind, verbs = _subresource(each, sub)
            listed.append(
                {"name": f"{each.plural}/{sub}", "singularName": "", "namespaced": each.namespaced}
                | kind
                | {"verbs": verbs}
            )
    full = f"{group}/{version}" if group else version
    head: Obj = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if group else {})
    return head | {"groupVersion": full, "resources": listed}


def _subresource(resource: Resource, name: str) -> tuple[Obj, list[str]]:
    if name == "eviction":
        # kubectl drain looks for exactly this kind before it evicts.
        return {"group": "policy", "version": "v1", "kind": "Eviction"}, ["create"]
    if name == "scale":
        return {"group": "autoscaling", "version": "v1", "kind": "Scale"}, ["get", "patch", "update"]
    if name == "binding":
        return {"kind": "Binding"}, ["create"]
    return {"kind": resource.kind}, ["update"] if name == "finalize" else ["get", "patch", "update"]


def _aggregated(*, core: bool) -> Obj:
    items: list[Obj] = []
    for group, gv in GROUP_VERSIONS:
        if bool(group) == core:
            continue
        resources: list[Obj] = []
        if not group:
            kind = {"group": "", "version": "", "kind": "Binding"}
            told = {"resource": "bindings", "responseKind": kind, "scope": "Namespaced"}
            resources.append(told | {"singularResource": "binding", "verbs": ["create"]})
        for each in _of(group, gv):
            entry: Obj = {
                "resource": each.plural,
                "responseKind": {"group": "", "version": "", "kind": each.kind},
                "scope": "Namespaced" if each.namespaced else "Cluster",
                "singularResource": each.kind.lower(),
                "verbs": list(each.verbs),
            }
            if each.short:
                entry["shortNames"] = list(each.short)
            if each.in_all:
                entry["categories"] = ["all"]
            doors = []
            for sub in each.subresources:
                kind, verbs = _subresource(each, sub)
                # Empty names mean those of the group that lists it.
                full = {"group": "", "version": ""} | kind
                doors.append({"subresource": sub, "responseKind": full, "verbs": verbs})
            resources.append(entry | ({"subresources": doors} if doors else {}))
        items.append(
            {
                "metadata": {"name": group, "creationTimestamp": None},
                "versions": [{"version": gv, "resources": resources, "freshness": "Current"}],
            }
        )
    kind = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    return kind | {"metadata": {}, "items": items}


def _openapi(request: Request, path: str) -> Response | None:
    if path == "/openapi/v2":
        # Served in protobuf only where the client insists; without it kubectl goes on with v3.
        if "protobuf" in request.headers.get("accept", "") and "json" not in request.headers[
            "accept"
        ].replace("com.github", ""):
            return Response(406, b"only JSON is served", {"Content-Type": "text/plain"})
        info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
        return Response.of_json(200, {"swagger": "2.0", "info": info, "paths": {}, "definitions": {}})
    where = {(f"apis/{g}/{v}" if g else f"api/{v}"): (g, v) for g, v in GROUP_VERSIONS}
    if path == "/openapi/v3":
        urls = {name: {"serverRelativeURL": f"/openapi/v3/{name}?hash=sandbox"} for name in where}
        return Response.of_json(200, {"paths": urls}, {"Content-Type": TEXT})
    name = path.removeprefix("/openapi/v3/")
    if name == path:
        return None
    if name not in where:
        return Response(404)
    parameters = [
        {"name": each, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for each in ("dryRun", "fieldManager", "fieldValidation")
    ]
    paths: Obj = {}
    for each in _of(*where[name]):
        scope = "namespaces/{namespace}/" if each.namespaced else ""
        kind = {"group": each.group, "version": each.version, "kind": each.kind}
        paths[f"/{name}/{scope}{each.plural}/{{name}}"] = {
            "patch": {
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": kind,
                "parameters": parameters,
                "responses": {"200": {"description": "OK"}},
            }
        }
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return Response.of_json(
        200, {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}
    )
