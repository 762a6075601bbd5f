"""What every task on a switched machine works with, and the small steps that all of them take."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import msgspec

from controller.cloud.protocol import Endpoints
from controller.cluster.protocol import Writer
from controller.domain import names
from controller.domain.kube import Node, Pod, Taint
from controller.domain.machine import Machine
from controller.domain.policy import Deadlines
from controller.domain.reason import Reason
from controller.domain.switching import Power, Switch, Switched, as_machine
from controller.fleet.ledger import Ledger
from controller.fleet.listener import Listener
from controller.fleet.removal import HARD, Removal
from controller.fleet.tasks import Grounded

AGAIN = (Reason.UNAVAILABLE, Reason.RATE_LIMITED)  # certainly without effect, and worth another try


@dataclass
class Means:
    """`endpoints` and `limits` follow the settings: what is under way asks the new ones next."""

    ledger: Ledger
    endpoints: Endpoints
    removal: Removal
    writer: Writer
    listener: Listener
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    may_act: Callable[[], bool]
    may_spend: Callable[[], bool]
    rng: random.Random
    limits: Deadlines
    node: Callable[[str], Node | None]  # as it was seen last
    waiting: Callable[[], Iterable[Pod]]  # for a node
    restored: Callable[[str], None] = lambda _name: None
    closing: Taint = HARD  # keeps pods off a machine that goes

    def record_in(self, name: str, power: Power) -> Switched | None:
        record = self.ledger.switched.get(name)
        return record if record is not None and record.power is power else None

    def same_wish(self, record: Switched) -> Switched | None:
        """The record of one that is called off, as it is now; None where it is of another wish."""
        here = self.record_in(record.name, Power.FALLING)
        return here if here is not None and here.call == record.call else None

    def lead(self) -> None:
        if not self.may_act():
            raise Grounded

    async def change(self, switch: Switch, **fields: object) -> Switched:
        """Written down, and stored before anything else happens."""
        return await self.put(switch, msgspec.structs.replace(self.ledger.switched[switch.name], **fields))

    async def put(self, switch: Switch, after: Switched) -> Switched:
        before = self.ledger.switched[switch.name]
        self.ledger.put_switched(after)
        await self.ledger.flush()
        if after.power is not before.power:
            self.listener.switched(switch, before, after)
        return after

    def new_call(self) -> str:
        return "".join(self.rng.choice(names.INTENT_ALPHABET) for _ in range(names.INTENT_LENGTH))

    def machine(self, switch: Switch) -> Machine:
        machine = as_machine(self.ledger.switched[switch.name], switch)
        if machine is None:
            raise Grounded
        return machine
