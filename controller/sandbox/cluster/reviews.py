"""Questions about rights and tokens, which are created like objects and answered at once."""

from __future__ import annotations

from typing import Any

from controller.sandbox.cluster.access import User
from controller.sandbox.cluster.errors import ApiError, bad_request, invalid_as, wrong
from controller.sandbox.cluster.resources import Obj, Resource

GROUP = "authorization.k8s.io"
NEITHER = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
BOTH = "cannot be specified in combination with resourceAttributes"


def answered(resource: Resource, user: User, body: Obj, tokens: dict[str, Any]) -> Obj:
    """The body of a review with its status."""
    spec: Obj = body.get("spec") or {}
    if resource.kind == "SelfSubjectReview":
        return {"metadata": {}, "status": {"userInfo": {"username": user.name}}}
    if resource.kind == "TokenReview":
        return body | {"metadata": {}, "spec": spec, "status": _token(spec, tokens)}
    if resource.kind == "SelfSubjectRulesReview":
        if not spec.get("namespace"):
            raise bad_request("no namespace on request")
        status = {
            "resourceRules": _rules(user, spec["namespace"]),
            "nonResourceRules": [],
            "incomplete": False,
        }
        return body | {"metadata": {}, "spec": {}, "status": status}
    if resource.kind == "SubjectAccessReview":
        named = [User(str(held.get("user")), held.get("rules", [])) for held in tokens.values()]
        user = next(
            (each for each in named if each.name == spec.get("user")), User(str(spec.get("user")), [])
        )
    return body | {"metadata": {}, "spec": spec, "status": _access(user, spec)}


def _rules(user: User, namespace: str) -> list[Obj]:
    """Those that hold in a namespace; where a rule holds is not part of it."""
    return [
        {key: value for key, value in rule.items() if key != "namespaces"}
        for rule in user.rules
        if "resources" in rule and namespace in rule.get("namespaces", [namespace])
    ]


def _access(user: User, spec: Obj) -> Obj:
    asked: Any = spec.get("resourceAttributes")
    path: Any = spec.get("nonResourceAttributes")
    if asked is None and path is None:
        raise invalid_as("", GROUP, "", wrong("spec.resourceAttributes", None, NEITHER))
    if asked is not None and path is not None:
        shown = {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
        raise invalid_as("", GROUP, "", wrong("spec.nonResourceAttributes", shown, BOTH))
    if asked is None:
        allowed = user.may_path(path.get("verb", ""), path.get("path", ""))
    else:
        allowed = user.may(
            asked.get("verb", ""),
            asked.get("group", ""),
            asked.get("resource", ""),
            subresource=asked.get("subresource", ""),
            namespace=asked.get("namespace", ""),
            name=asked.get("name", ""),
        )
    return {"allowed": allowed} | ({"reason": "RBAC: allowed by the sandbox's rules"} if allowed else {})


def _token(spec: Obj, tokens: dict[str, Any]) -> Obj:
    token = spec.get("token")
    if not token:
        raise ApiError(400, "BadRequest", "token is required for TokenReview in authentication")
    if token in tokens:
        return {"authenticated": True, "user": {"username": str(tokens[token].get("user", token))}}
    return {"user": {}}
