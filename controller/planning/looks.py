"""Labels and taints of many places at once: which of them a condition selects, as bits of one integer.

A place is a bit. Every key that somebody asks about is indexed once, by value; a selector over thousands
of places is then a few operations on integers. The same index serves nodes and offers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.domain.kube import NodeTerm, PodShape, Requirement, Taint, Toleration

NAME = "metadata.name"
_NUMERIC = ("Gt", "Lt", "Gte", "Lte")


class Looks:
    """Places in the order in which they were added: place number n is bit n."""

    def __init__(self) -> None:
        self.everywhere = 0
        self._labels: list[Mapping[str, str]] = []
        self._names: list[str] = []
        self._by: dict[str, dict[str, int]] = {}
        self._having: dict[str, int] = {}
        self._tainted: dict[tuple[Taint, ...], int] = {}

    def add(self, name: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> int:
        number = len(self._names)
        bit = 1 << number
        self._names.append(name)
        self._labels.append(labels)
        self.everywhere |= bit
        for key, values in self._by.items():
            value = name if key == NAME else labels.get(key)
            if value is not None:
                values[value] = values.get(value, 0) | bit
                self._having[key] |= bit
        hard = tuple(taints)
        self._tainted[hard] = self._tainted.get(hard, 0) | bit
        return number

    def by(self, key: str) -> dict[str, int]:
        """The places with this label, by its value."""
        known = self._by.get(key)
        if known is None:
            known = self._by[key] = {}
            having = 0
            bit = 1
            for name, labels in zip(self._names, self._labels, strict=True):
                value = name if key == NAME else labels.get(key)
                if value is not None:
                    known[value] = known.get(value, 0) | bit
                    having |= bit
                bit <<= 1
            self._having[key] = having
        return known

    def having(self, key: str) -> int:
        self.by(key)
        return self._having[key]

    def value(self, number: int, key: str) -> str | None:
        return self._labels[number].get(key)

    def meeting(self, condition: Requirement) -> int:
        values = self.by(condition.key)
        match condition.operator:
            case "In":
                found = 0
                for value in condition.values:
                    found |= values.get(value, 0)
                return found
            case "NotIn":
                found = 0
                for value in condition.values:
                    found |= values.get(value, 0)
                return self.everywhere & ~found
            case "Exists":
                return self.having(condition.key)
            case "DoesNotExist":
                return self.everywhere & ~self.having(condition.key)
            case operator if operator in _NUMERIC:
                found = 0
                for value, places in values.items():
                    if condition.matches({condition.key: value}):
                        found |= places
                return found
            case _:
                return 0

    def term(self, term: NodeTerm) -> int:
        if not term.labels and not term.fields:
            return 0
        found = self.everywhere
        for condition in term.labels:
            found &= self.meeting(condition)
        for condition in term.fields:
            found &= self.meeting(condition) if condition.key == NAME else 0
        return found

    def terms(self, terms: Sequence[NodeTerm]) -> int:
        found = 0
        for term in terms:
            found |= self.term(term)
        return found

    def selected(self, shape: PodShape) -> int:
        """Node selector and required node affinity."""
        found = self.everywhere
        for key, value in shape.node_selector.items():
            found &= self.by(key).get(value, 0)
        if shape.required_terms is not None:
            found &= self.terms(shape.required_terms)
        return found

    def tolerated(self, tolerations: tuple[Toleration, ...], *, soft: bool = False) -> int:
        """Places whose taints let the pod in; `soft`: whose PreferNoSchedule taints do, too."""
        found = 0
        for taints, places in self._tainted.items():
            if not taints or _lets_in(tolerations, taints, soft=soft):
                found |= places
        return found


def _lets_in(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...], *, soft: bool) -> bool:
    return all(
        (taint.effect == "PreferNoSchedule") is not soft or any(t.tolerates(taint) for t in tolerations)
        for taint in taints
    )
