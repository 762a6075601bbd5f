"""Machines that had better be replaced: older than their pool allows, or made with other settings of it.

Neither is a reason to disturb work: such a machine goes as soon as it is idle, and until then it is only
told. Drift is judged by what the ledger recorded when the machine was ordered, so that what people change on
a Node by hand is none; of a machine that was adopted, or ordered by an older version, only its type, location
and market are known. A machine whose pool is gone from the settings goes too, unless such machines are kept.
"""

from __future__ import annotations

from controller.domain.cloudthings import InstanceType, Offer
from controller.domain.machine import Machine
from controller.domain.making import changed, made_with
from controller.domain.plan import Explanation, Snapshot
from controller.domain.policy import Pool
from controller.domain.reason import Reason
from controller.domain.remembering import remembered
from controller.planning.choice import allows_type
from controller.planning.own import is_own


def outdated(snapshot: Snapshot, machine: Machine) -> Explanation | None:
    """Why it should go as soon as it is idle, or None."""
    pool = snapshot.policy.pool(machine.pool)
    if pool is None:
        return None if is_own(machine) or kept_without_pool(snapshot, machine) else _of_no_pool(machine)
    if drift := _drift(snapshot, machine, pool):
        return Explanation(Reason.DRIFTED, drift)
    if (end := expires_at(snapshot, machine)) is not None and snapshot.now >= end:
        return Explanation(
            Reason.EXPIRED, f"older than expire_after of pool {pool.name} ({pool.expire_after:.15g} s)"
        )
    return None


def kept_without_pool(snapshot: Snapshot, machine: Machine) -> bool:
    """Its pool is gone, and the settings say that its machines stay."""
    gone = snapshot.policy.pool(machine.pool) is None and not is_own(machine)
    return gone and snapshot.policy.removed_pools == "keep"


def _of_no_pool(machine: Machine) -> Explanation:
    return Explanation(Reason.POOL_REMOVED, f"pool {machine.pool} is no longer in the settings")


def expires_at(snapshot: Snapshot, machine: Machine) -> float | None:
    pool = snapshot.policy.pool(machine.pool)
    if pool is None or pool.expire_after is None:
        return None
    # From when it is of use: a pool whose machines boot for long would replace them for ever.
    return (machine.ready_at or machine.intended_at) + pool.expire_after


def _drift(snapshot: Snapshot, machine: Machine, pool: Pool) -> str:
    if not _allows_type(snapshot, machine, pool):
        return f"pool {pool.name} no longer allows its type {machine.instance_type}"
    if pool.locations and machine.location not in pool.locations:
        return f"pool {pool.name} no longer allows its location {machine.location}"
    if machine.market not in pool.markets():
        return f"pool {pool.name} no longer allows its market {machine.market}"
    if others := changed(machine.made_with, _made_with(pool)):
        return f"made with other settings of pool {pool.name}: {', '.join(others)}"
    return ""


def _allows_type(snapshot: Snapshot, machine: Machine, pool: Pool) -> bool:
    """By the catalogue, where the type is still sold; by its name alone otherwise."""
    kind = _types(snapshot.offers).get(machine.instance_type)
    if kind is not None:
        return allows_type(pool, kind)
    named = {name.upper() for name in pool.instance_types}
    return not named or machine.instance_type.upper() in named


@remembered
def _types(offers: tuple[Offer, ...]) -> dict[str, InstanceType]:
    return {offer.type.name: offer.type for offer in reversed(offers)}


_made_with = remembered(made_with, most=1000)  # one for each pool
