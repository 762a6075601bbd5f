"""Who is near a pod: required pod affinity and anti-affinity, and topology spread, pure.

Worked out once per attempt, because each term speaks of whole topology domains. Quirks kept: company is a pod
that all terms speak of; the first pod of a group that wants to be near itself may start anywhere; bound pods keep
others off by their own anti-affinity; a spread counts neither pods that are leaving, nor anybody by an empty
selector, nor nodes that lack a key of another spread; over fewer domains than `minDomains` it counts from zero.
`namespaces` are the labels of all namespaces, for terms that choose by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.sandbox.cluster.fit import (
    ANTI,
    EXISTING_ANTI,
    NEAR,
    SPREAD,
    NodeRoom,
    Wish,
    selects_node,
    tolerates,
)
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.selectors import Labels, matches


class Neighbours:
    """Which topology domains hold pods that the terms of one wish speak of: worked out once per attempt."""

    def __init__(
        self,
        wish: Wish,
        rooms: Iterable[NodeRoom],
        any_anti: bool,
        namespaces: Mapping[str, Labels] | None = None,
    ) -> None:
        self._spaces = namespaces or {}
        self.near = [self._domains(term, wish.near, wish, rooms) for term in wish.near]
        # The first pod of a group that wants to be near itself may start anywhere.
        self._starts = not any(self.near) and all(
            _speaks_of(term, wish.namespace, wish.namespace, wish.labels, self._spaces) for term in wish.near
        )
        self.anti = [self._domains(term, [term], wish, rooms) for term in wish.anti]
        self.kept_off: set[tuple[str, str]] = set()  # (topology key, value) where others refuse the wish
        if any_anti:
            for room in rooms:
                for placed in room.pods.values():
                    for term in placed.anti:
                        key = term.get("topologyKey", "")
                        if key in room.labels and _speaks_of(
                            term, placed.namespace, wish.namespace, wish.labels, self._spaces
                        ):
                            self.kept_off.add((key, room.labels[key]))
        self.spread = [self._counts(each, wish, rooms) for each in wish.spread]

    def _domains(self, term: Obj, meant: list[Obj], wish: Wish, rooms: Iterable[NodeRoom]) -> set[str]:
        """Where there are pods that all of `meant` speak of."""
        key = term.get("topologyKey", "")
        return {
            room.labels[key]
            for room in rooms
            if key in room.labels
            and any(
                all(_speaks_of(each, wish.namespace, p.namespace, p.labels, self._spaces) for each in meant)
                for p in room.pods.values()
            )
        }

    @staticmethod
    def _counts(constraint: Obj, wish: Wish, rooms: Iterable[NodeRoom]) -> dict[str, int]:
        key, counts = constraint["topologyKey"], dict[str, int]()
        keys = {each["topologyKey"] for each in wish.spread}
        counted = any((constraint.get("labelSelector") or {}).values())  # an empty selector counts nobody
        for room in rooms:
            if keys <= room.labels.keys() and _counted(constraint, wish, room):
                here = counted and sum(
                    p.namespace == wish.namespace and not p.leaving and _alike(constraint, wish, p.labels)
                    for p in room.pods.values()
                )
                counts[room.labels[key]] = counts.get(room.labels[key], 0) + here
        return counts

    def refusal(self, wish: Wish, room: NodeRoom) -> str | None:
        for constraint, counts in zip(wish.spread, self.spread, strict=True):
            value = room.labels.get(constraint["topologyKey"])
            if value is None:
                return f"{SPREAD} (missing required label)"
            mine = int(_alike(constraint, wish, wish.labels))
            few = len(counts) < (constraint.get("minDomains") or 1)
            least = 0 if few else min(counts.values(), default=0)
            if counts.get(value, 0) + mine - least > constraint.get("maxSkew", 1):
                return SPREAD
        for term, domains in zip(wish.near, self.near, strict=True):
            value = room.labels.get(term.get("topologyKey", ""))
            if value is None or (value not in domains and not self._starts):
                return NEAR
        for term, domains in zip(wish.anti, self.anti, strict=True):
            if room.labels.get(term.get("topologyKey", "")) in domains:
                return ANTI
        if any(room.labels.get(key) == value for key, value in self.kept_off):
            return EXISTING_ANTI
        return None


def _counted(constraint: Obj, wish: Wish, room: NodeRoom) -> bool:
    """Whether a node is part of what a pod spreads over."""
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not selects_node(
        wish.spec, room.name, room.labels
    ):
        return False
    return constraint.get("nodeTaintsPolicy") != "Honor" or all(
        taint.get("effect") == "PreferNoSchedule" or tolerates(wish.tolerations, taint)
        for taint in room.taints
    )


def _alike(constraint: Obj, wish: Wish, labels: Labels) -> bool:
    """Whether a pod counts for the spread: the selector means it, and it agrees in the keys that are named."""
    return matches(labels, constraint.get("labelSelector")) and all(
        labels.get(key) == wish.labels[key]
        for key in constraint.get("matchLabelKeys") or ()
        if key in wish.labels
    )


def _speaks_of(term: Obj, owner: str, namespace: str, labels: Labels, spaces: Mapping[str, Labels]) -> bool:
    """Whether an affinity term of a pod in namespace `owner` means a pod."""
    chosen, named = term.get("namespaceSelector"), term.get("namespaces") or []
    if chosen is None:
        named = named or [owner]
    if namespace not in named and (chosen is None or not matches(spaces.get(namespace, {}), chosen)):
        return False
    return matches(labels, term.get("labelSelector"))
