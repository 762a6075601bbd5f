"""Rooms: everything that could hold a pod — nodes that are there, machines on their way, and new ones.

A machine that is on its way *is* capacity. Until its GPUs are usable it counts with what was
promised, whatever its young Node shows (no GPUs yet, any taint); afterwards only the Node counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.domain import names
from controller.domain.cloudthings import InstanceType, Offer
from controller.domain.kube import Node, Pod, Taint
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Snapshot
from controller.domain.policy import Pool
from controller.domain.resources import PODS, Resources, add, is_accelerator, subtract, total
from controller.planning import predict
from controller.planning.fit import can_run, with_place

# How long a boot usually takes: GPUs that a terminating pod frees later than this are not waited for.
USUAL_BOOT = 300.0


@dataclass(slots=True)
class Room:
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    free: dict[str, int]
    soon: dict[str, int]  # `free`, and what terminating pods give back before a new machine could boot
    machine: Machine | None = None
    offer: Offer | None = None  # of a new machine
    pool: Pool | None = None
    pods: list[Pod] = field(default_factory=list)

    def holds(self, pod: Pod, *, later: bool = False) -> bool:
        return can_run(pod.shape, self.name, self.labels, self.taints, self.soon if later else self.free)

    def put(self, pod: Pod) -> None:
        needs = with_place(pod.shape.requests)
        self.free = subtract(self.free, needs)
        self.soon = subtract(self.soon, needs)
        self.pods.append(pod)


def node_of(machine: Machine, nodes: Mapping[str, Node]) -> Node | None:
    """The Node that is this machine: by our hostname, which nothing else may carry."""
    node = nodes.get(machine.name)
    if node is None or (machine.node_uid and node.uid != machine.node_uid):
        return None
    return node


def existing(snapshot: Snapshot) -> tuple[list[Room], list[Room], list[Room]]:
    """Rooms on Ready nodes, on machines on their way, and on machines being drained."""
    nodes = {node.name: node for node in snapshot.nodes}
    bound: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.node and not pod.finished:
            bound.setdefault(pod.node, []).append(pod)
    ready, coming, draining = [], [], []
    ours = set()
    for machine in snapshot.machines:
        if machine.phase in (Phase.TOMBSTONE, Phase.DELETING):
            ours.add(machine.name)
            continue
        node = node_of(machine, nodes)
        if machine.phase.on_the_way:
            ours.add(machine.name)
            if not machine.failed:
                coming.append(_promised(snapshot, machine, node, bound.get(machine.name, [])))
        elif machine.phase is Phase.DRAINING and node is not None and node.ready:
            ours.add(machine.name)
            if not machine.failed and not machine.surplus and not node.unschedulable:
                draining.append(_real(snapshot, node, bound.get(node.name, []), machine, lift=True))
    for node in snapshot.nodes:
        if node.name in ours or not node.ready or node.unschedulable or node.deleting:
            continue
        owner = next((m for m in snapshot.machines if m.name == node.name), None)
        ready.append(_real(snapshot, node, bound.get(node.name, []), owner))
    return ready, coming, draining


def _real(
    snapshot: Snapshot, node: Node, pods: list[Pod], machine: Machine | None, *, lift: bool = False
) -> Room:
    used = total(with_place(pod.shape.requests) for pod in pods)
    leaving = total(with_place(pod.shape.requests) for pod in pods if _frees_soon(pod, snapshot))
    free = subtract(node.allocatable, used)
    soon = subtract(node.allocatable, subtract(used, leaving))
    taints = node.taints
    if lift:
        taints = tuple(t for t in taints if t.key not in (names.TAINT_DRAINING, names.TAINT_IDLE))
    labels = {names.LABEL_HOSTNAME: node.name, **node.labels}
    return Room(node.name, labels, taints, free, soon, machine)


def _frees_soon(pod: Pod, snapshot: Snapshot) -> bool:
    if pod.deleting_at is None:
        return False
    end = pod.deleting_at + snapshot.policy.deadlines.terminating_slack
    return snapshot.now < end < snapshot.now + USUAL_BOOT


def _promised(snapshot: Snapshot, machine: Machine, node: Node | None, pods: list[Pod]) -> Room:
    """A machine on its way, with what it promised, and what is already known of its Node."""
    policy = snapshot.policy
    pool = policy.pool(machine.pool) or Pool(name=machine.pool, max=0)
    offer = Offer(type=type_of(machine), location=machine.location, market=machine.market)
    labels: dict[str, str] = predict.labels_of(pool, offer, machine.name)
    promised = predict.allocatable_of(policy, pool, offer.type, snapshot.observed)
    if node is not None:
        labels |= dict(node.labels)
        real = {k: v for k, v in node.allocatable.items() if not is_accelerator(k, policy.gpu_resources)}
        promised |= real
    taints = predict.taints_of(pool)
    overhead = predict.daemon_overhead(snapshot.daemonsets, machine.name, labels, taints)
    used = total(with_place(pod.shape.requests) for pod in pods if not pod.shape.is_daemon)
    free = subtract(promised, add(used, overhead))
    return Room(machine.name, labels, taints, free, dict(free), machine)


def new_room(snapshot: Snapshot, pool: Pool, offer: Offer, name: str = "new-machine") -> Room:
    labels = predict.labels_of(pool, offer, name)
    taints = predict.taints_of(pool)
    overhead = predict.daemon_overhead(snapshot.daemonsets, name, labels, taints)
    free = subtract(predict.allocatable_of(snapshot.policy, pool, offer.type, snapshot.observed), overhead)
    return Room(name, labels, taints, free, dict(free), offer=offer, pool=pool)


def type_of(machine: Machine) -> InstanceType:
    """The type as it was when the machine was ordered: the catalogue may have changed since."""
    return InstanceType(
        name=machine.instance_type,
        model=machine.model,
        gpus=machine.gpus,
        vcpus=machine.vcpus,
        memory_gib=machine.memory_gib,
        price=machine.price,
        spot_price=machine.price,
    )


def empty_node_holds(pod: Pod, node: Node, daemons: Resources) -> bool:
    """Whether the pod would fit the node if nothing but daemons ran there."""
    free = subtract({PODS: predict.MAX_PODS, **node.allocatable}, daemons)
    return can_run(pod.shape, node.name, {names.LABEL_HOSTNAME: node.name, **node.labels}, node.taints, free)
