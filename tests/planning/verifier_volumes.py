"""What the scheduler says about the volumes of a pod, told apart from the planner: by plain loops over objects.

A claim that is bound is where its volume is; one that waits for its consumer takes the smallest free volume that
the host can use, or has one made where its class may. What one pod took, the next one finds taken, and what is made
for one is where that one is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.domain.kube import NodeTerm, Pod, StorageClass, Volume, VolumeClaim

ZONE_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass
class Volumes:
    claims: Mapping[str, VolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by host and driver
    bound: dict[str, str] = field(default_factory=dict)  # by claim: its volume, or what is made for it
    made: dict[str, dict[str, str | None]] = field(
        default_factory=dict
    )  # by claim: the labels of where it is made
    attached: dict[str, set[tuple[str, str]]] = field(default_factory=dict)  # by host
    users: dict[str, int] = field(default_factory=dict)  # by claim

    def objection(self, pod: Pod, name: str, labels: Mapping[str, str]) -> str:
        """Why the pod's volumes cannot be on this host; "" binds nothing yet.

        A claim that waits counts as one of its class's driver, whatever free volume it takes.
        """
        return self._bind(pod, name, labels)[0]

    def bind(self, pod: Pod, name: str, labels: Mapping[str, str]) -> None:
        """A pod that runs there already may contradict everything: it is counted as far as it goes."""
        _, bound, attached = self._bind(pod, name, labels)
        self.bound.update(bound)
        for key in bound.keys() - self.made.keys():
            rules = self.classes[self.claims[key].storage_class or ""].allowed or ()
            self.made[key] = {r.key: labels.get(r.key) for term in rules for r in term.labels}
        self.attached.setdefault(name, set()).update(attached)
        for volume in pod.shape.volumes:
            key = f"{pod.namespace}/{volume.claim}"
            self.users[key] = self.users.get(key, 0) + 1

    def _bind(
        self, pod: Pod, name: str, labels: Mapping[str, str]
    ) -> tuple[str, dict[str, str], set[tuple[str, str]]]:
        bound: dict[str, str] = {}
        attached: set[tuple[str, str]] = set()
        asked: set[tuple[str, str]] = set()
        why = ""
        keys = [f"{pod.namespace}/{each.claim}" for each in pod.shape.volumes]
        for key in sorted(keys, key=lambda k: self.claims[k].requested if k in self.claims else 0):
            claim = self.claims.get(key)
            if claim is None or claim.deleting or claim.phase == "Lost":
                why = why or f"claim {key} is of no use"
                continue
            if "ReadWriteOncePod" in claim.access_modes and self.users.get(key):
                why = why or f"claim {key} is for one pod"
            held = claim.volume or self.bound.get(key, "")
            if held.startswith("made:"):
                if any(labels.get(label) != value for label, value in self.made[key].items()):
                    why = why or f"claim {key} is made elsewhere"
                attached.add((held.removeprefix("made:"), key))
                asked.add((held.removeprefix("made:"), key))
                continue
            if held:
                volume = self.volumes[held]
                if not _reaches(volume.terms, name, labels) or not _in_zone(volume, labels):
                    why = why or f"volume {held} is elsewhere"
                if volume.driver:
                    attached.add((volume.driver, held))
                    asked.add((volume.driver, held))
                continue
            kind = self.classes.get(claim.storage_class or "")
            if kind is None or not kind.waits_for_consumer:
                why = why or f"claim {key} waits for no pod"
                continue
            taken = {*self.bound.values(), *bound.values()}
            free = [
                v
                for v in self.volumes.values()
                if v.storage_class == kind.name
                and not v.claim
                and v.phase == "Available"
                and v.name not in taken
                and v.capacity >= claim.requested
                and _reaches(v.terms, name, labels)
            ]
            if free:
                chosen = min(free, key=lambda v: (v.capacity, v.name))
                bound[key] = chosen.name
                if kind.provisioner != NO_PROVISIONER:
                    asked.add((kind.provisioner, key))
                if chosen.driver:
                    attached.add((chosen.driver, chosen.name))
            elif kind.provisioner == NO_PROVISIONER:
                why = why or f"no free volume for {key}"
            elif kind.allowed is not None and not _reaches(kind.allowed, name, labels):
                why = why or f"class {kind.name} makes none there"
            else:
                bound[key] = f"made:{kind.provisioner}"
                asked.add((kind.provisioner, key))
                attached.add((kind.provisioner, key))
        there = self.attached.get(name, set())
        for driver, most in self.limits.get(name, {}).items():
            after = {one for one in there | asked if one[0] == driver}
            if len(after) > most and after != {one for one in there if one[0] == driver}:
                why = why or f"{len(after)} volumes of {driver}, {most} at most"
        return why, bound, attached


def _reaches(terms: Sequence[NodeTerm] | None, name: str, labels: Mapping[str, str]) -> bool:
    if terms is None:
        return True
    return any(
        all(r.operator == "In" and labels.get(r.key) in r.values for r in term.labels)
        and all(r.operator == "In" and name in r.values for r in term.fields)
        for term in terms
    )


def _in_zone(volume: Volume, labels: Mapping[str, str]) -> bool:
    if not any(key in labels for key in ZONE_LABELS):
        return True
    return all(
        labels.get(key) in volume.labels[key].split("__") for key in ZONE_LABELS if key in volume.labels
    )
