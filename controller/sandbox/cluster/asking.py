"""Every node asked about one pod, with what the answers share worked out only once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from controller.sandbox.cluster.fit import NodeRoom, Wish, effective_requests, refusals
from controller.sandbox.cluster.neighbours import Neighbours
from controller.sandbox.cluster.ports import host_ports
from controller.sandbox.cluster.resources import NAMESPACES, Obj
from controller.sandbox.cluster.storage import Storage
from controller.sandbox.cluster.store import Store


def answers(
    store: Store, nodes: Mapping[str, NodeRoom], wish: Wish, storage: Storage, *, any_anti: bool
) -> Iterator[tuple[NodeRoom, list[str]]]:
    """Each node, and why it does not take the pod. `any_anti`: whether any placed pod keeps others off."""
    neighbours = None
    if wish.near or wish.anti or wish.spread or any_anti:
        spaces = {
            each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in store.every(NAMESPACES)
        }
        neighbours = Neighbours(wish, nodes.values(), any_anti, spaces)
    volumes = storage if storage.matters else None
    for room in nodes.values():
        yield room, refusals(wish, room, neighbours, volumes)


def signature(pod: Obj) -> str:
    """Pods of one signature get one answer from one state of the cluster."""
    spec = pod["spec"]
    parts = [spec.get(k) for k in ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")]
    parts += [spec.get("overhead"), sorted(effective_requests(spec).items()), sorted(host_ports(spec))]
    if spec.get("affinity") or spec.get("topologySpreadConstraints"):
        parts += [pod["metadata"]["namespace"]]
    # Labels matter to the anti-affinity of others.
    return json.dumps([parts, pod["metadata"]["namespace"], pod["metadata"].get("labels")], sort_keys=True)
