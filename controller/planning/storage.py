"""What a pod's volumes say about its node: where they are, where they could be made, how many fit.

A claim that is bound is where its PersistentVolume is. One that waits for its first consumer can go where a
free volume of its class is, or where the class may make one; the first of several pods that share it decides. A local volume names one host for ever, so the
host that a pod's own affinity names does not matter beside it only in so far as both must agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.domain.kube import NodeTerm, Pod, PodVolume, Requirement, StorageClass, Volume, VolumeClaim
from controller.domain.plan import Snapshot
from controller.planning.rights import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, missing_right

Attached = tuple[str, str]  # a CSI driver, and the volume or the claim that is to have one

_NOT_MADE = ("", "kubernetes.io/no-provisioner")
_ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A claim that waits for its pod: the smallest free volume that the node can use is taken for good, else one is
    made, if its class makes any there."""

    claim: str  # namespace/name
    volumes: tuple[Volume, ...]
    made: bool
    allowed: tuple[NodeTerm, ...] | None = None  # where one may be made; None: anywhere

    @property
    def keys(self) -> set[str]:
        """The labels of nodes that it looks at."""
        terms = [*(self.allowed or ()), *(term for volume in self.volumes for term in volume.terms or ())]
        return {condition.key for term in terms for condition in term.labels}


@dataclass(frozen=True, slots=True)
class Held:
    """What the volumes of one pod ask of its node."""

    wrong: str = ""  # why no node will do, in words
    pod: str = ""  # whose they are
    all_of: tuple[tuple[NodeTerm, ...], ...] = ()  # of each of these one term must match
    local: tuple[tuple[NodeTerm, ...], ...] = ()  # the same of disks of hosts, which may be gone
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()  # a node that has the key must have one of the values
    choices: tuple[Choice, ...] = ()  # the smallest first, as the scheduler goes about it
    attached: tuple[Attached, ...] = ()  # CSI driver and volume, for the limits of nodes
    alone: tuple[str, ...] = ()  # claims that only one pod may use at a time

    @property
    def contested(self) -> set[str]:
        """Claims that what other pods do decides about."""
        return {*self.alone, *(choice.claim for choice in self.choices)}

    @property
    def free_of_rules(self) -> bool:
        return self == NOTHING


NOTHING = Held()


