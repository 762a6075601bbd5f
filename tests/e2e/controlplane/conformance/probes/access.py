"""Who asks, and what they may: no token, a wrong one, one with few rights; reviews of rights and tokens."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.probe import (
    CORE,
    DEPLOYMENTS,
    JOBS,
    MAPS,
    NODES,
    PODS,
    SECRETS,
    SPACES,
    at,
    delete,
    fields,
    get,
    patch,
    post,
    probe,
    put,
)

NOBODY = {"Authorization": ""}
WRONG = {"Authorization": "Bearer not-a-token"}
BASIC = {"Authorization": "Basic YTpi"}
EMPTY = {"Authorization": "Bearer "}
READER = {"Authorization": "Bearer <reader>"}
SELF = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
OTHERS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def may(**attributes: str) -> Any:
    return {"spec": {"resourceAttributes": attributes}}


def allowed(body: Any) -> Any:
    """Whether, not why: the reason names the objects that grant a right."""
    return {
        "kind": at(body, "kind"),
        "spec": at(body, "spec"),
        "allowed": at(body, "status.allowed"),
        "message": at(body, "message"),
    }


PROBES = (
    probe(
        "without a token",
        get(NODES, headers=NOBODY),
        get(f"{PODS}/a", headers=NOBODY),
        post(MAPS, {"metadata": {"name": "a"}}, headers=NOBODY),
        get("/version", headers=NOBODY, pick=fields("major")),
        get("/healthz", headers=NOBODY),
        get("/api", headers=NOBODY),
        get("/apis", headers=NOBODY),
        get("/nothing", headers=NOBODY),
        get("/api/v1/things", headers=NOBODY),
        post(SELF, may(verb="get", resource="pods"), headers=NOBODY),
    ),
    probe(
        "with a token that nobody issued",
        get(NODES, headers=WRONG),
        get("/version", headers=WRONG),
        get("/healthz", headers=WRONG),
        post(SELF, may(verb="get", resource="pods"), headers=WRONG),
        get(NODES, headers=BASIC),
        get(NODES, headers=EMPTY),
    ),
    probe(
        "with few rights",
        get(PODS, headers=READER, pick=fields("kind", "items")),
        get(f"{PODS}/none", headers=READER),
        post(PODS, {}, headers=READER),
        post(MAPS, {}, headers=READER),
        delete(f"{PODS}/none", headers=READER),
        delete(PODS, headers=READER),
        patch(f"{PODS}/none/status", {}, headers=READER),
        put(f"{PODS}/none/status", {}, headers=READER),
        post(f"{PODS}/none/eviction", {}, headers=READER),
        post(f"{PODS}/none/binding", {}, headers=READER),
        get(f"{PODS}?watch=1", headers=READER),
        get(f"{CORE}/pods", headers=READER),
        get(NODES, headers=READER),
        get(f"{NODES}/none", headers=READER),
        get(f"{SPACES}/default/pods", headers=READER),
        get(SPACES, headers=READER),
        get(f"{SPACES}/<ns>", headers=READER),
        get(f"{MAPS}/kube-root-ca.crt", headers=READER, pick=fields("metadata.name")),
        get(f"{MAPS}/other", headers=READER),
        get(f"{MAPS}?fieldSelector=metadata.name=kube-root-ca.crt", headers=READER),
        get(JOBS, headers=READER),
        get(f"{DEPLOYMENTS}/a/scale", headers=READER),
        get("/api/v1/things", headers=READER),
        get("/nothing", headers=READER),
        get("/version", headers=READER, pick=fields("major")),
        get("/apis", headers=READER, pick=fields("kind")),
        post(SPACES, {"metadata": {"name": "a"}}, headers=READER),
        get(SECRETS, headers=READER),
    ),
    probe(
        "reviews of one's own rights",
        *(
            post(SELF, may(**each), headers=READER, pick=allowed)
            for each in (
                {"verb": "list", "resource": "pods", "namespace": "<ns>"},
                {"verb": "list", "resource": "pods"},
                {"verb": "list", "resource": "pods", "namespace": "default"},
                {"verb": "delete", "resource": "pods", "namespace": "<ns>"},
                {"verb": "get", "resource": "configmaps", "namespace": "<ns>", "name": "kube-root-ca.crt"},
                {"verb": "get", "resource": "configmaps", "namespace": "<ns>"},
                {"verb": "create", "resource": "pods", "subresource": "eviction", "namespace": "<ns>"},
                {"verb": "*", "resource": "*", "group": "*"},
            )
        ),
        post(
            SELF,
            {"spec": {"nonResourceAttributes": {"path": "/version", "verb": "get"}}},
            headers=READER,
            pick=allowed,
        ),
        post(
            SELF,
            {"spec": {"nonResourceAttributes": {"path": "/logs", "verb": "get"}}},
            headers=READER,
            pick=allowed,
        ),
        post(SELF, may(verb="list", resource="pods"), pick=allowed),
        post(SELF, may(verb="*", resource="*", group="*"), pick=allowed),
        post(SELF, {"spec": {}}),
        post(SELF, {}),
        post(SELF, {"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}}),
        post(SELF, may(verb="list", resource="pods"), headers=READER),
        post(
            RULES,
            {"spec": {"namespace": "<ns>"}},
            headers=READER,
            pick=lambda body: [
                each for each in body["status"]["resourceRules"] if "pods" in each["resources"]
            ],
        ),
        post(RULES, {"spec": {}}, headers=READER),
    ),
    probe(
        "reviews of others",
        post(
            OTHERS,
            {
                "spec": {
                    "user": "<user>",
                    "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "<ns>"},
                }
            },
            pick=allowed,
        ),
        post(
            OTHERS,
            {
                "spec": {
                    "user": "<user>",
                    "resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "<ns>"},
                }
            },
            pick=allowed,
        ),
        post(OTHERS, {"spec": {"user": "<user>"}}, headers=READER),
        post(
            TOKENS,
            {"spec": {"token": "not-a-token"}},
            pick=fields("kind", "status.authenticated", "status.user"),
        ),
        post(
            TOKENS,
            {"spec": {"token": "<reader>"}},
            pick=fields("kind", "status.authenticated", "status.user.username"),
        ),
        post(TOKENS, {"spec": {}}),
        post(TOKENS, {"spec": {"token": "a"}}, headers=READER),
        post(WHO, {}, headers=READER, pick=fields("kind", "status.userInfo.username")),
        post(WHO, {}, headers=NOBODY),
    ),
)
