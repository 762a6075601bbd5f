"""Nodes that offer less than the template of their group promised.

cluster-autoscaler believes the template: a pod that fits it and not the node stays pending, and a machine is bought
for it again and again, up to the maximum. So what ready nodes really offer is compared with the prediction; a group
that falls short is told once and measured, and its template promises no more than its nodes have shown. The fleet
remembers CPU, memory and pods of each type for good; this lasts while the process lives, and while the same is
predicted: what machines of another type or with another disk had says nothing of the next one. GPUs are not judged
here: a machine that lacks them has failed, and says nothing of the next one either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Gauge

from controller.domain.kube import Node
from controller.domain.quantity import to_kubernetes
from controller.domain.resources import PODS, Resources

JUDGED = ("cpu", "memory", "ephemeral-storage", PODS)
_NEGLIGIBLE = 0.01  # share: a prediction is none to the byte


class Shortfalls:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauge = Gauge(
            "gpu_autoscaler_grpc_shortfall",
            "Share of what was predicted that the nodes of a group lack, by resource; its template is corrected.",
            ("group", "resource"),
            registry=registry,
        )
        # By group and resource: the least that its nodes offered, and what was predicted.
        self._offered: dict[str, dict[str, tuple[int, int]]] = {}
        self._told: set[tuple[str, str]] = set()

    def offered(self, group_id: str, promised: Resources) -> Resources:
        """Less than was predicted; the template promises no more. `promised`: what is predicted now."""
        known = self._offered.get(group_id, {})
        return {name: there for name, (there, units) in known.items() if promised.get(name) == units}

    def look(self, nodes: Mapping[str, Iterable[Node]], promised: Mapping[str, Resources]) -> list[str]:
        """What is to be told; the ready nodes, and the prediction before any correction, by group: of each there is."""
        told: list[str] = []
        for group_id, known in list(self._offered.items()):
            for name, (_, units) in list(known.items()):
                if promised.get(group_id, {}).get(name) != units:
                    self._as_promised(group_id, name)
        for group_id, those in nodes.items():
            prediction = promised.get(group_id, {})
            for name in JUDGED:
                # One that says nothing of a resource has just started, and tells later.
                there = min((n.allocatable[name] for n in those if n.allocatable.get(name)), default=None)
                units = prediction.get(name, 0)
                if there is None or units <= 0:
                    continue
                if there >= units * (1 - _NEGLIGIBLE):
                    self._as_promised(group_id, name)
                    continue
                self._offered.setdefault(group_id, {})[name] = (there, units)
                self._gauge.labels(group_id, name).set(round(1 - there / units, 4))
                if (group_id, name) not in self._told:
                    self._told.add((group_id, name))
                    told.append(
                        f"group {group_id} offers less {name} than predicted: {to_kubernetes(name, there)} instead of "
                        f"{to_kubernetes(name, units)}; its template promises no more than that from now on"
                    )
        return told

    def _as_promised(self, group_id: str, name: str) -> None:
        if self._offered.get(group_id, {}).pop(name, None) is not None:
            self._told.discard((group_id, name))
            self._gauge.remove(group_id, name)
