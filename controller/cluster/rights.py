"""Every right that the program needs, in one table, and the question to the API server which are missing.

The chart's roles are tested against this table, `config check --cluster` prints what is missing from
it, and a start without them buys nothing. Asked with SelfSubjectAccessReview: unlike the rules review it
also answers for webhook authorisers, which cannot list their rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from controller.cluster.kinds import OPTIONAL
from controller.cluster.protocol import Transport

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
AT_ONCE = 8


class Right(msgspec.Struct, frozen=True, order=True):
    resource: str  # with its group and subresource, as RBAC's own error messages write it: `jobs.batch`
    verb: str
    own_namespace: bool = False
    name: str = ""
    only_for: str = ""  # needed only by those who use this
    optional: bool = False  # of a kind that not every cluster has: without it such pods are not bought for

    @property
    def group(self) -> str:
        return self.resource.partition("/")[0].partition(".")[2]

    @property
    def plural(self) -> str:
        return self.resource.partition("/")[0].partition(".")[0]

    @property
    def subresource(self) -> str:
        return self.resource.partition("/")[2]

    def line(self, namespace: str) -> str:
        """`update configmaps in namespace gpu-autoscaler`"""
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{named}" + (
            f" in namespace {namespace}" if self.own_namespace else ""
        )


def _rights(
    resource: str,
    verbs: str,
    *,
    own: bool = False,
    name: str = "",
    only_for: str = "",
    optional: bool = False,
) -> list[Right]:
    return [Right(resource, verb, own, name, only_for, optional) for verb in verbs.split()]


JOIN_TOKENS = "join tokens, and credentials of webhooks, in Secrets"
RIGHTS: tuple[Right, ...] = (
    *_rights("nodes", "get list watch patch delete"),
    *_rights("pods", "list watch"),
    *_rights("pods/eviction", "create"),
    *_rights("daemonsets.apps", "list watch"),
    *_rights("jobs.batch", "list watch"),
    *_rights("poddisruptionbudgets.policy", "list watch"),
    *_rights("namespaces", "list watch"),
    *_rights("persistentvolumeclaims", "list watch"),
    *_rights("persistentvolumes", "list watch"),
    *_rights("limitranges", "list watch"),
    *_rights("storageclasses.storage.k8s.io", "list watch"),
    *_rights("csinodes.storage.k8s.io", "list watch"),
    *(
        right
        for resource in dict.fromkeys(kind.resource for kind in OPTIONAL)
        for right in _rights(resource, "list watch", optional=True)
    ),
    *_rights("events", "create patch"),
    *_rights("namespaces", "get", name="kube-system"),
    *_rights("configmaps", "get create update", own=True),
    *_rights("leases.coordination.k8s.io", "get create update", own=True),
    *_rights("deployments.apps", "get", own=True),
    *_rights("secrets", "get", own=True, only_for=JOIN_TOKENS),
)


async def missing(transport: Transport, namespace: str, secrets: Iterable[str] = ()) -> list[str]:
    """The lines of the rights that are not granted, sorted. `secrets`: names that must be readable.

    Those of optional kinds are not among them: they stop nothing, and the view tells what it may not read.
    """
    wanted = [right for right in RIGHTS if not right.only_for and not right.optional]
    wanted += [
        msgspec.structs.replace(right, name=name) for right in RIGHTS if right.only_for for name in secrets
    ]
    gate = asyncio.Semaphore(AT_ONCE)

    async def allowed(right: Right) -> bool:
        async with gate:
            return await _allowed(transport, right, namespace)

    answers = await asyncio.gather(*(allowed(right) for right in wanted))
    return sorted(right.line(namespace) for right, yes in zip(wanted, answers, strict=True) if not yes)


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


async def _allowed(transport: Transport, right: Right, namespace: str) -> bool:
    attributes = {
        "group": right.group,
        "resource": right.plural,
        "verb": right.verb,
        "subresource": right.subresource,
        "name": right.name,
        "namespace": namespace if right.own_namespace else "",
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    raw = await transport.request("POST", REVIEWS, body=body)
    return msgspec.json.decode(raw, type=_Review).status.allowed
