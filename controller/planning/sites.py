"""The rooms that exist: Ready nodes, machines on their way, machines whose removal can be called off, and nodes of
others that are shut but for pods that tolerate it.

A machine that is on its way *is* capacity. Until its GPUs are usable it counts with what was
promised, whatever its young Node shows (no GPUs yet, any taint); afterwards the Node counts. What such
a Node loses again — its GPUs while the device plug-in restarts, its readiness right after the join — is
waited for as long as the fleet itself does not believe the loss.

The scheduler binds a pod to a cordoned node, or to one that is not Ready, where it tolerates that. Such a node of
somebody else is room for it; of ours the fleet decides what becomes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.domain import names
from controller.domain.cloudthings import InstanceType, Offer, arch_of
from controller.domain.kube import Node, Pod, Taint
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Snapshot
from controller.domain.policy import OWN, Pool
from controller.domain.reason import Reason
from controller.domain.resources import PODS, Resources, add, fits, is_accelerator, maximum, subtract, total
from controller.planning import operators, own, predict
from controller.planning.fit import with_place
from controller.planning.room import Room

# How long a boot usually takes: GPUs that a terminating pod frees later than this are not waited for.
USUAL_BOOT = 300.0
# What a cordoned node, or one that is not Ready, is to the scheduler, also before the taint is there.
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
_UNREACHABLE = Taint(key="node.kubernetes.io/unreachable", effect="NoSchedule")
_OURS = (names.TAINT_DRAINING, names.TAINT_IDLE, names.TAINT_LEAVING, names.TAINT_CLOSED)


@dataclass(slots=True)
class Sites:
    ready: list[Room]
    coming: list[Room]
    draining: list[Room]
    shut: list[Room]

    def copy(self) -> Sites:
        every = (self.ready, self.coming, self.draining, self.shut)
        return Sites(*([room.copy() for room in rooms] for rooms in every))


def node_of(machine: Machine, nodes: Mapping[str, Node]) -> Node | None:
    """The Node that is this machine: by our hostname, which nothing else may carry."""
    node = nodes.get(machine.name)
    if node is None or (machine.node_uid and node.uid != machine.node_uid):
        return None
    return node


def existing(snapshot: Snapshot) -> Sites:
    """Nodes of others first, then the smallest of ours, so that the largest is the first to be idle."""
    nodes = {node.name: node for node in snapshot.nodes}
    bound: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.node and not pod.finished:
            bound.setdefault(pod.node, []).append(pod)
    sites = Sites([], [], [], [])
    shown = predict.labels_shown(snapshot)
    ours = {machine.name for machine in snapshot.machines}
    for node in snapshot.nodes:
        if node.name in ours:
            continue
        if usable(node):
            sites.ready.append(_real(snapshot, node, bound.get(node.name, [])))
        elif not _once_ours(snapshot, node) and (shut := _shut(snapshot, node)):
            room = _real(snapshot, node, bound.get(node.name, []))
            room.shut = shut
            if not node.ready:
                until = (node.ready_since or 0.0) + USUAL_BOOT
                room.soon_until = min(until, room.soon_until or until)
            sites.shut.append(room)
    for machine in sorted(snapshot.machines, key=lambda m: (m.gpus, m.name)):
        here = node_of(machine, nodes)
        pods = bound.get(machine.name, [])
        if machine.failed or machine.phase in (Phase.TOMBSTONE, Phase.DELETING):
            continue
        if machine.phase.on_the_way:
            sites.coming.append(_promised(snapshot, machine, here, pods, shown.get(_look(machine))))
        elif machine.phase is Phase.DRAINING:
            if here is not None and usable(here) and not machine.surplus:
                room = _real(snapshot, here, pods, machine)
                room.taints = tuple(taint for taint in room.taints if taint.key not in _OURS)
                sites.draining.append(room)
        elif here is not None and usable(here):
            sites.ready.append(_real(snapshot, here, pods, machine))
        elif not own.is_own(machine) and _waited_for(snapshot, machine, here):
            sites.coming.append(_promised(snapshot, machine, here, pods, shown.get(_look(machine))))
    return sites


def _look(machine: Machine) -> tuple[str, str]:
    return (machine.pool, machine.instance_type)


def usable(node: Node) -> bool:
    return node.ready and not node.unschedulable and not node.deleting


def _once_ours(snapshot: Snapshot, node: Node) -> bool:
    """Whether it is left of a machine that is gone, or of one that is switched and off."""
    return names.LABEL_POOL in node.labels or any(
        pool.market == OWN and pool.name == node.name for pool in snapshot.policy.pools
    )


def _shut(snapshot: Snapshot, node: Node) -> tuple[Taint, ...]:
    """What a pod must tolerate to be bound there; nothing: it is no room for anybody.

    One that is not Ready is counted on for no longer than a machine takes to boot: by then the scheduler has bound the
    pod there, or it does not.
    """
    if node.deleting:
        return ()
    found: tuple[Taint, ...] = (CORDONED,) if node.unschedulable else ()
    if not node.ready:
        if node.ready_since is None or snapshot.now >= node.ready_since + USUAL_BOOT:
            return ()
        unreachable = node.has_taint(_UNREACHABLE.key, _UNREACHABLE.effect)
        found += (_UNREACHABLE if unreachable else _NOT_READY,)
    return found


def _real(snapshot: Snapshot, node: Node, pods: list[Pod], machine: Machine | None = None) -> Room:
    there = {PODS: predict.MAX_PODS, **node.allocatable}
    used = total(with_place(pod.shape.requests) for pod in pods)
    leaving = [pod for pod in pods if frees_soon(pod, snapshot)]
    labels = {names.LABEL_HOSTNAME: node.name, **node.labels}
    room = Room(node.name, labels, node.taints, subtract(there, used), machine, soon_taints=node.taints)
    if leaving:
        staying = subtract(used, total(with_place(pod.shape.requests) for pod in leaving))
        room.soon = subtract(there, staying)
        room.soon_until = min(_end(pod, snapshot) for pod in leaving)
    if machine is not None and machine.phase is Phase.READY:
        _expect_back(snapshot, room, machine, there, used)
    return room


def _end(pod: Pod, snapshot: Snapshot) -> float:
    return (pod.deleting_at or 0.0) + snapshot.policy.deadlines.terminating_slack


def frees_soon(pod: Pod, snapshot: Snapshot) -> bool:
    """Whether what a terminating pod has there is free before a new machine could boot."""
    return pod.deleting_at is not None and snapshot.now < _end(pod, snapshot) < snapshot.now + USUAL_BOOT


def _expect_back(snapshot: Snapshot, room: Room, machine: Machine, there: Resources, used: Resources) -> None:
    """What a Node of ours lacks at the moment and is expected to have (again)."""
    limits, now = snapshot.policy.deadlines, snapshot.now
    pool = snapshot.policy.pool(machine.pool)
    promised = predict.gpu_resources(pool or Pool(name=machine.pool, max=0), machine.gpus)
    if pool is not None and pool.resource_claims == "always":
        promised = {}  # no device plug-in is going to show them
    lost_until = (machine.gpus_lost_at or now) + limits.gpu_lost
    if now < lost_until and not fits(promised, there):
        room.soon = subtract(maximum(there, promised), used)
        room.soon_until, room.soon_reason = lost_until, Reason.ON_THE_WAY
    young_until = machine.ready_at + limits.gpu
    kept = tuple(taint for taint in room.taints if pool is None or taint in pool.taints)
    if now < young_until and kept != room.taints:
        room.soon = room.soon if room.soon is not None else dict(room.free)
        room.soon_taints, room.soon_reason = kept, Reason.ON_THE_WAY
        room.soon_until = min(young_until, room.soon_until or young_until)


def _waited_for(snapshot: Snapshot, machine: Machine, node: Node | None) -> bool:
    """Whether a ready machine without a usable Node is expected back."""
    limits, now = snapshot.policy.deadlines, snapshot.now
    if node is None:
        return now < (machine.node_missing_at or now) + limits.ready
    return not node.ready and not node.deleting and now < machine.ready_at + limits.gpu


def _promised(
    snapshot: Snapshot,
    machine: Machine,
    node: Node | None,
    pods: list[Pod],
    shown: Mapping[str, str] | None,
) -> Room:
    """A machine on its way, with what it promised, and what is already known of its Node."""
    policy = snapshot.policy
    pool = policy.pool(machine.pool) or Pool(name=machine.pool, max=0)
    offer = Offer(type=_type_of(machine, snapshot), location=machine.location, market=machine.market)
    if own.is_own(machine):
        return Room(machine.name, *own.figures(snapshot, pool, offer, node, pods), machine)
    labels = predict.labels_of(pool, offer, machine.name, policy.gpu_labels, shown)
    promised = predict.allocatable_of(policy, pool, offer.type, snapshot.observed)
    if node is not None:
        labels |= dict(node.labels)
        promised |= {
            name: units
            for name, units in node.allocatable.items()
            if not is_accelerator(name, policy.gpu_resources)
        }
    taints = predict.taints_of(pool)
    perhaps = operators.perhaps(labels, shown)
    overhead = predict.daemon_overhead(snapshot.daemonsets, machine.name, labels, taints, perhaps)
    daemons = total(with_place(pod.shape.requests) for pod in pods if pod.shape.is_daemon)
    used = total(with_place(pod.shape.requests) for pod in pods if not pod.shape.is_daemon)
    free = subtract(promised, add(used, maximum(overhead, daemons)))
    return Room(machine.name, labels, taints, free, machine)


def _type_of(machine: Machine, snapshot: Snapshot) -> InstanceType:
    """The type as it was when the machine was ordered: the catalogue may have changed since."""
    listed = next((o.type for o in snapshot.offers if o.type.name == machine.instance_type), None)
    return InstanceType(
        name=machine.instance_type,
        model=machine.model,
        gpus=machine.gpus,
        vcpus=machine.vcpus,
        memory_gib=machine.memory_gib,
        price=machine.price,
        spot_price=machine.price,
        arch=listed.arch if listed is not None else arch_of(machine.model),
    )
