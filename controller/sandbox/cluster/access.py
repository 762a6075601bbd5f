"""Who asks and what they may: bearer tokens with rules, so that a test can take rights away.

By default any token, or none, is an administrator. Refusals carry the real server's wording, because
programs print it and people search for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from controller.sandbox.cluster.errors import ApiError, unauthorized
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.wire import Request

EVERYTHING: list[Obj] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


@dataclass(frozen=True)
class User:
    name: str = "sandbox-admin"
    rules: list[Obj] = field(default_factory=lambda: EVERYTHING)

    def may(
        self,
        verb: str,
        group: str,
        resource: str,
        *,
        subresource: str = "",
        namespace: str = "",
        name: str = "",
    ) -> bool:
        """Rules are RBAC's; one with `namespaces` holds only in those."""
        full = f"{resource}/{subresource}" if subresource else resource
        for rule in self.rules:
            if rule.get("namespaces") and namespace not in rule["namespaces"]:
                continue
            if not _holds(rule.get("apiGroups", [""]), group) or not _holds(rule.get("verbs", []), verb):
                continue
            resources = rule.get("resources", [])
            if not _holds(resources, full) and not (subresource and f"*/{subresource}" in resources):
                continue
            if rule.get("resourceNames") and name not in rule["resourceNames"]:
                continue
            return True
        return False


def _holds(allowed: list[str], wanted: str) -> bool:
    return "*" in allowed or wanted in allowed


def user_of(request: Request, tokens: dict[str, Any], require_token: bool) -> User:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip() if scheme.lower() == "bearer" else ""
    if token in tokens:
        held = tokens[token]
        return User(str(held.get("user", token)), list(held.get("rules", [])))
    if require_token and (not token or tokens):
        raise unauthorized()
    return User()


def check(
    user: User,
    verb: str,
    group: str,
    resource: str,
    *,
    subresource: str = "",
    namespace: str = "",
    name: str = "",
) -> None:
    if user.may(verb, group, resource, subresource=subresource, namespace=namespace, name=name):
        return
    full = f"{resource}/{subresource}" if subresource else resource
    what = f"{resource}.{group}" if group else resource
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    subject = f'{what} "{name}"' if name else what
    message = (
        f'{subject} is forbidden: User "{user.name}" cannot {verb} resource "{full}" '
        f'in API group "{group}" {where}'
    )
    details: Obj = ({"name": name} if name else {}) | ({"group": group} if group else {}) | {"kind": resource}
    raise ApiError(403, "Forbidden", message, details)


def review(user: User, body: Obj) -> Obj:
    """The answer to a SelfSubjectAccessReview."""
    spec = body.get("spec") or {}
    asked = spec.get("resourceAttributes")
    if asked is None:
        allowed = _holds([v for rule in user.rules for v in rule.get("verbs", [])], "*")
    else:
        allowed = user.may(
            asked.get("verb", ""),
            asked.get("group", ""),
            asked.get("resource", ""),
            subresource=asked.get("subresource", ""),
            namespace=asked.get("namespace", ""),
            name=asked.get("name", ""),
        )
    status: Obj = {"allowed": allowed}
    if allowed:
        status["reason"] = "RBAC: allowed by the sandbox's rules"
    return body | {"metadata": {"creationTimestamp": None}, "status": status}


def rules_review(user: User, body: Obj) -> Obj:
    return body | {
        "metadata": {"creationTimestamp": None},
        "status": {"resourceRules": user.rules, "nonResourceRules": [], "incomplete": False},
    }
