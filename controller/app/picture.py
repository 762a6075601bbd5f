"""The snapshot that is planned on: what of the watched world, the fleet and the cloud matters to GPUs.

Of thirty thousand pods only those count that wait, or that sit on nodes with accelerators or on
machines of ours. Other nodes matter only while a machine that may go carries pods that would move there.
"""

from __future__ import annotations

from controller.cluster.protocol import View
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Snapshot
from controller.domain.policy import Policy
from controller.domain.resources import is_accelerator
from controller.fleet.engine import Fleet
from controller.fleet.usable import in_use
from controller.planning.elsewhere import moves
from controller.planning.gangs import membership


def take(policy: Policy, view: View, fleet: Fleet, now: float) -> Snapshot:
    machines = fleet.machines()
    names = {machine.name for machine in machines}
    declared = policy.gpu_resources
    movers = (
        policy.limits.cluster_wide
        or any(_has_movers(policy, view, machine) for machine in machines)
        # Members of a gang count wherever they run, also those without GPUs.
        or any(membership(pod) is not None for pod in view.waiting_pods())
    )
    nodes = [
        node
        for node in view.nodes()
        if node.name in names
        or movers
        or any(is_accelerator(n, declared) for n in node.allocatable)
        or any(is_accelerator(n, declared) for n in node.capacity)
    ]
    pods = list(view.waiting_pods())
    for node in nodes:
        pods += view.pods_on(node.name)
    return Snapshot(
        now=now,
        policy=policy,
        pods=tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name, pod.uid))),
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        daemonsets=tuple(sorted(view.daemonsets(), key=lambda daemon: daemon.key)),
        jobs=tuple(sorted(view.jobs(), key=lambda job: job.uid)),
        budgets=tuple(sorted(view.budgets(), key=lambda budget: (budget.namespace, budget.name))),
        machines=machines,
        offers=fleet.catalogue.offers,
        refusals=fleet.active_refusals(),
        observed=fleet.ledger.figures,
        disappointed={pod: tuple(found) for pod, found in fleet.ledger.disappointed.items()},
        given_up={pod: dict(found) for pod, found in fleet.ledger.given_up.items()},
        in_vain=dict(fleet.ledger.in_vain),
        scripts_free=fleet.scripts_free(),
        launches=tuple(fleet.ledger.launches),
        spent_this_month=fleet.ledger.spent_in_month(now),
    )


def _has_movers(policy: Policy, view: View, machine: Machine) -> bool:
    """Whether nothing uses the machine's accelerators, and pods without them would have to leave."""
    if machine.phase not in (Phase.READY, Phase.DRAINING):
        return False
    pods = view.pods_on(machine.name)
    return any(moves(pod) for pod in pods) and not any(in_use(pod, policy.gpu_resources) for pod in pods)
