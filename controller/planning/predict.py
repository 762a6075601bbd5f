"""What a machine will look like as a Node before it exists: labels, taints, allocatable.

Errs low: memory loses 1/64 for page structures, 320Mi for kernel and firmware, 100Mi where the
kubelet keeps an eviction threshold, and one more per cent until a real node of the type was seen.
Whatever real nodes offered then wins, and so do the labels that a living node of the same kind shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from controller.domain import gpu_labels, names
from controller.domain.cloudthings import InstanceType, Offer
from controller.domain.kube import DaemonSet, PodShape, Taint, Toleration
from controller.domain.machine import Phase
from controller.domain.plan import Snapshot
from controller.domain.policy import Policy, Pool
from controller.domain.resources import GPU, HUGE_PAGES, PODS, Resources, stands_for_gpus
from controller.planning import operators

GIB = 1 << 30
MIB = 1 << 20
MAX_PODS = 110
_NO_MIG = "all-disabled"

# What the DaemonSet controller adds to its pods by itself.
_DAEMON_TOLERATIONS = tuple(
    Toleration(key=f"node.kubernetes.io/{key}", operator="Exists")
    for key in (
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    )
)


def own_labels(pool: Pool, offer: Offer, hostname: str) -> dict[str, str]:
    """The labels that our join writes; the same rule as in the room `join`, on the planner's nouns."""
    labels = {
        **pool.labels,
        names.LABEL_POOL: pool.name,
        names.LABEL_MACHINE: hostname,
        names.LABEL_LOCATION: offer.location,
        names.LABEL_MARKET: offer.market,
        names.LABEL_INSTANCE_TYPE: offer.type.name,
        names.LABEL_REGION: offer.location,
        names.LABEL_ZONE: offer.location,
    }
    if offer.type.gpus and not pool.waits_by_taint:
        labels[names.LABEL_GPU] = names.gpu_slug(offer.type.model)
    return labels


def labels_of(
    pool: Pool,
    offer: Offer,
    hostname: str,
    said: Mapping[str, Mapping[str, str]] | None = None,
    shown: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Every label that the Node will carry: ours, the kubelet's, and NVIDIA's where they are discovered.

    `said` is what the settings say about GPUs, `shown` what a node of the same pool and type carries. Where claims are
    served feature discovery does not run: the GPU operator's own mark is all that is there.
    """
    kind = offer.type
    labels = {
        names.LABEL_HOSTNAME: hostname,
        names.LABEL_OS: "linux",
        names.LABEL_ARCH: kind.arch,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": kind.arch,
        "beta.kubernetes.io/instance-type": kind.name,
    }
    if pool.feature_discovery:
        if pool.resource_claims != "always":
            shared = are_shared(pool, kind.gpus)
            labels |= gpu_labels.labels_for(kind.model, kind.name, kind.gpus, said, shared=shared)
        elif kind.gpus:
            labels[gpu_labels.PRESENT] = "true"
        labels |= shown or {}
    return labels | own_labels(pool, offer, hostname)


def labels_shown(snapshot: Snapshot) -> dict[tuple[str, str], dict[str, str]]:
    """By pool and type: what feature discovery wrote on a node of ours. Of several the last to be ready.

    Of a kind that has no node yet, what every GPU node of this cluster gets.
    """
    found = operators.everywhere(snapshot)
    nodes = {node.name: node for node in snapshot.nodes}
    for machine in sorted(snapshot.machines, key=lambda m: (m.ready_at, m.name)):
        node = nodes.get(machine.name)
        product = node.labels.get(gpu_labels.PRODUCT, "") if node is not None else ""
        if machine.phase is Phase.READY and node is not None and product and "MIG-INVALID" not in product:
            told = {key: node.labels[key] for key in gpu_labels.LEARNED if key in node.labels}
            found[(machine.pool, machine.instance_type)] = told | operators.learned(node.labels)
    return found


def are_shared(pool: Pool, gpus: int) -> bool:
    """More GPUs under their own name than there are: time-slicing or MPS. Slices of MIG can look the same, and are told
    apart by the label that asks for them; renamed shares (nvidia.com/gpu.shared) leave the product as it is."""
    sliced = pool.labels.get(gpu_labels.MIG_CONFIG, _NO_MIG) != _NO_MIG
    return pool.resources.get(GPU, 0) > gpus > 0 and not sliced


def gpu_resources(pool: Pool, gpus: int) -> dict[str, int]:
    """The accelerators of one machine: the catalogue's number, or what the pool declares instead."""
    declared = {
        k: v for k, v in pool.resources.items() if k not in ("cpu", "memory", "ephemeral-storage", PODS)
    }
    if any(stands_for_gpus(name) for name in declared):
        return declared
    return declared | ({GPU: gpus} if gpus else {})


def allocatable_of(
    policy: Policy, pool: Pool, kind: InstanceType, observed: Mapping[str, Resources] | None = None
) -> dict[str, int]:
    """What pods may use on a machine of this type, before daemons.

    Huge pages are set aside from its memory. A node of the type that taught us its memory may be of a pool without them.
    """
    huge = sum(units for name, units in pool.resources.items() if name.startswith(HUGE_PAGES))
    memory = int(Decimal(kind.memory_gib * GIB) * 63 / 64) - 320 * MIB
    storage = int((Decimal(pool.disk_gb) * 10**9 * 97 / 100 - GIB) * 90 / 100)
    if policy.kubelet_reserves_memory:
        memory -= 100 * MIB
    predicted = {
        "cpu": kind.vcpus * 1000,
        "memory": max(0, memory * 99 // 100 - huge),
        "ephemeral-storage": max(0, storage),
        PODS: MAX_PODS,
    }
    seen = (observed or {}).get(kind.name, {})
    predicted.update({name: seen[name] for name in ("cpu", "memory", PODS) if name in seen})
    if huge and "memory" in seen:
        predicted["memory"] = max(0, min(seen["memory"], kind.memory_gib * GIB - huge))
    return predicted | dict(pool.resources) | gpu_resources(pool, kind.gpus)


def taints_of(pool: Pool) -> tuple[Taint, ...]:
    """The taints that stay. A startup taint is not among them: pods wait until it is gone."""
    return pool.taints


def daemon_overhead(
    daemonsets: Sequence[DaemonSet],
    name: str,
    labels: Mapping[str, str],
    taints: Sequence[Taint],
    perhaps: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """What the DaemonSets that will run there take away; a DaemonSet that cannot run there takes nothing.

    `perhaps`: labels that the node may have besides.
    """
    used: dict[str, int] = {}
    more = {**labels, **perhaps} if perhaps else None
    for daemon in daemonsets:
        shape = daemon.shape
        if not _selects(shape, name, labels) and not (more and _selects(shape, name, more)):
            continue
        tolerations = shape.tolerations + _DAEMON_TOLERATIONS
        if any(
            taint.effect != "PreferNoSchedule" and not any(t.tolerates(taint) for t in tolerations)
            for taint in taints
        ):
            continue
        for resource, units in shape.requests.items():
            used[resource] = used.get(resource, 0) + units
        used[PODS] = used.get(PODS, 0) + 1
    return used


def _selects(shape: PodShape, name: str, labels: Mapping[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in shape.node_selector.items()):
        return False
    return shape.required_terms is None or any(t.matches(name, labels) for t in shape.required_terms)
