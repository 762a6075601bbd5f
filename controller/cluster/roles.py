"""The table of rights as RBAC objects, for those whose manifests grant a predecessor's rights and not ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller.cluster.rights import RIGHTS, Right

Obj = dict[str, Any]


def objects(name: str, namespace: str, service_account: str, secrets: Iterable[str] = ()) -> list[Obj]:
    """Roles with everything that is needed and their bindings. `secrets`: the only ones that may be read."""
    wanted = tuple(secrets)
    everywhere = [right for right in RIGHTS if not right.own_namespace]
    here = [right for right in RIGHTS if right.own_namespace and not right.only_for]
    rules = _rules(here)
    for right in RIGHTS:
        if right.only_for and wanted:
            rules.append(
                {
                    "apiGroups": [right.group],
                    "resources": [right.plural],
                    "resourceNames": list(wanted),
                    "verbs": [right.verb],
                }
            )
    group = "rbac.authorization.k8s.io"
    subject = [{"kind": "ServiceAccount", "name": service_account, "namespace": namespace}]
    metadata = {"name": name, "namespace": namespace}
    return [
        _object("ClusterRole", {"name": name}, rules=_rules(everywhere)),
        _object(
            "ClusterRoleBinding",
            {"name": name},
            roleRef={"apiGroup": group, "kind": "ClusterRole", "name": name},
            subjects=subject,
        ),
        _object("Role", metadata, rules=rules),
        _object(
            "RoleBinding",
            dict(metadata),
            roleRef={"apiGroup": group, "kind": "Role", "name": name},
            subjects=[dict(each) for each in subject],
        ),
    ]


def _object(kind: str, metadata: Obj, **more: Any) -> Obj:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, **more}


def _rules(rights: Iterable[Right]) -> list[Obj]:
    """Rights of one group with the same verbs and names share a rule."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for right in rights:
        resource = f"{right.plural}/{right.subresource}" if right.subresource else right.plural
        verbs.setdefault((right.group, resource, right.name), []).append(right.verb)
    rules: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, resource, name), found in verbs.items():
        rules.setdefault((group, name, tuple(found)), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources}
        | ({"resourceNames": [name]} if name else {})
        | {"verbs": list(found)}
        for (group, name, found), resources in rules.items()
    ]
