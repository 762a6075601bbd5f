"""Claims for devices (DRA): what is planned for, and what is only explained.

A claim for an exact number of whole GPUs of NVIDIA's driver, with nothing but selectors of product or
memory, is the same wish as so many `nvidia.com/gpu` on machines of these models. Everything else would be
a guess. The driver tells a product as the board's own name, with blanks, unlike the label.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

import msgspec

from controller.domain import names
from controller.domain.kube import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    NodeTerm,
    Pod,
    PodShape,
    Requirement,
)
from controller.domain.plan import Explanation, Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import GPU
from controller.planning.device_selectors import EVERY, models_matching
from controller.planning.rights import DEVICE_CLAIMS, DEVICE_CLASSES, missing_right

DEVICE_CLASS = "gpu.nvidia.com"
_NVIDIA = "nvidia.com/"
_NEVER = math.inf
_ALL = 1 << 20  # more than any machine has


def kept_off(snapshot: Snapshot) -> Requirement:
    """What a pod that asks for GPUs by name asks for besides: no device plug-in runs where claims are served."""
    return Requirement(names.LABEL_POOL, "NotIn", _pools_with_claims(snapshot))


class Claims:
    """The claims of a snapshot, found from the pods that refer to them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._claims = {claim.key: claim for claim in snapshot.device_claims if not claim.template}
        self._templates = {claim.key: claim for claim in snapshot.device_claims if claim.template}
        self._made: dict[str, list[DeviceClaim]] = {}
        for claim in self._claims.values():
            if claim.owner_uid:
                self._made.setdefault(claim.owner_uid, []).append(claim)
        self._users: dict[str, int] = {}
        for pod in snapshot.pods:
            if pod.finished or not pod.shape.device_claims:
                continue
            for name in {each.claim for each in pod.shape.device_claims if each.claim}:
                key = f"{pod.namespace}/{name}"
                self._users[key] = self._users.get(key, 0) + 1
        self._unreadable = missing_right(snapshot, *DEVICE_CLAIMS)
        self.pools = _pools_with_claims(snapshot)
        self._shapes: dict[tuple[int, int, frozenset[str] | None], PodShape] = {}
        self.mapped = _mapped(snapshot) if self.pools else frozenset[str]()
        self._off = kept_off(snapshot)
        self._plain: dict[int, PodShape] = {}

    def of(self, pod: Pod) -> list[DeviceClaim] | None:
        """Every claim of the pod, or the template that one will be made from; None: some are not to be seen.

        A claim that it names twice, under two names of its own, is one all the same.
        """
        found: list[DeviceClaim] = []
        made = sorted(self._made.get(pod.uid, ()), key=lambda claim: claim.name)
        for each in pod.shape.device_claims:
            claim = self._claims.get(f"{pod.namespace}/{each.claim}") if each.claim else None
            if each.template:
                mine = [one for one in made if one.owner_name == each.name]
                mine = mine or [one for one in made if one.name.startswith(f"{pod.name}-{each.name}-")]
                claim = mine[0] if mine else self._templates.get(f"{pod.namespace}/{each.template}")
            if claim is None:
                return None
            if claim.template or all(claim is not other for other in found):
                found.append(claim)
        return found or None

    def busy(self, pod: Pod) -> bool:
        """Whether the pod holds devices. An adminAccess claim only looks at them; one not seen may hold some."""
        if not pod.shape.has_claims and not pod.shape.device_claims:
            return False
        claims = self.of(pod)
        return claims is None or any(
            not request.admin for claim in claims for request in claim.requests or (DeviceRequest(),)
        )

    def as_gpus(self, pod: Pod) -> Pod | Explanation:
        """The same pod asking for GPUs of a model instead of devices, or what in its claims is not planned for."""
        if self._unreadable:
            return _no(self._unreadable)
        claims = self.of(pod)
        if claims is None:
            return _no("its resource claim, or the template of it, is not to be seen; does it exist?")
        if pod.shape.requests.get(GPU, 0):
            return _no(f"it asks for {GPU} and for resource claims at once")
        gpus, models = 0, None
        for claim in claims:
            words = f"resource claim {claim.name}"
            if why := self._unsupported(claim, pod):
                return _no(f"{words} {why}")
            for request in claim.requests:
                if why := _odd(request):
                    return _no(f"{words} {why}")
                gpus += request.count
                for text in request.selectors:
                    matching = models_matching(text)
                    if matching is None:
                        return _no(
                            f"{words} has a selector that is not planned for ({text.strip()[:200]}): compare "
                            "productName or memory only"
                        )
                    models = matching if models is None else models & matching
        if not self.pools:
            return _no(
                "no pool serves resource claims: set pools[].resource_claims to always where NVIDIA's DRA driver "
                "runs instead of the device plug-in"
            )
        if models is not None and not models:
            return _no("no GPU that is sold matches the selectors of its resource claims")
        key = (id(pod.shape), gpus, models)
        if key not in self._shapes:
            self._shapes[key] = _shape(pod.shape, gpus, models, self.pools)
        return msgspec.structs.replace(pod, shape=self._shapes[key])

    def by_name(self, pod: Pod) -> Pod:
        """A pod without claims, kept off the machines that serve these where it asks for what only a plug-in offers."""
        shape = self._plain.get(id(pod.shape))
        if shape is None:
            shape = pod.shape
            if any(
                units and name.startswith(_NVIDIA) and name not in self.mapped
                for name, units in shape.requests.items()
            ):
                shape = _within(shape, self._off)
            self._plain[id(pod.shape)] = shape
        return pod if shape is pod.shape else msgspec.structs.replace(pod, shape=shape)

    def holdings(self, pods: Iterable[Pod]) -> dict[int, int]:
        """By the position of each of these pods, all on one node, the GPUs that it holds by claims.

        What several share is held once: by the one of them that is the last to go. One not seen may hold them all.
        """
        last: dict[str, tuple[float, int, int]] = {}
        for position, pod in enumerate(pods):
            going = _NEVER if pod.deleting_at is None else pod.deleting_at
            claims = self.of(pod) if not pod.finished else []
            for number, claim in enumerate([None] if claims is None else claims):
                key = f"{position} {number}" if claim is None or claim.template else claim.key
                one = (going, -position, _ALL if claim is None else _held(claim))
                last[key] = max(last.get(key, one), one)
        held: dict[int, int] = {}
        for _, before, gpus in last.values():
            held[-before] = held.get(-before, 0) + gpus
        return held

    def _unsupported(self, claim: DeviceClaim, pod: Pod) -> str:
        if claim.deleting:
            return "is being deleted"
        if claim.constrained:
            return "has constraints between devices, which are not planned for"
        if not claim.requests:
            return "asks for nothing"
        if claim.allocated:
            where = f" on node {claim.node}" if claim.node else ""
            return f"is allocated{where} already, so the pod waits for a place there"
        if not claim.template and not claim.owner_uid and self._users.get(claim.key, 0) > 1:
            return "is shared by several pods, which is not planned for"
        return ""


