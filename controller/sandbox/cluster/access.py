"""Who asks and what they may: bearer tokens with rules, so that a test can take rights away.

By default any token, or none, is an administrator. Where a token is required, nobody is
`system:anonymous`, who may ask for the version and the health and nothing else; a token that nobody
issued is refused at once. Refusals carry the real server's wording, because programs print it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from controller.sandbox.cluster.errors import ApiError, unauthorized
from controller.sandbox.cluster.paths import Asked
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.wire import Request

EVERYTHING: list[Obj] = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]
PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")
KNOWN = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")  # to everybody who has a token
REVIEWS = {
    "authorization.k8s.io": ("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
    "authentication.k8s.io": ("selfsubjectreviews",),
}
ANONYMOUS = "system:anonymous"


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
        if self.name != ANONYMOUS and verb == "create" and resource in REVIEWS.get(group, ()):
            return True
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

    def may_path(self, verb: str, path: str) -> bool:
        """For what is no resource: versions, health, discovery."""
        if verb in ("get", "head") and (path.rstrip("/") or "/") in PUBLIC:
            return True
        if self.name != ANONYMOUS and verb == "get" and any(_path_holds(each, path) for each in KNOWN):
            return True
        if any(
            _holds(rule.get("resources", []), "*") and _holds(rule.get("verbs", []), "*")
            for rule in self.rules
        ):
            return True  # a rule over everything is an administrator's
        return any(
            _holds(rule.get("verbs", []), verb)
            and any(_path_holds(url, path) for url in rule["nonResourceURLs"])
            for rule in self.rules
            if rule.get("nonResourceURLs")
        )


def _holds(allowed: list[str], wanted: str) -> bool:
    return "*" in allowed or wanted in allowed


def _path_holds(pattern: str, path: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return path.rstrip("/") == pattern


def token_of(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def user_of(token: str, tokens: dict[str, Any], require_token: bool) -> User:
    if token in tokens:
        held = tokens[token]
        return User(str(held.get("user", token)), list(held.get("rules", [])))
    if require_token and not token:
        return User(ANONYMOUS, [])
    if require_token and tokens:
        raise unauthorized()
    return User()


def check(user: User, asked: Asked) -> None:
    """403 where a user may not do what a request asks for, whether or not that is served."""
    if asked.group is None:
        if not user.may_path(asked.verb, asked.path):
            message = f'forbidden: User "{user.name}" cannot {asked.verb} path "{asked.path}"'
            raise ApiError(403, "Forbidden", message, {})
        return
    if user.may(
        asked.verb,
        asked.group,
        asked.plural,
        subresource=asked.subresource,
        namespace=asked.namespace,
        name=asked.name or asked.chosen,
    ):
        return
    full = f"{asked.plural}/{asked.subresource}" if asked.subresource else asked.plural
    what = f"{asked.plural}.{asked.group}" if asked.group else asked.plural
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    name = asked.name or asked.chosen
    subject = f'{what} "{name}"' if name else what
    message = (
        f'{subject} is forbidden: User "{user.name}" cannot {asked.verb} resource "{full}" '
        f'in API group "{asked.group}" {where}'
    )
    details: Obj = ({"name": name} if name else {}) | ({"group": asked.group} if asked.group else {})
    raise ApiError(403, "Forbidden", message, details | {"kind": asked.plural})
