"""Whether a machine's accelerators are there, and whether anything uses them. Pure."""

from __future__ import annotations

from controller.domain.kube import Node, Pod
from controller.domain.resources import Resources, uses_accelerator


def in_use(pod: Pod, declared: frozenset[str]) -> bool:
    """Whether the pod is work that needs the machine's accelerators."""
    if pod.finished or pod.shape.is_daemon or pod.shape.mirror:
        return False
    return uses_accelerator(pod.shape.requests, declared) or pod.shape.has_claims


def lacking(promised: Resources, node: Node | None) -> tuple[str, ...]:
    """Accelerators that were promised and that the node does not offer (yet, or any more)."""
    offered = node.allocatable if node is not None else {}
    return tuple(
        f"{name}: {offered.get(name, 0)} of {units}"
        for name, units in sorted(promised.items())
        if offered.get(name, 0) < units
    )
