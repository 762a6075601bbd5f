"""A plan before the independent verifier: are its placements possible, in whatever order they are made?"""

from __future__ import annotations

from controller.domain.kube import Pod
from controller.planning import predict
from tests.e2e.controlplane.differential.sets import Carried, names_of
from tests.planning.verifier import Host, objection


def objections(found: Carried) -> list[str]:
    """Of the pods that find no moment at which their place would take them."""
    snapshot = found.snapshot
    bound: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.node and not pod.finished:
            bound.setdefault(pod.node, []).append(pod)
    hosts = [
        Host(node.name, node.labels, node.taints, node.allocatable, bound.get(node.name, []))
        for node in snapshot.nodes
    ]
    for name, launch in names_of(found.plan).items():
        pool = snapshot.policy.pool(launch.pool)
        assert pool is not None
        labels = predict.labels_of(pool, launch.offer, name, snapshot.policy.gpu_labels)
        there = predict.allocatable_of(snapshot.policy, pool, launch.offer.type, snapshot.observed)
        hosts.append(Host(name, labels, predict.taints_of(pool), there))
    by_name = {host.name: host for host in hosts}
    spaces = {space.name: space.labels for space in snapshot.namespaces}
    left = {pod.key: pod for pod in snapshot.pods if pod.key in found.planned}
    while left:
        before = len(left)
        said = {}
        for key, pod in list(left.items()):
            host = by_name[found.planned[key]]
            if why := objection(pod, host, hosts, spaces):
                said[key] = f"{key} on {host.name}: {why}"
            else:
                host.pods.append(left.pop(key))
        if len(left) == before:
            return list(said.values())
    return []
