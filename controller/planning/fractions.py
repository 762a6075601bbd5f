"""Shares of a GPU as KAI knows them: annotations of pods that request none. Opt-in.

Waiting shares that go together are put on whole GPUs here, and each such GPU is asked for once: the first
pod stands for the others. What else they ask for must be had with one GPU of a machine that could be bought, or
no machine would hold them together and all of them would wait. What KAI's own node-scale-adjuster asks for in their name is ignored, and so
the same demand never counts twice. GPUs whose shares run already are held by KAI's reservation pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import msgspec

from controller.domain import names
from controller.domain.kube import Pod
from controller.domain.plan import Explanation, Launch, Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import GPU, Resources, add, fits, total
from controller.planning.choice import allows_type
from controller.planning.fit import admitted, with_place
from controller.planning.room import Room, new_room

_ADJUSTER, _RESERVATIONS = "kai-scale-adjust", "kai-resource-reservation"
_STANDS_FOR = "shared-gpu-pod-name"
_WHOLE = Fraction(1)


class Shares(msgspec.Struct):
    """What waiting shares became: pods that ask for whole GPUs, and those that come along with one of them."""

    pods: list[Pod] = []
    told: dict[str, Explanation] = {}
    along: dict[str, list[str]] = {}  # by the key of the first pod on a GPU


@dataclass(slots=True)
class _Gpu:
    """One that is to be shared."""

    used: Fraction = Fraction(0)
    asked: dict[str, int] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)

    def takes(self, pod: Pod, share: Fraction, parts: Sequence[Resources]) -> bool:
        """Whether another goes on it; where no machine takes such pods at all, what else they ask for does not matter."""
        if self.used + share > _WHOLE:
            return False
        asked = add(self.asked, with_place(pod.shape.requests))
        return not parts or any(fits(asked, part) for part in parts)

    def put(self, pod: Pod, share: Fraction) -> None:
        self.used += share
        self.asked = add(self.asked, with_place(pod.shape.requests))
        self.pods.append(pod)


def asks_for_share(pod: Pod) -> bool:
    annotations = pod.shape.annotations
    return names.KAI_FRACTION in annotations or names.KAI_MEMORY in annotations


def stands_for_another(pod: Pod) -> bool:
    """A utility pod of the node-scale-adjuster."""
    return pod.namespace == _ADJUSTER and _STANDS_FOR in pod.shape.labels


def whole_gpus(snapshot: Snapshot, waiting: Sequence[Pod], alone: Mapping[str, object]) -> Shares:
    """Put shares onto GPUs, the oldest first; those in `alone` (members of gangs) share with nobody."""
    found = Shares()
    memory = _least_memory(snapshot)
    kept = _kept(snapshot, waiting, memory)
    parts = _parts_of_machines(snapshot)
    every: list[_Gpu] = []
    gpus: dict[bytes, list[_Gpu]] = {}  # by what must be alike
    begin: dict[tuple[object, ...], int] = {}  # by kind of pod: the first of these that may take one
    welcome: dict[bytes, list[Resources]] = {}
    for pod in sorted(waiting, key=lambda pod: (-pod.shape.priority, pod.created, pod.key)):
        share = _share(pod, memory)
        if share is None:
            found.told[pod.key] = Explanation(
                Reason.NOT_DEMAND,
                f"its share of a GPU cannot be read: {names.KAI_FRACTION} is above 0 and below 1, {names.KAI_MEMORY} "
                "are MiB of a GPU that the pools may buy",
            )
            continue
        if pod.key in kept:
            found.told[pod.key] = Explanation(
                Reason.FITS_NOW,
                f"machine {kept[pod.key]} has its share of a GPU; the scheduler will place it there",
            )
            continue
        devices = _devices(pod)
        if devices > 1 or pod.key in alone:
            found.pods.append(_asking(pod, [pod], devices))
            continue
        like = _like(pod)
        if like not in welcome:
            welcome[like] = [
                part for room, part in parts if admitted(pod.shape, room.name, room.labels, room.taints)
            ]
        same = gpus.setdefault(like, [])
        kind = (like, share, tuple(sorted(pod.shape.requests.items())))
        # What has no room for such a pod will never have any: it is not looked at again for thousands.
        for number in range(begin.get(kind, 0), len(same)):
            if same[number].takes(pod, share, welcome[like]):
                break
        else:
            number = len(same)
            same.append(shared := _Gpu())
            every.append(shared)
        begin[kind] = number
        same[number].put(pod, share)
    for shared in every:
        inside = shared.pods
        found.pods.append(_asking(inside[0], inside, 1))
        if len(inside) > 1:
            found.along[inside[0].key] = [pod.key for pod in inside[1:]]
    return found


def come_along(
    launches: Sequence[Launch], along: Mapping[str, Sequence[str]], told: dict[str, Explanation]
) -> list[Launch]:
    """The same launches with every pod that they are for, and the same words for all on one GPU."""
    for first, others in along.items():
        if first in told:
            told |= dict.fromkeys(others, told[first])
    return [
        msgspec.structs.replace(
            launch, pods=tuple(key for pod in launch.pods for key in (pod, *along.get(pod, ())))
        )
        if any(pod in along for pod in launch.pods)
        else launch
        for launch in launches
    ]


def _kept(snapshot: Snapshot, waiting: Sequence[Pod], memory: int) -> dict[str, str]:
    """Waiting shares whose machine is there, with the GPU that they share reserved by the first of them."""
    keys = {pod.key: pod for pod in waiting}
    reserved: dict[str, int] = {}
    used: dict[str, Fraction] = {}
    for pod in snapshot.pods:
        if not pod.node or pod.finished:
            continue
        if pod.namespace == _RESERVATIONS:
            reserved[pod.node] = reserved.get(pod.node, 0) + pod.shape.requests.get(GPU, 0)
        elif asks_for_share(pod):
            taken = (_share(pod, memory) or _WHOLE) * _devices(pod)
            used[pod.node] = used.get(pod.node, Fraction(0)) + taken
    kept: dict[str, str] = {}
    for machine in snapshot.machines:
        if machine.failed or machine.phase.leaving or not reserved.get(machine.name):
            continue
        for key in machine.pods:
            promised = keys.get(key)
            share = _share(promised, memory) if promised is not None else None
            if promised is None or share is None or promised.created > machine.intended_at:
                continue
            after = used.get(machine.name, Fraction(0)) + share * _devices(promised)
            if after <= reserved[machine.name]:
                used[machine.name] = after
                kept[key] = machine.name
    return kept


def _share(pod: Pod, memory: int) -> Fraction | None:
    annotations = pod.shape.annotations
    text = annotations.get(names.KAI_FRACTION, "").strip()
    mebibytes = annotations.get(names.KAI_MEMORY, "").strip()
    try:
        if text and len(text) < 12 and text.isascii() and text.replace(".", "", 1).isdigit():
            share = Fraction(text)
            return share if 0 < share < 1 else None
        if not text and mebibytes.isascii() and mebibytes.isdigit() and len(mebibytes) < 9 and memory:
            share = Fraction(int(mebibytes), memory)
            return share if 0 < share <= 1 else None
    except (ValueError, ZeroDivisionError):
        return None
    return None


def _devices(pod: Pod) -> int:
    text = pod.shape.annotations.get(names.KAI_DEVICES, "1").strip()
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 4 else 1


def _least_memory(snapshot: Snapshot) -> int:
    """MiB of the smallest GPU that may be bought: a share by memory is no larger on any other."""
    sizes = [
        offer.type.gpu_memory_gib * 1024 // offer.type.gpus
        for offer in snapshot.offers
        if offer.type.gpus and any(allows_type(pool, offer.type) for pool in snapshot.policy.pools)
    ]
    return min(sizes, default=0)


def _parts_of_machines(snapshot: Snapshot) -> list[tuple[Room, Resources]]:
    """Each machine that could be bought, with what of it there is to one GPU."""
    found: dict[tuple[str, str, str], tuple[Room, Resources]] = {}
    for offer in snapshot.offers:
        for pool in snapshot.policy.pools if offer.type.gpus else ():
            key = (pool.name, offer.type.name, offer.location)
            if key not in found and allows_type(pool, offer.type):
                room = new_room(snapshot, pool, offer)
                part = {name: units // offer.type.gpus for name, units in room.free.items()}
                found[key] = (room, part)
    return list(found.values())


def _asking(first: Pod, inside: Sequence[Pod], gpus: int) -> Pod:
    requests = {**total(pod.shape.requests for pod in inside), GPU: gpus}
    return msgspec.structs.replace(first, shape=msgspec.structs.replace(first.shape, requests=requests))


def _like(pod: Pod) -> bytes:
    """What must be alike in pods that are to be on one machine, whatever they ask for."""
    shape = pod.shape
    rules = (shape.affinity, shape.anti_affinity, shape.spreads, shape.host_ports, shape.volumes)
    alone = pod.key if any(rules) or shape.has_claims else ""
    return msgspec.json.encode(
        (shape.node_selector, shape.required_terms, shape.tolerations, shape.scheduler, shape.priority, alone)
    )