def no_plug_in(snapshot: Snapshot, shape: PodShape, pool: str) -> Explanation:
    """Why a pod that asks for GPUs by name gets no machine of a pool that serves claims."""
    asked = sorted(name for name, units in shape.requests.items() if units and name.startswith(_NVIDIA))
    return _no(
        f"the pod asks for {' and '.join(asked)}, and machines of pool {pool} serve GPUs by resource claims only: "
        + (
            missing_right(snapshot, DEVICE_CLASSES)
            or "no DeviceClass says extendedResourceName for it, so claim them, or add a pool with the device plug-in"
        )
    )


def with_devices(snapshot: Snapshot, claims: Claims) -> Snapshot:
    """The same picture with devices counted as GPUs: on nodes without the plug-in, and of the pods there."""
    if not (claims.mapped or any(pod.shape.has_claims for pod in snapshot.pods)):
        return snapshot
    machines = {m.name: m for m in snapshot.machines}
    served = set(claims.pools)
    nodes = []
    mine: dict[str, int] = {}
    for node in snapshot.nodes:
        machine = machines.get(node.name)
        if machine is not None and machine.pool in served and not node.allocatable.get(GPU):
            mine[node.name] = machine.gpus
            if machine.gpus:
                node = msgspec.structs.replace(node, allocatable={**node.allocatable, GPU: machine.gpus})
        nodes.append(node)
    holders: dict[str, list[int]] = {}
    for number, pod in enumerate(snapshot.pods):
        if pod.node in mine and pod.shape.has_claims:
            holders.setdefault(pod.node, []).append(number)
    pods = list(snapshot.pods)
    for name, numbers in holders.items():
        for position, gpus in claims.holdings(pods[number] for number in numbers).items():
            pod = pods[numbers[position]]
            there = pod.shape.requests.get(GPU, 0) + min(gpus, mine[name])
            shape = msgspec.structs.replace(pod.shape, requests={**pod.shape.requests, GPU: there})
            pods[numbers[position]] = msgspec.structs.replace(pod, shape=shape)
    return msgspec.structs.replace(snapshot, nodes=tuple(nodes), pods=tuple(pods))


