"""Labels that a pod's rules name by key alone: the API server writes their values into the selectors of a new pod.

So those who read the pod later need not know of the keys. A rule without a selector stays as it is, and a key that
the pod has no label for is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.sandbox.cluster.resources import Obj

WAYS = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}


def write_out(pod: Obj) -> None:
    """In place, of a pod with its canonical shape."""
    labels = pod["metadata"].get("labels") or {}
    for rule in _rules(pod["spec"]):
        selector = rule.get("labelSelector")
        if selector is None:
            continue
        for name, operator in WAYS.items():
            said = [
                {"key": key, "operator": operator, "values": [labels[key]]}
                for key in rule.get(name) or ()
                if key in labels
            ]
            if said:
                selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *said]


def _rules(spec: Obj) -> Iterator[Obj]:
    for kind in ("podAffinity", "podAntiAffinity"):
        held = (spec.get("affinity") or {}).get(kind) or {}
        yield from held.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for each in held.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield each["podAffinityTerm"]
    yield from spec.get("topologySpreadConstraints") or ()
