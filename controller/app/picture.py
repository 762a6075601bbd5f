"""The snapshot that is planned on: what of the watched world, the fleet and the cloud matters to GPUs.

Of thirty thousand pods only those count that wait, or that sit on nodes with accelerators or on
machines of ours.
"""

from __future__ import annotations

from controller.cluster.protocol import View
from controller.domain.plan import Snapshot
from controller.domain.policy import Policy
from controller.domain.resources import is_accelerator
from controller.fleet.engine import Fleet


def take(policy: Policy, view: View, fleet: Fleet, now: float) -> Snapshot:
    machines = fleet.machines()
    names = {machine.name for machine in machines}
    declared = policy.gpu_resources
    nodes = [
        node
        for node in view.nodes()
        if node.name in names
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
        scripts_free=fleet.scripts_free(),
        launches=tuple(fleet.ledger.launches),
    )
