"""One project of the sandbox cloud: its instances, disks, scripts, keys, tags, journal and money.

Credentials belong to a project, and everything that a client can list belongs to one too. Time, stock,
the catalogue and the knobs are the same for all and live in the `Ground`; what others say about those
to a project is passed on to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from controller.sandbox.cloud.billing import SECOND, Account, Meter
from controller.sandbox.cloud.catalogue import Catalogue, InstanceType
from controller.sandbox.cloud.ground import Ground, OutcomeRule
from controller.sandbox.cloud.model import Instance, Outcome, Tag, Volume
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.spread import Spread
from controller.sandbox.cloud.stock import Stock
from controller.sandbox.cloud.texts import Event, Script, SshKey

FIRST_PROJECT = "default"


@dataclass(slots=True)
class State:
    ground: Ground
    project: str = FIRST_PROJECT
    account: Account = field(init=False)
    instances: dict[str, Instance] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    scripts: dict[str, Script] = field(default_factory=dict)
    ssh_keys: dict[str, SshKey] = field(default_factory=dict)
    tags: dict[tuple[str, str], Tag] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    creates: int = 0
    on_empty: Callable[[], None] | None = None  # what happens when the balance is used up

    def __post_init__(self) -> None:
        settings = self.settings
        self.account = Account(
            settings.balance, settings.billing, round(settings.billing_increment_s * SECOND)
        )
        self.ground.payers.append(self)

    # -- what all projects share

    @property
    def settings(self) -> Settings:
        return self.ground.settings

    @property
    def now(self) -> float:
        return self.ground.now

    @property
    def rng(self) -> random.Random:
        return self.ground.rng

    @property
    def catalogue(self) -> Catalogue:
        return self.ground.catalogue

    @property
    def stock(self) -> Stock:
        return self.ground.stock

    @property
    def outcomes(self) -> list[OutcomeRule]:
        return self.ground.outcomes

    @outcomes.setter
    def outcomes(self, rules: list[OutcomeRule]) -> None:
        self.ground.outcomes = rules

    def advance(self) -> None:
        self.ground.advance()

    def next_moment(self) -> float | None:
        return self.ground.next_moment()

    def later(self, machine_seconds: float, action: Callable[[], None]) -> None:
        self.ground.later(machine_seconds, action)

    def draw(self, spread: Spread) -> float:
        return self.ground.draw(spread)

    def sold(self) -> Mapping[str, InstanceType]:
        return self.ground.sold()

    def type_named(self, name: str) -> InstanceType | None:
        return self.ground.sold().get(name)

    def outcome_for(self, kind: str, location: str, market: str) -> Outcome | None:
        return self.ground.outcome_for(kind, location, market)

    def new_id(self) -> str:
        return self.ground.new_id()

    def change(self, settings: Settings, *, balance: Decimal | None = None) -> None:
        """New knobs, for every project; the balance is this one's alone."""
        ground = self.ground
        ground.change(settings)
        for payer in ground.payers:
            if isinstance(payer, State):
                increment = round(settings.billing_increment_s * SECOND)
                payer.account.rescheme(settings.billing, increment, ground.machine)
        if balance is not None:
            self.account.add(balance - self.balance)

    # -- money

    def cost(self, things: Iterable[Instance] | Iterable[Volume]) -> Decimal:
        return sum((self.account.cost(thing.meter, self.ground.machine) for thing in things), Decimal(0))

    @property
    def balance(self) -> Decimal:
        return self.account.balance(self.ground.machine)

    def start(self, meter: Meter) -> None:
        if meter.began_at is None:
            meter.began_at = self.now
        self.account.start(meter, self.ground.machine)

    def stop(self, meter: Meter) -> None:
        if meter.since is not None:
            meter.ended_at = self.now
        self.account.stop(meter, self.ground.machine)

    def next_payment(self) -> int | None:
        return self.account.next_moment(self.ground.machine)

    def pay(self) -> None:
        if self.account.pay(self.ground.machine):
            return
        for meter in self.account.stop_all(self.ground.machine):  # no cent below zero, whoever listens
            meter.ended_at = self.now
        if self.on_empty is not None:
            self.on_empty()

    # -- names and notes

    def tag(self, key: str, value: str) -> Tag:
        """The project-wide tag of this pair."""
        pair = (key, value)
        if pair not in self.tags:
            self.tags[pair] = Tag(f"tag_{self.rng.getrandbits(64):016x}", key, value)
        return self.tags[pair]

    def note(
        self,
        instance: Instance,
        action: str,
        *,
        by: str = "",
        error: str | None = None,
        **properties: Any,
    ) -> None:
        """An event for the journal; `by` is who asked for it: api, console or nobody."""
        self.events.append(Event(self.new_id(), self.now, instance.id, action, by, error, dict(properties)))
