"""What of a pod's node selector and required node affinity a machine does not meet, and the words for it.

Each condition may be met by some machine and all of them by none: what is told is what the machine lacks that comes
closest, beside what those machines have that meet the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.domain import names
from controller.domain.kube import NodeTerm, PodShape, Requirement
from controller.planning.room import Room

_VALUES = 5  # of a label
_NAMES = (names.LABEL_HOSTNAME, names.LABEL_MACHINE, "metadata.name")
_EQUALS = "="  # of a node selector, which has no operators
_NO_TERM = Requirement("", "")


def unmet(shape: PodShape, name: str, labels: Mapping[str, str]) -> list[Requirement]:
    """Of the terms of a node affinity the first of those that come closest counts. An empty one selects nothing."""
    found = [each for each in _selector(shape) if labels.get(each.key) != each.values[0]]
    if shape.required_terms is None:
        return found
    terms = [_lacks(term, name, labels) for term in shape.required_terms if term.labels or term.fields]
    return found + min(terms, key=lambda lacks: len(lacks), default=[_NO_TERM])


def words(shape: PodShape, nearest: Room, reached: Sequence[Room], rooms: Sequence[Room], pool: str) -> str:
    """`reached`: machines of the pool that come as close as the nearest one, `rooms`: all of the pool."""
    lacks = unmet(shape, nearest.name, nearest.labels)
    if _NO_TERM in lacks:
        return "the pod asks for a node affinity without any term; it matches no node at all"
    named = next((each for each in lacks if each.key in _NAMES), None)
    if named is not None:
        return (
            f"the pod asks for {_text(named)}; a new machine has a name of its own, so none is bought for it"
        )
    terms = shape.required_terms or ()
    met = [
        each
        for each in (*_selector(shape), *(terms[0].labels if len(terms) == 1 else ()))
        if each not in lacks
    ]
    telling = [each for each in met if not all(_is_met(each, room) for room in rooms)]
    alike = [room for room in reached if all(_is_met(each, room) for each in met)]
    among = f" with {' and '.join(map(_text, telling))}" if telling else ""
    has = [_values(key, alike) for key in dict.fromkeys(each.key for each in lacks)]
    asked = " and ".join(map(_text, lacks))
    return f"the pod asks for {asked}; machines of pool {pool}{among} have {' and '.join(has)}"


def _selector(shape: PodShape) -> list[Requirement]:
    return [Requirement(key, _EQUALS, (value,)) for key, value in sorted(shape.node_selector.items())]


def _lacks(term: NodeTerm, name: str, labels: Mapping[str, str]) -> list[Requirement]:
    on_fields = [each for each in term.fields if not each.matches({"metadata.name": name})]
    return on_fields + [each for each in term.labels if not each.matches(labels)]


def _is_met(condition: Requirement, room: Room) -> bool:
    if condition.operator == _EQUALS:
        return room.labels.get(condition.key) == condition.values[0]
    return condition.matches(room.labels)


def _text(condition: Requirement) -> str:
    return f"{condition.key}={condition.values[0]}" if condition.operator == _EQUALS else str(condition)


def _values(key: str, rooms: Sequence[Room]) -> str:
    values = sorted({room.labels[key] for room in rooms if key in room.labels})
    more = ", …" if len(values) > _VALUES else ""
    return f"{key}={', '.join(values[:_VALUES])}{more}" if values else f"no label {key}"