def _held(claim: DeviceClaim) -> int:
    """How many GPUs a claim takes from others. What was allocated says it; what is asked for only of a plain request."""
    if claim.devices is not None:
        return claim.devices
    asked = [request for request in claim.requests if not request.admin]
    if any(not request.plain or request.device_class != DEVICE_CLASS for request in asked):
        return _ALL
    return sum(request.count for request in asked)


def _pools_with_claims(snapshot: Snapshot) -> tuple[str, ...]:
    """Nothing on a Node tells that its GPUs are had by claims, so the pools themselves must say it."""
    return tuple(sorted(pool.name for pool in snapshot.policy.pools if pool.resource_claims == "always"))


def _mapped(snapshot: Snapshot) -> frozenset[str]:
    """Resources that a DeviceClass gives whole GPUs of any model for, so that no plug-in is needed.

    Of two classes for one name the scheduler takes the newer. One that takes some GPUs only is not planned for.
    """
    found: dict[str, DeviceClass] = {}
    for each in sorted(snapshot.device_classes, key=lambda one: (-one.created, one.name)):
        found.setdefault(each.extended, each)
    return frozenset(
        name
        for name, each in found.items()
        if name and all(models_matching(text) == EVERY for text in each.selectors)
    )


def _odd(request: DeviceRequest) -> str:
    if request.admin:
        return "asks for adminAccess, which needs no machine of its own"
    if not request.plain:
        return (
            "asks for more than an exact number of one class (alternatives, all, capacities or tolerations)"
        )
    if request.device_class != DEVICE_CLASS:
        return f"is of class {request.device_class or 'unknown'}; only {DEVICE_CLASS} is planned for"
    return "" if request.count > 0 else "asks for no exact number of devices"


def _shape(shape: PodShape, gpus: int, models: Collection[str] | None, pools: Sequence[str]) -> PodShape:
    extra = [Requirement(names.LABEL_POOL, "In", tuple(pools))]
    if models is not None:
        extra.append(Requirement(names.LABEL_GPU, "In", tuple(sorted(models))))
    return msgspec.structs.replace(_within(shape, *extra), requests={**shape.requests, GPU: gpus})


def _within(shape: PodShape, *extra: Requirement) -> PodShape:
    """The same on nodes of this kind only."""
    terms: Iterable[NodeTerm] = shape.required_terms if shape.required_terms is not None else (NodeTerm(),)
    if shape.required_terms is not None:  # an empty term selects nothing, and must not begin to
        terms = [term for term in terms if term.labels or term.fields]
    terms = tuple(msgspec.structs.replace(term, labels=(*term.labels, *extra)) for term in terms)
    return msgspec.structs.replace(shape, required_terms=terms)


def _no(words: str) -> Explanation:
    return Explanation(Reason.DRA_UNSUPPORTED, words)
