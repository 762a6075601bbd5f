"""The parts of a pod's spec that decide where it runs, each from its own bytes: affinities, spread,
host ports, volumes, claims for devices, its group.

Every function raises for what it cannot read. Quirks: the API server writes `matchLabelKeys` of an
affinity into the term's selector when a pod is created, but not in a DaemonSet's template, and gives the
ports of a pod on the host's network their host port, but not those of a template; both are done here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from controller.cluster.wire import LabelSelector, NodeSelectorTerms, PodSpec, Term
from controller.domain.kube import (
    HostPort,
    NodeTerm,
    PodDeviceClaim,
    PodTerm,
    PodVolume,
    PreferredTerm,
    Requirement,
    Selector,
    Spread,
)

ABSENT = (b"", b"null", b"[]", b"{}")
LABEL_KEYS = b"atchLabelKeys"  # matchLabelKeys, mismatchLabelKeys: only then the pod's labels matter
ANY_ADDRESS = "0.0.0.0"  # noqa: S104  (nothing is bound here)


class Affinities(NamedTuple):
    required: tuple[NodeTerm, ...] | None = None
    preferred: tuple[PreferredTerm, ...] = ()
    to_pods: tuple[PodTerm, ...] = ()
    against_pods: tuple[PodTerm, ...] = ()


FREE = Affinities()
STUCK = Affinities(required=())  # no term ever matches


class _Preference(msgspec.Struct):
    weight: int = 0
    preference: Term = msgspec.field(default_factory=Term)


class _NodeAffinity(msgspec.Struct):
    required: NodeSelectorTerms | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[_Preference] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class _PodTerm(msgspec.Struct):
    topologyKey: str = ""
    labelSelector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespaceSelector: LabelSelector | None = None
    matchLabelKeys: tuple[str, ...] | None = None
    mismatchLabelKeys: tuple[str, ...] | None = None


class _PodAffinity(msgspec.Struct):
    required: list[_PodTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(msgspec.Struct):
    nodeAffinity: _NodeAffinity | None = None
    podAffinity: _PodAffinity | None = None
    podAntiAffinity: _PodAffinity | None = None


class _Spread(msgspec.Struct):
    topologyKey: str = ""
    maxSkew: int | None = None
    whenUnsatisfiable: str | None = None
    labelSelector: LabelSelector | None = None
    minDomains: int | None = None
    nodeAffinityPolicy: str | None = None
    nodeTaintsPolicy: str | None = None
    matchLabelKeys: tuple[str, ...] | None = None


class _Port(msgspec.Struct):
    containerPort: int = 0
    hostPort: int | None = None
    protocol: str | None = None
    hostIP: str | None = None


class _Claim(msgspec.Struct):
    claimName: str = ""


class _ClaimSpec(msgspec.Struct):
    storageClassName: str | None = None


class _ClaimTemplate(msgspec.Struct):
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)


class _Ephemeral(msgspec.Struct):
    volumeClaimTemplate: _ClaimTemplate | None = None


class _DeviceClaim(msgspec.Struct):
    name: str = ""
    resourceClaimName: str | None = None
    resourceClaimTemplateName: str | None = None


class _Group(msgspec.Struct):
    podGroupName: str | None = None


class _WorkloadRef(msgspec.Struct):
    name: str = ""
    podGroup: str = ""
    podGroupReplicaKey: str | None = None


_affinity = msgspec.json.Decoder(_Affinity).decode
_spreads = msgspec.json.Decoder(list[_Spread]).decode
_ports = msgspec.json.Decoder(list[_Port]).decode
_claim = msgspec.json.Decoder(_Claim).decode
_ephemeral = msgspec.json.Decoder(_Ephemeral).decode
_device_claims = msgspec.json.Decoder(list[_DeviceClaim]).decode
_group = msgspec.json.Decoder(_Group).decode
_workload = msgspec.json.Decoder(_WorkloadRef).decode


def affinities(raw: bytes, labels: Mapping[str, str]) -> Affinities:
    """`labels`: the pod's own, for terms that name keys of theirs."""
    found = _affinity(raw)
    nodes, to, against = found.nodeAffinity, found.podAffinity, found.podAntiAffinity
    return Affinities(
        None if nodes is None or nodes.required is None else nodes.required.noun(),
        tuple(
            PreferredTerm(p.weight, p.preference.noun()) for p in (nodes.preferred if nodes else None) or ()
        ),
        tuple(_pod_term(term, labels) for term in (to.required if to else None) or ()),
        tuple(_pod_term(term, labels) for term in (against.required if against else None) or ()),
    )


