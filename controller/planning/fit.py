"""Whether one pod can run on one node, real or predicted, and if not, what stands in the way.

Thousands of waiting pods are a few dozen *kinds*: what decides where a pod can run is worked out once
for each kind. A *profile* is a kind without the amounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from controller.domain.kube import Pod, PodShape, Selector, Taint
from controller.domain.resources import PODS, Resources, gpus_of
from controller.planning.gangs import Gang


@dataclass(
    slots=True, eq=False
)  # the very same one or not; not frozen, as that makes thousands of them slower
class Ask:
    """A waiting pod, and what it needs of its node."""

    pod: Pod
    kind: int  # equal for pods that fit the same nodes
    profile: int  # equal for pods that differ in amounts only
    needs: Resources  # its requests and its place among the node's pods
    size: int  # equal for pods that need the same
    scarce: tuple[str, int]  # the accelerator that it asks the most of
    gang: Gang | None = None  # placed together or not at all


def watched_labels(pods: Iterable[Pod]) -> frozenset[str] | None:
    """The keys of pods' labels that some pod's rules look at; None: no pod has such rules."""
    shapes = {id(pod.shape): pod.shape for pod in pods if not pod.finished}
    selectors: list[Selector | None] = []
    keys: set[str] = set()
    for shape in shapes.values():
        if shape.affinity or shape.anti_affinity or shape.spreads:
            selectors += [term.selector for term in (*shape.affinity, *shape.anti_affinity)]
            selectors += [spread.selector for spread in shape.spreads]
            keys.update(key for spread in shape.spreads for key in spread.match_label_keys)
    for selector in selectors:
        if selector is not None:
            keys.update(selector.labels)
            keys.update(condition.key for condition in selector.expressions)
    return frozenset(keys) if selectors else None


def asks(
    pods: Iterable[Pod],
    declared: frozenset[str],
    watched: frozenset[str] | None = None,
    gangs: Mapping[str, Gang] = {},
) -> list[Ask]:
    """Pods that differ in labels which no rule looks at are alike."""
    profiles: dict[bytes, int] = {}
    kinds: dict[bytes, int] = {}
    sizes: dict[bytes, tuple[dict[str, int], int, tuple[str, int]]] = {}
    shapes: dict[tuple[int, str], tuple[PodShape, Ask]] = {}
    found = []
    for pod in pods:
        shape = pod.shape
        own = f"{pod.namespace}/{pod.name}" if shape.volumes else pod.namespace if watched is not None else ""
        known = shapes.get((id(shape), own))
        if known is None:
            text = msgspec.json.encode(
                (
                    shape.node_selector,
                    shape.required_terms,
                    shape.tolerations,
                    shape.preferred_terms,
                    shape.host_ports,
                    shape.volumes,
                    own,
                )
            )
            if watched is not None:
                seen = sorted((key, value) for key, value in shape.labels.items() if key in watched)
                text += msgspec.json.encode((seen, shape.affinity, shape.anti_affinity, shape.spreads))
            profile = profiles.setdefault(text, len(profiles))
            amounts = msgspec.json.encode(shape.requests)
            kind = kinds.setdefault(text + amounts, len(kinds))
            size = sizes.get(amounts)
            if size is None:
                wanted = sorted(gpus_of(shape.requests, declared).items())
                scarce = max(wanted, key=lambda amount: amount[1], default=(PODS, 1))
                needs = {name: units for name, units in with_place(shape.requests).items() if units}
                size = sizes[amounts] = (needs, len(sizes), scarce)
            known = shapes[(id(shape), own)] = (shape, Ask(pod, kind, profile, *size))
        first = known[1]
        gang = gangs.get(pod.key) if gangs else None
        if first.pod is not pod or gang is not None:
            first = Ask(pod, first.kind, first.profile, first.needs, first.size, first.scarce, gang)
        found.append(first)
    return found


def enough(needs: Resources, free: Resources) -> bool:
    """`fits`, where it is asked a million times; `needs` without zeros."""
    for name, units in needs.items():  # noqa: SIM110  (a generator takes three times as long)
        if units > free.get(name, 0):
            return False
    return True


def selected(shape: PodShape, name: str, labels: Mapping[str, str]) -> bool:
    """Node selector and required node affinity."""
    if any(labels.get(key) != value for key, value in shape.node_selector.items()):
        return False
    return shape.required_terms is None or any(term.matches(name, labels) for term in shape.required_terms)


def untolerated(shape: PodShape, taints: Iterable[Taint]) -> Taint | None:
    """The first taint that keeps the pod away. PreferNoSchedule never does."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(t.tolerates(taint) for t in shape.tolerations):
            return taint
    return None


def with_place(requests: Resources) -> dict[str, int]:
    """A pod's requests and the one place among the node's pods that it takes."""
    return {**requests, PODS: 1}


def admitted(shape: PodShape, name: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> bool:
    """Whether labels and taints let the pod in, whatever there is room for."""
    return selected(shape, name, labels) and untolerated(shape, taints) is None
