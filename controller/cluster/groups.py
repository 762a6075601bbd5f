"""Gangs as their schedulers' own objects say them: coscheduling, Volcano, KAI and the native one.

All four kinds are called PodGroup; before there was a native one, a Workload held several. Two of them also say that a gang waits for its queue's quota, which
more machines would not change: Volcano by its phase (Pending: the queue has not let it in), KAI by
reasons in a list of its own beside the conditions.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import msgspec

from controller.cluster.requests import Warn
from controller.cluster.wire import Condition, LabelledMeta
from controller.domain.kube import PodGroup

COSCHEDULING, VOLCANO, KAI, NATIVE = "coscheduling", "volcano", "kai", "native"
SYSTEMS = {
    "scheduling.x-k8s.io": COSCHEDULING,
    "scheduling.volcano.sh": VOLCANO,
    "scheduling.run.ai": KAI,
    "scheduling.k8s.io": NATIVE,
}
WORKLOAD = "workload"
OF_QUOTA = ("OverLimit", "NonPreemptibleOverQuota", "QueueDoesNotExist")
NOT_LET_IN = "the PodGroup is Pending: its queue has not let it in"


class _SubGroup(msgspec.Struct):
    name: str = ""
    parent: str | None = None
    minMember: int | None = None
    minSubGroup: int | None = None


class _Gang(msgspec.Struct):
    minCount: int | None = None


class _Policy(msgspec.Struct):
    gang: _Gang | None = None


class _Part(msgspec.Struct):
    name: str = ""
    policy: _Policy | None = None


class _Spec(msgspec.Struct):
    podGroups: list[_Part] | None = None
    minMember: int | None = None
    minTaskMember: dict[str, int] | None = None
    minSubGroup: int | None = None
    subGroups: list[_SubGroup] | None = None
    schedulingPolicy: _Policy | None = None


class _Why(msgspec.Struct):
    reason: str = ""
    message: str | None = None


class _KaiCondition(msgspec.Struct):
    status: str | None = None
    reasons: list[_Why] | None = None


class _Status(msgspec.Struct):
    phase: str | None = None
    conditions: list[Condition] | None = None
    schedulingConditions: list[_KaiCondition] | None = None


class GroupWire(msgspec.Struct):
    apiVersion: str | None = None
    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def pod_group(found: GroupWire, warn: Warn, api: str = "") -> PodGroup:
    """`api`: the API that it was listed from; lists of native kinds do not repeat it in each item."""
    system = SYSTEMS.get((found.apiVersion or api).partition("/")[0], "")
    if not system:
        warn("apiVersion", f"{found.apiVersion!r} has no PodGroup that is known here")
    meta, parts = found.metadata, found.spec.podGroups
    if system == NATIVE and parts is not None:
        system = WORKLOAD
    return PodGroup(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        system=system,
        min_member=_minimum(found.spec),
        parts={part.name: _of_part(part) for part in parts or ()},
        waits_for_quota=_quota(system, found.status),
    )


def _of_part(part: _Part) -> int:
    return (part.policy.gang.minCount or 1) if part.policy is not None and part.policy.gang is not None else 0


def _minimum(spec: _Spec) -> int:
    if spec.schedulingPolicy is not None and spec.schedulingPolicy.gang is not None:
        return spec.schedulingPolicy.gang.minCount or 0
    children: dict[str, list[_SubGroup]] = {}
    for each in spec.subGroups or ():
        children.setdefault(each.parent or "", []).append(each)
    below = _of_children(children, "", spec.minSubGroup, frozenset({""}))
    tasks = sum((spec.minTaskMember or {}).values())
    return max(spec.minMember or 0, below, tasks)


def _of_children(
    children: Mapping[str, list[_SubGroup]], parent: str, needed: int | None, above: frozenset[str]
) -> int:
    """The least pods of the sub-groups that are needed: all of them, or the smallest so many."""
    sizes = sorted(
        max(each.minMember or 0, _of_children(children, each.name, each.minSubGroup, above | {each.name}))
        for each in children.get(parent, ())
        if each.name not in above  # a circle is nobody's gang
    )
    return sum(sizes if needed is None else sizes[:needed])


def _quota(system: str, status: _Status) -> str:
    if system == VOLCANO and status.phase == "Pending":
        told = [
            c.message for c in status.conditions or () if c.type == "Unschedulable" and c.status == "True"
        ]
        return next((message for message in told if message), NOT_LET_IN)
    if system == KAI:
        for condition in status.schedulingConditions or ():
            for why in condition.reasons or ():
                if why.reason in OF_QUOTA and condition.status != "False":
                    return why.message or why.reason
    return ""