def _pod_term(term: _PodTerm, labels: Mapping[str, str]) -> PodTerm:
    selector = None if term.labelSelector is None else term.labelSelector.noun()
    if selector is not None:
        more = [Requirement(key, "In", (labels[key],)) for key in term.matchLabelKeys or () if key in labels]
        more += [
            Requirement(key, "NotIn", (labels[key],)) for key in term.mismatchLabelKeys or () if key in labels
        ]
        more = [each for each in more if each not in selector.expressions]  # the API server may have done it
        selector = Selector(selector.labels, (*selector.expressions, *more))
    return PodTerm(
        topology_key=sys.intern(term.topologyKey),
        selector=selector,
        namespaces=term.namespaces or (),
        namespace_selector=None if term.namespaceSelector is None else term.namespaceSelector.noun(),
    )


def spreads(raw: bytes) -> tuple[Spread, ...]:
    return tuple(
        Spread(
            topology_key=sys.intern(each.topologyKey),
            max_skew=1 if each.maxSkew is None else each.maxSkew,
            hard=(each.whenUnsatisfiable or "DoNotSchedule") == "DoNotSchedule",
            selector=None if each.labelSelector is None else each.labelSelector.noun(),
            min_domains=each.minDomains,
            honors_affinity=(each.nodeAffinityPolicy or "Honor") == "Honor",
            honors_taints=each.nodeTaintsPolicy == "Honor",
            match_label_keys=each.matchLabelKeys or (),
        )
        for each in _spreads(raw)
    )


def host_ports(containers: Iterable[bytes], on_host: bool) -> tuple[HostPort, ...]:
    """`containers`: the ports of those that run together, as bytes."""
    found: dict[HostPort, None] = {}
    for raw in containers:
        for each in () if raw in ABSENT else _ports(raw):
            port = each.hostPort or (each.containerPort if on_host else 0)
            if port > 0:
                ip = "" if each.hostIP in (None, ANY_ADDRESS) else str(each.hostIP)
                found[HostPort(port, each.protocol or "TCP", ip)] = None
    return tuple(found)


def volumes(spec: PodSpec) -> tuple[PodVolume, ...]:
    found = []
    for each in spec.volumes or ():
        claim, ephemeral = bytes(each.persistentVolumeClaim), bytes(each.ephemeral)
        if claim not in ABSENT:
            found.append(PodVolume(claim=_claim(claim).claimName))
        elif ephemeral not in (b"", b"null"):
            template = _ephemeral(ephemeral).volumeClaimTemplate
            kind = None if template is None else template.spec.storageClassName
            found.append(PodVolume(name=each.name or "", ephemeral=True, storage_class=kind))
    return tuple(found)


def device_claims(raw: bytes) -> tuple[PodDeviceClaim, ...]:
    return tuple(
        PodDeviceClaim(
            name=each.name,
            claim=each.resourceClaimName or "",
            template=each.resourceClaimTemplateName or "",
        )
        for each in _device_claims(raw)
    )


def scheduling_group(raw: bytes) -> str:
    return _group(raw).podGroupName or ""


def workload_ref(raw: bytes) -> str:
    found = _workload(raw)
    return f"{found.name}/{found.podGroup}/{found.podGroupReplicaKey or ''}"