class Storage:
    def __init__(self, snapshot: Snapshot) -> None:
        self._claims = {claim.key: claim for claim in snapshot.volume_claims}
        self._volumes = {volume.name: volume for volume in snapshot.volumes}
        self._classes = {kind.name: kind for kind in snapshot.storage_classes}
        # Of several that say so the newest is the default, and of two of one second the first by name.
        defaults = [kind for kind in snapshot.storage_classes if kind.default]
        self._default = min(((-kind.created, kind.name) for kind in defaults), default=(0, ""))[1]
        self._limits = {node.name: node.limits for node in snapshot.csi_nodes}
        self._of_kind: dict[tuple[str, str], dict[str, int]] = {}  # the least of the nodes of a pool and type
        for machine in snapshot.machines:
            known = self._of_kind.setdefault((machine.pool, machine.instance_type), {})
            for driver, most in self._limits.get(machine.name, {}).items():
                known[driver] = min(most, known.get(driver, most))
        self.used_alone = self._exclusive(snapshot.pods)
        self._shared = self._waited_for_together(snapshot.pods)
        self._unreadable = missing_right(snapshot, VOLUME_CLAIMS, VOLUMES)
        self._no_classes = missing_right(snapshot, STORAGE_CLASSES)

    def limits(self, node: str) -> Mapping[str, int]:
        return self._limits.get(node, {})

    def limits_of_kind(self, pool: str, kind: str) -> Mapping[str, int]:
        """Of a machine that is no Node yet: what a node of the same pool and type has."""
        return self._of_kind.get((pool, kind), {})

    def drivers_of(self, names: Iterable[str]) -> list[Attached]:
        """What is attached with these volumes."""
        found = [self._volumes[name] for name in names if name]
        return [(volume.driver, volume.name) for volume in found if volume.driver]

    def kinds_that_take_fewer(self, attached: Iterable[Attached]) -> list[tuple[str, str]]:
        """Pools and types whose machines do not take so many volumes."""
        count = Counter(driver for driver, _ in attached)
        return [
            kind
            for kind, limits in self._of_kind.items()
            if any(count[driver] > most for driver, most in limits.items())
        ]

    @property
    def limited(self) -> bool:
        return any(self._limits.values())

    def _exclusive(self, pods: Sequence[Pod]) -> dict[str, str]:
        """Claims for one pod only that pods which run have, and of each one such pod."""
        single = {key for key, claim in self._claims.items() if "ReadWriteOncePod" in claim.access_modes}
        if not single:
            return {}
        found: dict[str, str] = {}
        for pod in pods:
            for volume in pod.shape.volumes if pod.node and not pod.finished else ():
                if (key := _key(pod, volume)) in single:
                    found[key] = min(pod.key, found.get(key, pod.key))
        return found

    def _waited_for_together(self, pods: Sequence[Pod]) -> set[str]:
        """Claims of several waiting pods, if any class says where its volumes may be. Only of these it has to be
        remembered where they are made, and to remember takes time."""
        if not any(kind.allowed and kind.waits_for_consumer for kind in self._classes.values()):
            return set()
        users = Counter(
            key
            for pod in pods
            if pod.shape.volumes and not pod.node and not pod.finished
            for key in {_key(pod, volume) for volume in pod.shape.volumes}
        )
        return {key for key, count in users.items() if count > 1}

    def held(self, pod: Pod) -> Held:
        if not pod.shape.volumes:
            return NOTHING
        if self._unreadable:
            return Held(wrong=self._unreadable)
        all_of: list[tuple[NodeTerm, ...]] = []
        local: list[tuple[NodeTerm, ...]] = []
        zones: list[tuple[str, tuple[str, ...]]] = []
        choices: list[tuple[int, Choice]] = []
        attached: set[Attached] = set()
        alone: list[str] = []
        for volume in pod.shape.volumes:
            key = _key(pod, volume)
            claim = self._claims.get(key)
            name = key.partition("/")[2]
            if claim is None:
                return Held(wrong=f"claim {name} does not exist")
            if claim.deleting:
                return Held(wrong=f"claim {name} is being deleted")
            if claim.phase == "Lost":
                return Held(wrong=f"claim {name} has lost its volume")
            if "ReadWriteOncePod" in claim.access_modes:
                if key in self.used_alone:
                    return Held(wrong=alone_with(key, self.used_alone[key]))
                alone.append(key)
            if claim.volume and not claim.bound:
                return Held(wrong=self._not_bound(claim))
            if claim.volume:
                bound = self._volumes.get(claim.volume)
                if bound is None:
                    return Held(wrong=f"volume {claim.volume} of claim {name} does not exist")
                if bound.terms is not None:
                    (local if bound.local else all_of).append(bound.terms)
                zones += _zones_of(bound)
                if bound.driver:
                    attached.add((bound.driver, bound.name))
                continue
            if self._no_classes:
                return Held(wrong=self._no_classes)
            kind = self._classes.get(self._default if claim.storage_class is None else claim.storage_class)
            if kind is None or not kind.waits_for_consumer:
                return Held(wrong=f"claim {name} is not bound to a volume, and none waits for its pod")
            if claim.selected_node:
                all_of.append(
                    (NodeTerm(fields=(Requirement("metadata.name", "In", (claim.selected_node,)),)),)
                )
            free = self._free(claim, kind)
            made = kind.provisioner not in _NOT_MADE
            if not made and not free:
                return Held(wrong=f"no free volume of class {kind.name} is left for claim {name}")
            allowed = kind.allowed or None
            if free or (allowed is not None and key in self._shared):
                choices.append((claim.requested, Choice(key, free, made, allowed)))
            elif allowed is not None:
                all_of.append(allowed)
            if made:
                attached.add((kind.provisioner, key))
        return Held(
            pod=pod.key,
            all_of=tuple(all_of),
            local=tuple(local),
            zones=tuple(zones),
            choices=tuple(choice for _, choice in sorted(choices, key=lambda c: c[0])),
            attached=tuple(sorted(attached)),
            alone=tuple(alone),
        )

    def _not_bound(self, claim: VolumeClaim) -> str:
        """The scheduler takes no pod whose claim names a volume until the cluster has bound the two; it either does so
        at once, whatever nodes there are, or never does."""
        words = f"claim {claim.name} asks for volume {claim.volume}"
        wanted = self._volumes.get(claim.volume)
        if wanted is None:
            return f"{words}, which does not exist"
        if wanted.claim not in ("", claim.key):
            return f"{words}, which belongs to claim {wanted.claim}"
        return f"{words} and is not bound to it yet"

    def _free(self, claim: VolumeClaim, kind: StorageClass) -> tuple[Volume, ...]:
        """Volumes that the claim could be bound to: the smallest first, as the scheduler takes them."""
        found = [
            volume
            for volume in self._volumes.values()
            if volume.storage_class == kind.name
            and not volume.deleting
            and volume.claim in ("", claim.key)
            and (volume.claim == claim.key or volume.phase == "Available")
            and volume.capacity >= claim.requested
            and set(claim.access_modes) <= set(volume.access_modes)
            and (claim.selector is None or volume.claim == claim.key or claim.selector.matches(volume.labels))
        ]
        return tuple(sorted(found, key=lambda v: (v.claim != claim.key, v.capacity, v.name)))

    def attached(self, pod: Pod) -> tuple[Attached, ...]:
        """The CSI volumes of a pod that runs, by driver."""
        found = set()
        for volume in pod.shape.volumes:
            key = _key(pod, volume)
            claim = self._claims.get(key)
            if claim is None:
                continue
            bound = self._volumes.get(claim.volume)
            if bound is not None and bound.driver:
                found.add((bound.driver, bound.name))
            elif bound is None:
                kind = self._classes.get(
                    self._default if claim.storage_class is None else claim.storage_class
                )
                if kind is not None and kind.provisioner not in _NOT_MADE:
                    found.add((kind.provisioner, key))
        return tuple(sorted(found))


def alone_with(claim: str, user: str) -> str:
    return f"claim {claim.partition('/')[2]} is ReadWriteOncePod, and pod {user} has it"


def _key(pod: Pod, volume: PodVolume) -> str:
    return (
        f"{pod.namespace}/{pod.name}-{volume.name}" if volume.ephemeral else f"{pod.namespace}/{volume.claim}"
    )


def _zones_of(volume: Volume) -> list[tuple[str, tuple[str, ...]]]:
    return [(key, tuple(sorted(volume.labels[key].split("__")))) for key in _ZONES if key in volume.labels]
