"""What a Node of ours should carry and does not: labels and taints that its startup script did not set.

A kubelet may not set every label on itself (it would exit), and a script of the user's own may set none at all; pods
select nodes by these, and the plan counts with them. They are added while the machine starts, and once to one that
was taken over. Nothing that is there is changed, and nothing is added again later: somebody may have taken it away.
"""

from __future__ import annotations

from decimal import Decimal

from controller.domain import names
from controller.domain.cloudthings import InstanceType, Offer
from controller.domain.kube import Node, Taint
from controller.domain.machine import Machine, Phase
from controller.domain.policy import Policy
from controller.planning.predict import own_labels

_STARTING = (Phase.JOINED, Phase.STARTED)


def lacks(policy: Policy, machine: Machine, node: Node) -> tuple[dict[str, str], tuple[Taint, ...]]:
    """Labels and taints to add; of a machine whose pool is not known, none."""
    pool = policy.pool(machine.pool)
    starting = machine.phase in _STARTING
    if pool is None or not (
        starting or (machine.phase is Phase.READY and names.LABEL_MACHINE not in node.labels)
    ):
        return {}, ()
    kind = InstanceType(
        name=machine.instance_type,
        model=machine.model,
        gpus=machine.gpus,
        vcpus=machine.vcpus,
        memory_gib=machine.memory_gib,
        price=Decimal(0),
        spot_price=Decimal(0),
    )
    offer = Offer(type=kind, location=machine.location, market=machine.market)
    wanted = own_labels(pool, offer, machine.name)
    labels = {key: value for key, value in wanted.items() if key not in node.labels}
    taints: tuple[Taint, ...] = ()
    if starting and not machine.adopted:
        taints = tuple(taint for taint in pool.taints if not node.has_taint(taint.key, taint.effect))
    return labels, taints
