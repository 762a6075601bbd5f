"""The snapshot that is planned on: what of the watched world, the fleet and the cloud matters to GPUs.

Of thirty thousand pods only those count that wait, or that sit on nodes with accelerators or on
machines of ours. Other nodes matter only while a machine that may go carries pods that would move there,
or while pods elsewhere have a say in where a waiting one runs: by affinity, spread or a shared volume. A host with
the disk of a waiting pod is always seen, or it would be taken to be gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import attrgetter

from controller.cluster.protocol import View
from controller.domain import names as keys
from controller.domain.kube import Pod, PodShape, Volume
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Snapshot
from controller.domain.policy import Policy
from controller.domain.resources import is_accelerator, uses_accelerator
from controller.fleet.engine import Fleet
from controller.planning.consolidation import OFF
from controller.planning.elsewhere import moves
from controller.planning.gangs import membership
from controller.planning.protection import uses_gpus

_NAMED = attrgetter("namespace", "name", "uid")


def take(policy: Policy, view: View, fleet: Fleet, now: float) -> Snapshot:
    board = fleet.switchboard
    undecided = board.undecided() if board is not None else ()
    counted = (machine for machine in fleet.everything() if machine.name not in undecided)
    machines = tuple(sorted(counted, key=lambda machine: machine.name))
    names = {machine.name for machine in machines} | {switch.name for switch in policy.switches}
    declared = policy.gpu_resources
    waiting = view.waiting_pods()
    everywhere = (
        policy.limits.cluster_wide
        or any(rule.hard for rule in policy.default_spreads)
        or any(_has_movers(policy, view, machine) for machine in machines)
        or any(_looks_around(shape) for shape in _demanding(waiting, declared))
        or _shares_what_is_for_one(view, waiting)
        # Members of a gang count wherever they run, also those without GPUs.
        or any(membership(pod) is not None for pod in waiting)
    )
    heard = set() if everywhere else _with_a_say(view, waiting, declared)
    disks = set() if everywhere else _with_disks(view, waiting)
    nodes = [
        fleet.node_as_marked(node) if node.name in names else node
        for node in view.nodes()
        if everywhere
        or node.name in names
        or node.name in heard
        or (disks and node.labels.get(keys.LABEL_HOSTNAME, node.name) in disks)
        or any(is_accelerator(n, declared) for n in node.allocatable)
        or any(is_accelerator(n, declared) for n in node.capacity)
    ]
    pods = list(waiting)
    for node in nodes:
        pods += view.pods_on(node.name)
    shown = {node.name for node in nodes}
    claims = _claims(pods)
    volume_claims = sorted((c for c in view.volume_claims() if c.key in claims), key=lambda c: c.key)
    daemonsets = tuple(sorted(view.daemonsets(), key=lambda daemon: daemon.key))
    return Snapshot(
        now=now,
        policy=policy,
        pods=tuple(sorted(pods, key=_NAMED)),  # thousands, in every pass
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        daemonsets=daemonsets,
        jobs=tuple(sorted(view.jobs(), key=lambda job: job.uid)),
        budgets=tuple(sorted(view.budgets(), key=lambda budget: (budget.namespace, budget.name))),
        namespaces=tuple(sorted(view.namespaces(), key=lambda found: found.name)),
        volume_claims=tuple(volume_claims),
        volumes=_volumes(view.persistent_volumes(), {c.volume for c in volume_claims}, claims),
        storage_classes=tuple(sorted(view.storage_classes(), key=lambda found: found.name)),
        csi_nodes=tuple(
            sorted((n for n in view.csi_nodes() if n.name in shown), key=lambda found: found.name)
        ),
        limit_ranges=tuple(sorted(view.limit_ranges(), key=lambda found: (found.namespace, found.name))),
        pod_groups=tuple(
            sorted(view.pod_groups(), key=lambda found: (found.namespace, found.name, found.system))
        ),
        device_claims=tuple(sorted(view.device_claims(), key=lambda found: (found.template, found.key))),
        device_classes=tuple(sorted(view.device_classes(), key=lambda found: found.name)),
        unreadable=view.unreadable(),
        machines=machines,
        surplus=fleet.second_machines(),
        offers=fleet.catalogue.offers + (board.offers() if board is not None else ()),
        own=board.own() if board is not None else {},
        refusals=fleet.active_refusals(),
        observed=fleet.ledger.figures,
        disappointed={pod: tuple(found) for pod, found in fleet.ledger.failures.disappointed.items()},
        given_up={pod: dict(found) for pod, found in fleet.ledger.failures.given_up.items()},
        tried=dict(fleet.ledger.failures.tried),
        in_vain=dict(fleet.ledger.failures.in_vain),
        scripts_free=fleet.scripts_free(),
        launches=tuple(fleet.ledger.launches),
        spent_this_month=fleet.ledger.spent_in_month(now),
    )


def _demanding(waiting: Iterable[Pod], declared: Collection[str]) -> list[PodShape]:
    """The shapes of waiting pods that could be bought for, each once."""
    shapes = {id(pod.shape): pod.shape for pod in waiting}
    return [
        shape for shape in shapes.values() if shape.has_claims or uses_accelerator(shape.requests, declared)
    ]


def _looks_around(shape: PodShape) -> bool:
    """Pods on any node decide where it may run."""
    return bool(shape.affinity or shape.anti_affinity or any(spread.hard for spread in shape.spreads))


def _shares_what_is_for_one(view: View, waiting: Iterable[Pod]) -> bool:
    """A pod on any node may use the volume that one pod alone may use."""
    claims = _claims(waiting)
    return bool(claims) and any(
        claim.key in claims and "ReadWriteOncePod" in claim.access_modes for claim in view.volume_claims()
    )


def _with_a_say(view: View, waiting: Iterable[Pod], declared: Collection[str]) -> set[str]:
    """Nodes with pods that keep a waiting one off, which for a whole zone can be any node."""
    demanding = _demanding(waiting, declared)
    if not demanding:
        return set()
    judged: dict[int, bool] = {}

    def keeps_off(shape: PodShape) -> bool:
        if id(shape) not in judged:
            judged[id(shape)] = any(
                term.selector is not None and any(term.selector.matches(other.labels) for other in demanding)
                for term in shape.anti_affinity
            )
        return judged[id(shape)]

    return {pod.node for pod in view.guarded_pods() if keeps_off(pod.shape)}


def _with_disks(view: View, waiting: Iterable[Pod]) -> set[str]:
    """The hosts with local volumes of waiting pods."""
    claims = _claims(waiting)
    return {
        host
        for volume in (view.persistent_volumes() if claims else ())
        if volume.local and volume.claim in claims
        for term in volume.terms or ()
        for condition in term.labels
        if condition.key == keys.LABEL_HOSTNAME
        for host in condition.values
    }


def _claims(pods: Iterable[Pod]) -> set[str]:
    """The keys of the volume claims that pods use; one made for a pod is named after it."""
    return {
        f"{pod.namespace}/{f'{pod.name}-{volume.name}' if volume.ephemeral else volume.claim}"
        for pod in pods
        for volume in pod.shape.volumes
    }


def _volumes(volumes: Iterable[Volume], bound: set[str], claims: set[str]) -> tuple[Volume, ...]:
    """Those of the claims, and those that a claim could still be bound to."""
    wanted = (
        found
        for found in volumes
        if found.name in bound or found.claim in claims or (claims and not found.claim)
    )
    return tuple(sorted(wanted, key=lambda found: found.name))


def _has_movers(policy: Policy, view: View, machine: Machine) -> bool:
    """Whether pods would have to leave: nothing uses the machine's accelerators, or work may be moved, too."""
    if machine.phase not in (Phase.READY, Phase.DRAINING):
        return False
    pods = view.pods_on(machine.name)
    if not any(moves(pod) for pod in pods):
        return False
    picture = Snapshot(now=0.0, policy=policy, device_claims=view.device_claims())
    return policy.consolidate != OFF or not any(uses_gpus(picture, pod) for pod in pods)
