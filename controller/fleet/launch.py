"""Buying one machine: the intent is written, the script is uploaded, the order goes out once.

Whatever happens in between, the order is never sent twice: an outcome that is not known leaves the
record as an intent, and only the inventory decides what became of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from controller.cloud.protocol import Cloud, CloudError
from controller.cluster.protocol import ClusterError
from controller.domain import names
from controller.domain.cloudthings import InstanceType, Offer
from controller.domain.machine import Machine
from controller.domain.outcome import Happened, Outcome, Refused, Unknown
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.fleet.account import Account
from controller.fleet.dressing import taints_at_start
from controller.fleet.marks import order_for
from controller.join.protocol import Joiner, JoinError, Joining
from controller.planning.predict import own_labels


class Permission(Protocol):
    """Whether money may be spent at this very moment (the lease is held, with margin)."""

    def __call__(self) -> bool: ...


class Launched(msgspec.Struct, frozen=True, kw_only=True):
    outcome: Outcome
    script_id: str = ""  # of a script that was uploaded for this machine


class Launcher:
    def __init__(self, cloud: Cloud, joiner: Joiner, may_spend: Permission, account: Account) -> None:
        self._cloud = cloud
        self._joiner = joiner
        self._may_spend = may_spend
        self._account = account

    def _objection(self) -> Refused | None:
        """Why nothing may be bought at this very moment."""
        if not self._may_spend():
            return Refused(Reason.NOT_LEADER, "the lease was lost before the order")
        return Refused(Reason.VANISHED, self._account.doubt) if self._account.doubt else None

    async def launch(
        self,
        policy: Policy,
        machine: Machine,
        kind: InstanceType,
        uploaded: Callable[[str], None] = lambda script_id: None,
        last_word: Callable[[], Refused | None] = lambda: None,
    ) -> Launched:
        """Carry out one intent that the ledger holds already. `uploaded` hears at once of a script of its own,
        `last_word` is asked immediately before the order goes out."""
        pool = policy.pool(machine.pool)
        if pool is None:
            return Launched(
                outcome=Refused(Reason.NO_POOLS, f"pool {machine.pool} is not configured any more")
            )
        offer = Offer(type=kind, location=machine.location, market=machine.market)
        joining = Joining(
            cluster_id=policy.cluster_id,
            intent=machine.intent,
            name=machine.name,
            provider_id=names.provider_id(machine.name),
            labels=own_labels(pool, offer, machine.name),
            taints=taints_at_start(pool),
            gpus=machine.gpus,
            entry=pool.join,
        )
        try:
            prepared = await self._joiner.prepare(joining)
        except (JoinError, ClusterError, CloudError) as error:
            # Nothing was sent to the cloud yet, so for certain nothing was bought.
            return Launched(outcome=Refused(Reason.JOIN_UNPREPARED, str(error)))
        script_id, own_script = prepared.script_id, ""
        if prepared.script:
            if (objection := self._objection()) is not None:
                return Launched(outcome=objection)
            made = await self._cloud.create_script(
                names.script_name(policy.cluster_id, machine.intent), prepared.script
            )
            if isinstance(made, Refused) and made.reason is Reason.QUOTA:
                return Launched(
                    outcome=Refused(Reason.LIMIT_SCRIPTS, made.message)
                )  # not the machine's quota
            if isinstance(made, Refused):
                return Launched(outcome=made)
            if isinstance(made, Unknown):
                # The script costs nothing and is found by its name later; the machine was not ordered.
                return Launched(outcome=Refused(Reason.UNAVAILABLE, made.message))
            script_id = own_script = made.id
            uploaded(own_script)
        if (objection := self._objection() or last_word()) is not None:
            return Launched(outcome=objection, script_id=own_script)
        order = order_for(policy, pool, machine, kind, script_id)
        outcome = await self._cloud.create(order)
        if isinstance(outcome, Happened) and not outcome.id:
            outcome = Unknown("the answer to the order names no machine")
        return Launched(outcome=outcome, script_id=own_script)
