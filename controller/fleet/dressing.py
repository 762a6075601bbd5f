"""What a Node of ours should carry and does not: labels and taints that its startup script did not set.

A kubelet may not set every label on itself (it would exit), and a script of the user's own may set none at all; pods
select nodes by these, and the plan counts with them. They are added while the machine starts, which is not over before
its labels stand there, and once to one that was taken over. Nothing that is there is changed, and nothing is added
again later: somebody may have taken it away.
"""

from __future__ import annotations

from decimal import Decimal

from controller.domain import names
from controller.domain.cloudthings import InstanceType, Offer
from controller.domain.kube import Node, Taint
from controller.domain.machine import Machine, Phase
from controller.domain.policy import Policy, Pool
from controller.planning.predict import own_labels

# Keeps nobody away: GPU daemons tolerate no other taints than their own.
GPUS_COME = Taint(key=names.TAINT_GPUS_COME, effect="PreferNoSchedule")
_STARTING = (Phase.JOINED, Phase.STARTED)
# The cloud controller that takes this taint off sets the provider ID, too.
_UNINITIALISED = "node.cloudprovider.kubernetes.io/uninitialized"


def awaits_identity(node: Node) -> bool:
    """Whether somebody else is about to say which machine it is."""
    return any(taint.key == _UNINITIALISED for taint in node.taints)


def taints_at_start(pool: Pool) -> tuple[Taint, ...]:
    """What a machine of the pool registers with."""
    startup = (Taint(key=names.TAINT_STARTUP),) if pool.startup_taint else ()
    return (*pool.taints, *startup, *((GPUS_COME,) if pool.waits_by_taint else ()))


def over(machine: Machine, node: Node) -> tuple[Taint, ...]:
    """Of the taints of its start, those that have served: it is known whose Node it is, and its GPUs are there."""
    served = (Taint(key=names.TAINT_STARTUP), *((GPUS_COME,) if machine.phase is Phase.READY else ()))
    return tuple(taint for taint in served if node.has_taint(taint.key, taint.effect))


def lacking_labels(pool: Pool, machine: Machine, node: Node) -> dict[str, str]:
    kind = InstanceType(
        name=machine.instance_type,
        model=machine.model,
        gpus=machine.gpus,
        vcpus=machine.vcpus,
        memory_gib=machine.memory_gib,
        price=Decimal(0),
        spot_price=Decimal(0),
    )
    wanted = own_labels(
        pool, Offer(type=kind, location=machine.location, market=machine.market), machine.name
    )
    return {key: value for key, value in wanted.items() if key not in node.labels}


def dressed(policy: Policy, machine: Machine, node: Node | None) -> bool:
    """Whether every label stands there that pods may select the machine by."""
    pool = policy.pool(machine.pool)
    return node is None or pool is None or not lacking_labels(pool, machine, node)


def lacks(policy: Policy, machine: Machine, node: Node) -> tuple[dict[str, str], tuple[Taint, ...]]:
    """Labels and taints to add; of a machine whose pool is not known, none."""
    pool = policy.pool(machine.pool)
    starting = machine.phase in _STARTING
    if pool is None or not (
        starting or (machine.phase is Phase.READY and names.LABEL_MACHINE not in node.labels)
    ):
        return {}, ()
    taints: tuple[Taint, ...] = ()
    if starting and not machine.adopted:
        wanted = (*pool.taints, *((GPUS_COME,) if pool.waits_by_taint else ()))
        taints = tuple(taint for taint in wanted if not node.has_taint(taint.key, taint.effect))
    return lacking_labels(pool, machine, node), taints
