"""Whether one pod can run on one node, real or predicted, and if not, what stands in the way.

The stages are ordered: how far a pod gets on its best candidate tells what would have to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controller.domain.kube import PodShape, Taint
from controller.domain.resources import PODS, Resources, fits


def selected(shape: PodShape, name: str, labels: Mapping[str, str]) -> bool:
    """Node selector and required node affinity."""
    if any(labels.get(key) != value for key, value in shape.node_selector.items()):
        return False
    return shape.required_terms is None or any(term.matches(name, labels) for term in shape.required_terms)


def unmet_selector(shape: PodShape, labels: Mapping[str, str]) -> str:
    """The first condition on labels that does not hold, in words."""
    for key, value in sorted(shape.node_selector.items()):
        if labels.get(key) != value:
            return f"{key}={value}"
    for term in shape.required_terms or ():
        for requirement in term.fields + term.labels:
            if requirement in term.fields or not requirement.matches(labels):
                return str(requirement)
    return "the required node affinity"


def untolerated(shape: PodShape, taints: Iterable[Taint]) -> Taint | None:
    """The first taint that keeps the pod away. PreferNoSchedule never does."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(t.tolerates(taint) for t in shape.tolerations):
            return taint
    return None


def with_place(requests: Resources) -> dict[str, int]:
    """A pod's requests and the one place among the node's pods that it takes."""
    return {**requests, PODS: 1}


def can_run(
    shape: PodShape, name: str, labels: Mapping[str, str], taints: Sequence[Taint], free: Resources
) -> bool:
    return (
        fits(with_place(shape.requests), free)
        and selected(shape, name, labels)
        and untolerated(shape, taints) is None
    )
