"""A user with few rights on both sides: by RBAC and a token of a ServiceAccount, and by the sandbox's knobs."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.probe import CORE
from tests.e2e.controlplane.conformance.side import Side

NAME = "reader"
RULES: list[dict[str, Any]] = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["kube-root-ca.crt"]},
]
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"


def user_in(space: str) -> str:
    return f"system:serviceaccount:{space}:{NAME}"


def _post(side: Side, path: str, body: dict[str, Any]) -> Any:
    answer = side.ask("POST", path, body, {"Content-Type": "application/json"})
    if answer.code not in (200, 201):
        raise RuntimeError(f"{path}: {answer.code} {answer.body}")
    return answer.body


def real(side: Side, space: str) -> dict[str, Any]:
    """The account, its role, and a token that the API server signs."""
    meta = {"metadata": {"name": NAME}}
    _post(side, f"{CORE}/namespaces/{space}/serviceaccounts", meta)
    _post(side, f"{RBAC}/{space}/roles", {**meta, "rules": RULES})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME}
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": space}
    _post(side, f"{RBAC}/{space}/rolebindings", {**meta, "roleRef": role, "subjects": [subject]})
    path = f"{CORE}/namespaces/{space}/serviceaccounts/{NAME}/token"
    made = _post(side, path, {"spec": {"expirationSeconds": 3600}})
    return {"reader": made["status"]["token"], "user": user_in(space)}


def knobs(token: str, admin: str, space: str) -> dict[str, Any]:
    """The same user as the sandbox's settings say it."""
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    rules = [{**rule, "namespaces": [space]} for rule in RULES]
    return {
        "require_token": True,
        "tokens": {
            admin: {"user": "e2e-admin", "rules": everything},
            token: {"user": user_in(space), "rules": rules},
        },
    }
